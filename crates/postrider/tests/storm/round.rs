//! One round of the storm: four phases on a new outbox, and the result.
//!
//! 1. the storm
//! 2. quiet: one slow writer, one quick writer, and readers that poll often
//! 3. the storm, with one transaction that is open during the whole phase, writes an event now and then, and is idle in
//!    between
//! 4. the storm again

use std::sync::Arc;
use std::time::Duration;

use postrider::{Error, Result};
use postrider_testkit::verify::{Sighting, Verdict};
use tokio::task::{JoinHandle, JoinSet};

use super::database::{Database, Session};
use super::postgres::failed;
use super::reader::{Log, Reader, ReaderStats};
use super::storm_state::StormState;
use super::writers::{OperationCounts, Writer, WriterMode};

pub(crate) const WRITERS: u64 = 16;

/// Events that are not delivered within this time are blocked by the open transaction.
const LONG: Duration = Duration::from_secs(60);

/// A task that has not ended within this time is stuck: the longest statement of a storm takes milliseconds.
const STUCK: Duration = Duration::from_secs(180);

/// How long the open transaction is idle. Readers notice that; then it takes another position.
const REST: Duration = Duration::from_millis(120);

/// The key that only the open transaction writes.
const OPEN: &str = "open";

/// The length of a round, and whether its readers must deliver all committed events at any time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) phase: Duration,
    pub(crate) delivers_all: bool,
    /// Run only the second phase.
    pub(crate) quiet_only: bool,
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) counts: OperationCounts,
    pub(crate) events: u64,
    pub(crate) readers: Vec<(String, Verdict, ReaderStats)>,
}

/// Runs a round.
pub(crate) async fn run<D: Database>(
    database: &Arc<D>,
    plan: Plan,
    readers: Vec<Box<dyn Reader>>,
) -> Result<Round> {
    let storm_state = Arc::new(StormState::default());
    let mut running: Vec<Running> = Vec::new();
    for reader in readers {
        let (name, log) = (reader.name(), reader.log());
        running.push(Running { name, log, task: tokio::spawn(reader.run(storm_state.clone())) });
    }
    let mut storm = Storm {
        plan,
        database: database.clone(),
        storm_state,
        writers: Vec::new(),
        counts: OperationCounts::default(),
    };
    for name in 0..WRITERS {
        storm.writers.push(Writer::new(database, plan.seed, name).await?);
    }

    if !plan.quiet_only {
        storm.phase(&[WriterMode::Storm; WRITERS as usize]).await?;
    }
    storm.storm_state.set_quiet(true);
    storm.phase(&[WriterMode::Slow, WriterMode::Quick]).await?;
    storm.storm_state.set_quiet(false);
    if !plan.quiet_only {
        storm.phase_with_an_open_transaction(&running).await?;
        storm.phase(&[WriterMode::Storm; WRITERS as usize]).await?;
    }
    storm.storm_state.end();

    let committed = storm.committed().await?;
    let mut round = Round { counts: storm.counts, events: committed.len() as u64, readers: Vec::new() };
    for Running { name, log, task } in running {
        let stats = unless_stuck(&**database, plan.seed, &name, task).await.map_err(failed)??;
        round.readers.push((name, log.verify(&committed), stats));
    }
    Ok(round)
}

/// Waits for a future. If it is stuck, fails with the activity of the server.
pub(crate) async fn unless_stuck<D: Database, T>(
    database: &D,
    seed: u64,
    who: &str,
    ends: impl Future<Output = T>,
) -> T {
    unless_stuck_for(STUCK, database, seed, who, ends).await
}

async fn unless_stuck_for<D: Database, T>(
    time: Duration,
    database: &D,
    seed: u64,
    who: &str,
    ends: impl Future<Output = T>,
) -> T {
    match tokio::time::timeout(time, ends).await {
        Ok(ended) => ended,
        Err(_) => {
            let activity = tokio::time::timeout(LONG, database.activity()).await;
            let activity = match activity {
                Ok(Ok(lines)) => lines,
                Ok(Err(error)) => error.report(),
                Err(_) => "the server does not report its activity".to_owned(),
            };
            panic!("STORM_SEED={seed}: {who} is stuck\n{activity}");
        }
    }
}

