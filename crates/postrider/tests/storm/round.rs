//! One round of the storm: four phases on a new outbox, and the result.
//!
//! 1. the storm
//! 2. quiet: one slow writer, one quick one, readers that poll often
//! 3. the storm, with one transaction open from its beginning to its end that writes an event now and then and rests
//!    in between
//! 4. the storm again

use std::sync::Arc;
use std::time::Duration;

use postrider::{Error, Result};
use postrider_testkit::audit::{Sighting, Verdict};
use tokio::task::{JoinHandle, JoinSet};

use super::database::{Database, Session};
use super::postgres::failed;
use super::reader::{Findings, Log, Reader};
use super::weather::Weather;
use super::writers::{Manner, Tally, Writer};

pub(crate) const WRITERS: u64 = 16;

/// Events that are not delivered within this time wait for the open transaction.
const LONG: Duration = Duration::from_secs(60);

/// A task that has not ended within this time never will: the longest statement of a storm takes milliseconds.
const STUCK: Duration = Duration::from_secs(180);

/// How long the open transaction is idle: readers see that, and then it takes another position.
const REST: Duration = Duration::from_millis(120);

/// The key that only the open transaction writes.
const OPEN: &str = "open";

/// How long a round is, and whether its readers are to deliver everything that is committed at any time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) phase: Duration,
    pub(crate) delivers_all: bool,
    /// The second phase and no other.
    pub(crate) quiet_alone: bool,
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) tally: Tally,
    pub(crate) events: u64,
    pub(crate) readers: Vec<(String, Verdict, Findings)>,
}

/// Runs a round.
pub(crate) async fn run<D: Database>(
    database: &Arc<D>,
    plan: Plan,
    readers: Vec<Box<dyn Reader>>,
) -> Result<Round> {
    let weather = Arc::new(Weather::default());
    let mut running: Vec<Running> = Vec::new();
    for reader in readers {
        let (name, log) = (reader.name(), reader.log());
        running.push(Running { name, log, task: tokio::spawn(reader.run(weather.clone())) });
    }
    let mut storm =
        Storm { plan, database: database.clone(), weather, writers: Vec::new(), tally: Tally::default() };
    for name in 0..WRITERS {
        storm.writers.push(Writer::new(database, plan.seed, name).await?);
    }

    if !plan.quiet_alone {
        storm.phase(&[Manner::Storm; WRITERS as usize]).await?;
    }
    storm.weather.set_quiet(true);
    storm.phase(&[Manner::Slow, Manner::Quick]).await?;
    storm.weather.set_quiet(false);
    if !plan.quiet_alone {
        storm.phase_with_an_open_transaction(&running).await?;
        storm.phase(&[Manner::Storm; WRITERS as usize]).await?;
    }
    storm.weather.end();

    let committed = storm.committed().await?;
    let mut round = Round { tally: storm.tally, events: committed.len() as u64, readers: Vec::new() };
    for Running { name, log, task } in running {
        let findings = unless_stuck(&**database, plan.seed, &name, task).await.map_err(failed)??;
        round.readers.push((name, log.audit(&committed), findings));
    }
    Ok(round)
}

/// Waits, and fails with the activity of the server instead of waiting forever.
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

/// A reader at work.
struct Running {
    name: String,
    log: Arc<Log>,
    task: JoinHandle<Result<Findings>>,
}

struct Storm<D: Database> {
    plan: Plan,
    database: Arc<D>,
    weather: Arc<Weather>,
    writers: Vec<Writer<D>>,
    tally: Tally,
}

impl<D: Database> Storm<D> {
    /// The first writers write for a while, each in its manner. At the end every transaction of theirs is over.
    async fn phase(&mut self, manners: &[Manner]) -> Result<()> {
        self.weather.set_writing(true);
        let mut running = JoinSet::new();
        for (writer, manner) in self.writers.drain(..manners.len()).zip(manners) {
            running.spawn(writer.run(*manner, self.weather.clone()));
        }
        tokio::time::sleep(self.plan.phase).await;
        self.weather.set_writing(false);
        while let Some(ended) =
            unless_stuck(&*self.database, self.plan.seed, "a writer", running.join_next()).await
        {
            let (writer, tally) = ended.map_err(failed)??;
            self.writers.push(writer);
            self.tally += tally;
        }
        Ok(())
    }

    /// Readers must have delivered everything else while the transaction is still open.
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
        self.phase(&[Manner::Storm; WRITERS as usize]).await?;
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

    /// A key whose row one session holds, and another session that waits for it.
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
        let said = panicked.downcast_ref::<String>().unwrap();
        assert!(said.starts_with("STORM_SEED=7: a writer is stuck\n"), "{said}");
        assert!(said.contains("waits for transactionid {"), "{said}");
        assert!(said.contains("idle in transaction"), "{said}");
        holds.rollback().await?;
        database.remove().await
    }
}
