//! The library's claimer without a relay: delivers what it claims, and crashes now and then.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{LastSeen, Progress};
use postrider::store::{Budget, Claimed, Claimer, Store};
use postrider::{BoxFuture, Result, StoredEvent};
use postrider_testkit::verify::Sighting;

use super::database::{Database, Proof};
use super::postgres::failed;
use super::reader::{Log, Reader, ReaderStats};
use super::rng::Rng;
use super::storm_state::StormState;

/// A hole that is not proven empty within this time never is.
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct ClaimerReader<D: Database> {
    database: Arc<D>,
    proof: Proof,
    rng: Rng,
    log: Arc<Log>,
    progress: Progress,
    stats: ReaderStats,
}

impl<D: Database> ClaimerReader<D> {
    pub(crate) fn new(database: &Arc<D>, proof: Proof, seed: u64) -> Self {
        Self {
            database: database.clone(),
            proof,
            rng: Rng::new(seed, 1_000 + proof as u64),
            log: Arc::default(),
            progress: Progress::default(),
            stats: ReaderStats::default(),
        }
    }

    async fn read(mut self, storm_state: Arc<StormState>) -> Result<ReaderStats> {
        let store = self.database.store(self.proof).await?;
        while !storm_state.is_over() {
            self.session(&*store, &storm_state).await?;
        }
        let last = self.database.committed().await?.last().map_or(0, |event| event.position);
        tokio::time::timeout(LONG, self.finish(&*store, last, &storm_state)).await.map_err(failed)??;
        Ok(self.stats)
    }

    /// Claims with one claimer, in small pages, and continues until it has reached the end once: a claimer that
    /// restarts before that, again and again, never proves a hole empty.
    async fn session(&mut self, store: &dyn Store, storm_state: &StormState) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        let mut has_unread = true;
        for _ in 0..self.rng.below(60 * self.database.patience()) + 2 {
            let events_max = usize::try_from(self.rng.below(60)).unwrap_or(0) + 1;
            has_unread &= self.claim(&mut *claimer, events_max, storm_state).await?;
            self.rng.pause(storm_state.poll_micros_max()).await;
        }
        while has_unread && !storm_state.is_over() {
            has_unread = self.claim(&mut *claimer, 500, storm_state).await?;
        }
        self.stats.crashes += 1;
        Ok(())
    }

    /// Claims until everything up to a position is delivered or empty.
    async fn finish(&mut self, store: &dyn Store, last: i64, storm_state: &StormState) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        while self.progress.done.floor().get() < last {
            self.claim(&mut *claimer, 1_000, storm_state).await?;
        }
        Ok(())
    }

    /// Returns whether there are unread events.
    async fn claim(
        &mut self,
        claimer: &mut dyn Claimer,
        events_max: usize,
        storm_state: &StormState,
    ) -> Result<bool> {
        let claimed = claimer.claim(Budget::new(events_max, 1 << 20)).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change: {claimed:?}") };
        for event in &page.events {
            self.progress.done.insert(event.position);
            let mark = LastSeen { position: event.position, id: event.event.id };
            let highest = self.progress.highest.filter(|known| known.position > mark.position);
            self.progress.highest = highest.or(Some(mark));
            self.log.deliver(sighting(event));
        }
        self.stats.holes_max = self.stats.holes_max.max(page.holes as u64);
        for (first, last) in page.empty_positions {
            self.progress.done.insert_range(first, last);
            self.stats.declared_empty += u64::from(storm_state.is_writing());
        }
        Ok(page.has_unread)
    }
}

impl<D: Database> Reader for ClaimerReader<D> {
    fn name(&self) -> String {
        match self.proof {
            Proof::Default => "claimer, both proofs".to_owned(),
            Proof::WritersAtOnce => "claimer, writers listed at once".to_owned(),
            Proof::HorizonOnly => "claimer, horizon only".to_owned(),
        }
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, storm_state: Arc<StormState>) -> BoxFuture<'static, Result<ReaderStats>> {
        Box::pin(self.read(storm_state))
    }
}

fn sighting(StoredEvent { event, .. }: &StoredEvent) -> Sighting {
    let version = std::str::from_utf8(&event.payload).unwrap().parse().unwrap();
    Sighting { id: event.id, key: event.ordering_key().unwrap().into_owned(), version }
}