/// A running reader.
struct Running {
    name: String,
    log: Arc<Log>,
    task: JoinHandle<Result<ReaderStats>>,
}

struct Storm<D: Database> {
    plan: Plan,
    database: Arc<D>,
    storm_state: Arc<StormState>,
    writers: Vec<Writer<D>>,
    counts: OperationCounts,
}

impl<D: Database> Storm<D> {
    /// The first writers write for a while, each in its mode. At the end, all their transactions have ended.
    async fn phase(&mut self, modes: &[WriterMode]) -> Result<()> {
        self.storm_state.set_writing(true);
        let mut running = JoinSet::new();
        for (writer, mode) in self.writers.drain(..modes.len()).zip(modes) {
            running.spawn(writer.run(*mode, self.storm_state.clone()));
        }
        tokio::time::sleep(self.plan.phase).await;
        self.storm_state.set_writing(false);
        while let Some(ended) =
            unless_stuck(&*self.database, self.plan.seed, "a writer", running.join_next()).await
        {
            let (writer, counts) = ended.map_err(failed)??;
            self.writers.push(writer);
            self.counts += counts;
        }
        Ok(())
    }

    /// While the transaction is still open, readers must have delivered all other events.
    async fn phase_with_an_open_transaction(&mut self, readers: &[Running]) -> Result<()> {
        let mut open = self.database.connect().await?;
        open.begin(None).await?;
        open.write(OPEN).await?;
        let (over, mut is_over) = tokio::sync::oneshot::channel::<()>();
        let writing = tokio::spawn(async move {
            let mut written = 1;
            while tokio::time::timeout(REST, &mut is_over).await.is_err() {
                open.write(OPEN).await?;
                written += 1;
            }
            Ok::<_, Error>((open, written))
        });
        self.phase(&[WriterMode::Storm; WRITERS as usize]).await?;
        _ = over.send(());
        let (mut open, written) = writing.await.map_err(failed)??;
        let others = self.committed().await?;
        if self.plan.delivers_all {
            for reader in readers {
                let all = tokio::time::timeout(LONG, reader.log.until_delivered(&others)).await;
                assert!(
                    all.is_ok(),
                    "{}: {} events wait for a transaction that is not theirs",
                    reader.name,
                    reader.log.missing(&others)
                );
            }
        }
        assert!(
            !readers.iter().any(|reader| reader.log.has(OPEN)),
            "an event was read that was not committed"
        );
        open.commit().await?;
        let committed = self.committed().await?;
        assert_eq!(committed.len(), others.len() + written, "no other writer wrote after the phase");
        Ok(())
    }

    async fn committed(&self) -> Result<Vec<Sighting>> {
        Ok(self.database.committed().await?.into_iter().map(|event| event.sighting).collect())
    }
}

#[cfg(test)]
mod tests {
    use postrider_testkit::servers;

    use super::*;
    use crate::postgres::Postgres;

    /// One session holds the row of a key, and another one waits for it.
    #[tokio::test]
    async fn a_stuck_storm_ends_and_reports_which_session_waits_for_which() -> Result<()> {
        let Some(url) = servers::postgres::url() else { return Ok(()) };
        let database = Arc::new(Postgres::new(url, 1).await?);
        let (mut holds, mut waits) = (database.connect().await?, database.connect().await?);
        holds.begin(None).await?;
        holds.write("k0").await?;
        let stuck = tokio::spawn({
            let database = database.clone();
            async move {
                let write = waits.write("k0");
                unless_stuck_for(Duration::from_millis(300), &*database, 7, "a writer", write).await
            }
        });
        let panicked = stuck.await.unwrap_err().into_panic();
        let message = panicked.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("STORM_SEED=7: a writer is stuck\n"), "{message}");
        assert!(message.contains("waits for transactionid {"), "{message}");
        assert!(message.contains("idle in transaction"), "{message}");
        holds.rollback().await?;
        database.remove().await
    }
}
