//! The library's claimer by itself: delivers what it claims, and loses its memory now and then.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Mark, Progress};
use postrider::store::{Budget, Claimed, Claimer, Store};
use postrider::{BoxFuture, Result, StoredEvent};
use postrider_testkit::audit::Sighting;

use super::database::{Database, Proof};
use super::dice::Dice;
use super::postgres::failed;
use super::reader::{Findings, Log, Reader};
use super::weather::Weather;

/// What is not proven by then is not proven at all.
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Alone<D: Database> {
    database: Arc<D>,
    proof: Proof,
    dice: Dice,
    log: Arc<Log>,
    progress: Progress,
    findings: Findings,
}

impl<D: Database> Alone<D> {
    pub(crate) fn new(database: &Arc<D>, proof: Proof, seed: u64) -> Self {
        Self {
            database: database.clone(),
            proof,
            dice: Dice::new(seed, 1_000 + proof as u64),
            log: Arc::default(),
            progress: Progress::default(),
            findings: Findings::default(),
        }
    }

    async fn read(mut self, weather: Arc<Weather>) -> Result<Findings> {
        let store = self.database.store(self.proof).await?;
        while !weather.is_over() {
            self.session(&*store, &weather).await?;
        }
        let last = self.database.committed().await?.last().map_or(0, |event| event.position);
        tokio::time::timeout(LONG, self.finish(&*store, last, &weather)).await.map_err(failed)??;
        Ok(self.findings)
    }

    /// Claims for a while with one claimer, in small pages, and on until it has seen the end once: who forgets all
    /// holes before that, time and again, never gets past them.
    async fn session(&mut self, store: &dyn Store, weather: &Weather) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        let mut has_unread = true;
        for _ in 0..self.dice.below(60 * self.database.patience()) + 2 {
            let events_max = usize::try_from(self.dice.below(60)).unwrap_or(0) + 1;
            has_unread &= self.claim(&mut *claimer, events_max, weather).await?;
            self.dice.pause(weather.poll_micros_max()).await;
        }
        while has_unread && !weather.is_over() {
            has_unread = self.claim(&mut *claimer, 500, weather).await?;
        }
        self.findings.crashes += 1;
        Ok(())
    }

    /// Claims until everything up to a position is delivered or empty.
    async fn finish(&mut self, store: &dyn Store, last: i64, weather: &Weather) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        while self.progress.done.floor().get() < last {
            self.claim(&mut *claimer, 1_000, weather).await?;
        }
        Ok(())
    }

    /// Answers whether there is more than was read.
    async fn claim(
        &mut self,
        claimer: &mut dyn Claimer,
        events_max: usize,
        weather: &Weather,
    ) -> Result<bool> {
        let claimed = claimer.claim(Budget { events_max, bytes_max: 1 << 20 }).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change: {claimed:?}") };
        for event in &page.events {
            self.progress.done.insert(event.position);
            let mark = Mark { position: event.position, id: event.event.id };
            let highest = self.progress.highest.filter(|known| known.position > mark.position);
            self.progress.highest = highest.or(Some(mark));
            self.log.deliver(sighting(event));
        }
        self.findings.holes_max = self.findings.holes_max.max(page.holes as u64);
        for (first, last) in page.empty_positions {
            self.progress.done.insert_range(first, last);
            self.findings.declared_empty += u64::from(weather.is_writing());
        }
        Ok(page.has_unread)
    }
}

impl<D: Database> Reader for Alone<D> {
    fn name(&self) -> String {
        match self.proof {
            Proof::Default => "claimer, both proofs".to_owned(),
            Proof::WritersAtOnce => "claimer, writers listed at once".to_owned(),
            Proof::HorizonAlone => "claimer, horizon alone".to_owned(),
        }
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, weather: Arc<Weather>) -> BoxFuture<'static, Result<Findings>> {
        Box::pin(self.read(weather))
    }
}

fn sighting(StoredEvent { event, .. }: &StoredEvent) -> Sighting {
    let version = std::str::from_utf8(&event.payload).unwrap().parse().unwrap();
    Sighting { id: event.id, key: event.ordering_key().unwrap().into_owned(), version }
}
