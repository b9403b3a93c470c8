//! Writers that pause between taking a position and the commit, and do not always commit.
//!
//! Every key has a row with a version. A writer locks the row, increments the version and writes it as an event. The
//! events of each key must therefore arrive as 1, 2, 3 and so on, whatever was rolled back in between.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use postrider::Result;

use super::database::{Database, Session};
use super::rng::Rng;
use super::storm_state::StormState;

/// Few enough that writers often use the same key.
pub(crate) const KEYS: u64 = 24;

/// The longest pause within a transaction.
const PAUSE_MICROS: u64 = 8_000;

/// How a writer behaves in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterMode {
    /// All operations.
    Storm,
    /// Long transactions, one after another.
    Slow,
    /// Short transactions. Half of them begin long before they write.
    Quick,
}

pub(crate) struct Writer<D: Database> {
    database: Arc<D>,
    session: D::Session,
    rng: Rng,
    name: u64,
    counts: OperationCounts,
}

/// The operations of writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Transaction,
    Rollback,
    Savepoint,
    FailedStatement,
    Prepared,
    Bulk,
    LostConnection,
}

impl Operation {
    /// Every operation except a plain transaction.
    pub(crate) const SPECIAL: [Self; 6] = [
        Self::Rollback,
        Self::Savepoint,
        Self::FailedStatement,
        Self::Prepared,
        Self::Bulk,
        Self::LostConnection,
    ];
}

/// How often each operation was performed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationCounts(BTreeMap<Operation, u64>);

impl OperationCounts {
    pub(crate) fn count(&mut self, operation: Operation) {
        *self.0.entry(operation).or_default() += 1;
    }

    pub(crate) fn of(&self, operation: Operation) -> u64 {
        self.0.get(&operation).copied().unwrap_or_default()
    }
}

impl AddAssign for OperationCounts {
    fn add_assign(&mut self, other: Self) {
        other.0.into_iter().for_each(|(operation, times)| *self.0.entry(operation).or_default() += times);
    }
}

impl<D: Database> Writer<D> {
    pub(crate) async fn new(database: &Arc<D>, seed: u64, name: u64) -> Result<Self> {
        let session = database.connect().await?;
        let rng = Rng::new(seed, name);
        Ok(Self { database: database.clone(), session, rng, name, counts: OperationCounts::default() })
    }

    /// Writes until the phase is over. Returns the writer, for the next phase, and its counts.
    pub(crate) async fn run(
        mut self,
        mode: WriterMode,
        storm_state: Arc<StormState>,
    ) -> Result<(Self, OperationCounts)> {
        while storm_state.is_writing() {
            self.counts.count(Operation::Transaction);
            match mode {
                WriterMode::Storm => self.storm().await?,
                WriterMode::Slow => self.slow().await?,
                WriterMode::Quick => self.quick().await?,
            }
        }
        let counts = std::mem::take(&mut self.counts);
        Ok((self, counts))
    }

    async fn storm(&mut self) -> Result<()> {
        let kind = self.rng.below(16);
        let global = format!("{} {}", self.name, self.counts.of(Operation::Transaction));
        let prepared = (kind == 0).then_some(global.as_str());
        self.session.begin(prepared).await?;
        if self.rng.one_in(3) {
            self.session.register_early().await?;
            self.pause().await;
        }
        match kind {
            0 => self.prepared(&global).await,
            1 => self.lose_connection().await,
            2 | 3 => self.roll_back().await,
            4 => self.fail().await,
            5 | 6 => self.write_after_a_savepoint_rollback().await,
            7 => self.release_a_savepoint().await,
            8 => self.fail_and_continue().await,
            9 | 10 => self.bulk().await,
            _ => {
                self.write().await?;
                self.pause().await;
                self.session.commit().await
            }
        }
    }

    /// Longer than several transactions of the quick writer.
    async fn slow(&mut self) -> Result<()> {
        self.session.begin(None).await?;
        self.write().await?;
        self.rng.pause(4 * PAUSE_MICROS).await;
        if self.rng.one_in(4) {
            self.counts.count(Operation::Rollback);
            self.session.rollback().await?;
        } else {
            self.session.commit().await?;
        }
        self.rng.pause(PAUSE_MICROS / 2).await;
        Ok(())
    }

    async fn quick(&mut self) -> Result<()> {
        self.session.begin(None).await?;
        if self.rng.one_in(2) {
            self.session.register_early().await?;
            self.pause().await;
        }
        self.write().await?;
        self.session.commit().await?;
        self.pause().await;
        Ok(())
    }

    async fn prepared(&mut self, name: &str) -> Result<()> {
        self.write().await?;
        self.pause().await;
        self.session.prepare(name).await?;
        self.pause().await;
        let commit = self.rng.one_in(2);
        self.counts.count(Operation::Prepared);
        if !commit {
            self.counts.count(Operation::Rollback);
        }
        self.session.decide(name, commit).await
    }

    /// Closes the connection while the transaction is open.
    async fn lose_connection(&mut self) -> Result<()> {
        self.write().await?;
        self.pause().await;
        self.counts.count(Operation::LostConnection);
        self.counts.count(Operation::Rollback);
        self.session = self.database.connect().await?;
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.write().await?;
        self.pause().await;
        self.counts.count(Operation::Rollback);
        self.session.rollback().await
    }

    async fn fail(&mut self) -> Result<()> {
        self.session.fail().await?;
        self.pause().await;
        self.counts.count(Operation::FailedStatement);
        self.counts.count(Operation::Rollback);
        self.session.rollback().await
    }

    async fn write_after_a_savepoint_rollback(&mut self) -> Result<()> {
        self.session.savepoint().await?;
        self.write().await?;
        self.pause().await;
        self.session.rollback_to_savepoint().await?;
        self.counts.count(Operation::Savepoint);
        self.write().await?;
        self.pause().await;
        self.session.commit().await
    }

    async fn release_a_savepoint(&mut self) -> Result<()> {
        let keys = self.keys(2);
        self.session.savepoint().await?;
        self.session.write(&keys[0]).await?;
        self.pause().await;
        self.session.release_savepoint().await?;
        self.counts.count(Operation::Savepoint);
        self.session.write(&keys[1]).await?;
        self.pause().await;
        self.session.commit().await
    }

    async fn fail_and_continue(&mut self) -> Result<()> {
        self.session.savepoint().await?;
        self.session.fail().await?;
        self.session.rollback_to_savepoint().await?;
        self.counts.count(Operation::FailedStatement);
        self.write().await?;
        self.pause().await;
        self.session.commit().await
    }

    async fn bulk(&mut self) -> Result<()> {
        let keys = self.keys(4);
        let versions = self.rng.below(5) + 1;
        self.session.write_many(&keys, i64::try_from(versions).unwrap_or(1)).await?;
        self.pause().await;
        self.counts.count(Operation::Bulk);
        self.session.commit().await
    }

    async fn write(&mut self) -> Result<()> {
        let key = format!("k{}", self.rng.below(KEYS));
        self.session.write(&key).await
    }

    /// Neighbouring keys, in the order in which every writer locks them.
    fn keys(&mut self, count: u64) -> Vec<String> {
        let first = self.rng.below(KEYS - count + 1);
        let mut keys: Vec<String> = (first..first + count).map(|key| format!("k{key}")).collect();
        keys.sort_unstable();
        keys
    }

    async fn pause(&mut self) {
        self.rng.pause(PAUSE_MICROS).await;
    }
}
