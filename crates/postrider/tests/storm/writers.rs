//! Writers that take their time between their position and their commit, and do not always commit.
//!
//! Every key has a row with a version; a writer locks the row, raises the version and writes it as an event.
//! So each key's events must arrive as 1, 2, 3 and so on, whatever was rolled back in between.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use postrider::Result;

use super::database::{Database, Session};
use super::dice::Dice;
use super::weather::Weather;

/// Hot enough that the order of a key matters.
pub(crate) const KEYS: u64 = 24;

/// Longest pause within a transaction.
const PAUSE_MICROS: u64 = 8_000;

/// How a writer behaves in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Everything that is allowed.
    Storm,
    /// One transaction after another, each open for long.
    Slow,
    /// Short transactions, many of them begun long before they write.
    Quick,
}

pub(crate) struct Writer<D: Database> {
    database: Arc<D>,
    session: D::Session,
    dice: Dice,
    name: u64,
    tally: Tally,
}

/// What writers do, besides committing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    Transaction,
    Rollback,
    Savepoint,
    FailedStatement,
    Prepared,
    Bulk,
    LostConnection,
}

impl Deed {
    /// Every deed except a plain transaction.
    pub(crate) const SPECIAL: [Self; 6] = [
        Self::Rollback,
        Self::Savepoint,
        Self::FailedStatement,
        Self::Prepared,
        Self::Bulk,
        Self::LostConnection,
    ];
}

/// How often the writers did what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<Deed, u64>);

impl Tally {
    pub(crate) fn count(&mut self, deed: Deed) {
        *self.0.entry(deed).or_default() += 1;
    }

    pub(crate) fn of(&self, deed: Deed) -> u64 {
        self.0.get(&deed).copied().unwrap_or_default()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        other.0.into_iter().for_each(|(deed, times)| *self.0.entry(deed).or_default() += times);
    }
}

impl<D: Database> Writer<D> {
    pub(crate) async fn new(database: &Arc<D>, seed: u64, name: u64) -> Result<Self> {
        let session = database.connect().await?;
        let dice = Dice::new(seed, name);
        Ok(Self { database: database.clone(), session, dice, name, tally: Tally::default() })
    }

    /// Writes until the phase is over. Answers itself, for the next one, and what it did.
    pub(crate) async fn run(mut self, manner: Manner, weather: Arc<Weather>) -> Result<(Self, Tally)> {
        while weather.is_writing() {
            self.tally.count(Deed::Transaction);
            match manner {
                Manner::Storm => self.storm().await?,
                Manner::Slow => self.slow().await?,
                Manner::Quick => self.quick().await?,
            }
        }
        let tally = std::mem::take(&mut self.tally);
        Ok((self, tally))
    }

    async fn storm(&mut self) -> Result<()> {
        let kind = self.dice.below(16);
        let global = format!("{} {}", self.name, self.tally.of(Deed::Transaction));
        let prepared = (kind == 0).then_some(global.as_str());
        self.session.begin(prepared).await?;
        if self.dice.one_in(3) {
            self.session.show_up_early().await?;
            self.pause().await;
        }
        match kind {
            0 => self.prepared(&global).await,
            1 => self.vanish().await,
            2 | 3 => self.roll_back().await,
            4 => self.fail().await,
            5 | 6 => self.take_back_to_a_savepoint().await,
            7 => self.release_a_savepoint().await,
            8 => self.fail_and_go_on().await,
            9 | 10 => self.bulk().await,
            _ => {
                self.write().await?;
                self.pause().await;
                self.session.commit().await
            }
        }
    }

    /// Open for as long as several of the quick ones.
    async fn slow(&mut self) -> Result<()> {
        self.session.begin(None).await?;
        self.write().await?;
        self.dice.pause(4 * PAUSE_MICROS).await;
        if self.dice.one_in(4) {
            self.tally.count(Deed::Rollback);
            self.session.rollback().await?;
        } else {
            self.session.commit().await?;
        }
        self.dice.pause(PAUSE_MICROS / 2).await;
        Ok(())
    }

    async fn quick(&mut self) -> Result<()> {
        self.session.begin(None).await?;
        if self.dice.one_in(2) {
            self.session.show_up_early().await?;
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
        let commit = self.dice.one_in(2);
        self.tally.count(Deed::Prepared);
        if !commit {
            self.tally.count(Deed::Rollback);
        }
        self.session.decide(name, commit).await
    }

    /// The connection is gone, with the transaction open.
    async fn vanish(&mut self) -> Result<()> {
        self.write().await?;
        self.pause().await;
        self.tally.count(Deed::LostConnection);
        self.tally.count(Deed::Rollback);
        self.session = self.database.connect().await?;
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.write().await?;
        self.pause().await;
        self.tally.count(Deed::Rollback);
        self.session.rollback().await
    }

    async fn fail(&mut self) -> Result<()> {
        self.session.fail().await?;
        self.pause().await;
        self.tally.count(Deed::FailedStatement);
        self.tally.count(Deed::Rollback);
        self.session.rollback().await
    }

    async fn take_back_to_a_savepoint(&mut self) -> Result<()> {
        self.session.savepoint().await?;
        self.write().await?;
        self.pause().await;
        self.session.rollback_to_savepoint().await?;
        self.tally.count(Deed::Savepoint);
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
        self.tally.count(Deed::Savepoint);
        self.session.write(&keys[1]).await?;
        self.pause().await;
        self.session.commit().await
    }

    async fn fail_and_go_on(&mut self) -> Result<()> {
        self.session.savepoint().await?;
        self.session.fail().await?;
        self.session.rollback_to_savepoint().await?;
        self.tally.count(Deed::FailedStatement);
        self.write().await?;
        self.pause().await;
        self.session.commit().await
    }

    async fn bulk(&mut self) -> Result<()> {
        let keys = self.keys(4);
        let versions = self.dice.below(5) + 1;
        self.session.write_many(&keys, i64::try_from(versions).unwrap_or(1)).await?;
        self.pause().await;
        self.tally.count(Deed::Bulk);
        self.session.commit().await
    }

    async fn write(&mut self) -> Result<()> {
        let key = format!("k{}", self.dice.below(KEYS));
        self.session.write(&key).await
    }

    /// Neighbours, in the order in which everybody locks them.
    fn keys(&mut self, count: u64) -> Vec<String> {
        let first = self.dice.below(KEYS - count + 1);
        let mut keys: Vec<String> = (first..first + count).map(|key| format!("k{key}")).collect();
        keys.sort_unstable();
        keys
    }

    async fn pause(&mut self) {
        self.dice.pause(PAUSE_MICROS).await;
    }
}
