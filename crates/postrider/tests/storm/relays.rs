//! Three relays on one subscription. At any moment, one of them crashes or is shut down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::Start;
use postrider::{BoxFuture, Result};
use postrider_testkit::verify::Sighting;

use super::database::{Database, Proof};
use super::postgres::failed;
use super::reader::{Log, Reader, ReaderStats};
use super::rng::Rng;
use super::storm_state::StormState;

const RELAYS: usize = 3;

/// The maximum number of duplicates per crash.
const WINDOW: u64 = 200;

/// An event that is not delivered within this time is lost.
const LONG: Duration = Duration::from_secs(60);

const NAME: &str = "storm";

pub(crate) struct RelayGroup<D: Database> {
    database: Arc<D>,
    rng: Rng,
    seed: u64,
    log: Arc<Log>,
    relays: Vec<Relay>,
    started: u64,
    crashes: u64,
}

impl<D: Database> RelayGroup<D> {
    pub(crate) fn new(database: &Arc<D>, seed: u64) -> Self {
        let (database, rng) = (database.clone(), Rng::new(seed, 2_000));
        Self { database, rng, seed, log: Arc::default(), relays: Vec::new(), started: 0, crashes: 0 }
    }

    async fn work(mut self, storm_state: Arc<StormState>) -> Result<ReaderStats> {
        while !storm_state.is_over() {
            if storm_state.is_quiet() {
                // Their settles would be transactions besides the two of this phase.
                self.shut_down().await?;
            } else {
                self.start_missing().await?;
            }
            self.wait(&storm_state).await;
            if !storm_state.is_quiet() && !self.relays.is_empty() {
                self.stop_one().await?;
            }
        }
        self.start_missing().await?;
        let wanted: Vec<_> =
            self.database.committed().await?.into_iter().map(|event| event.sighting).collect();
        let all = tokio::time::timeout(LONG, self.log.until_delivered(&wanted)).await;
        self.shut_down().await?;
        all.map_err(failed)?;
        let overview = self.database.store(Proof::Default).await?.overview(0).await?;
        let subscription = overview.subscriptions.into_iter().find(|known| known.name == NAME);
        let takeovers = subscription.map_or(0, |known| known.epoch.0.unsigned_abs().saturating_sub(1));
        let duplicates_max = takeovers * WINDOW;
        Ok(ReaderStats { crashes: self.crashes, takeovers, duplicates_max, ..ReaderStats::default() })
    }

    async fn start_missing(&mut self) -> Result<()> {
        let policy = Policy::default()
            .lease(Duration::from_millis(600))
            .window_events_max(WINDOW as usize)
            .batch_events_max(60)
            .poll_max(Duration::from_millis(30))
            .flush_interval(Duration::from_millis(20))
            // No event of this storm kills a relay, however often a relay dies with it.
            .trial_deaths_max(10_000);
        while self.relays.len() < RELAYS {
            self.started += 1;
            let rng = Mutex::new(Rng::new(self.seed, 3_000 + self.started));
            let sink = Recorder { log: self.log.clone(), rng };
            let subscription = Subscription::new(NAME, sink).start(Start::Beginning).policy(policy.clone());
            let store = self.database.store(Proof::Default).await?;
            self.relays.push(Relay::builder().outbox(store, [subscription]).spawn().await?);
        }
        Ok(())
    }

    /// Waits for up to a second, or until the phase changes.
    async fn wait(&mut self, storm_state: &StormState) {
        let quiet = storm_state.is_quiet();
        for _ in 0..self.rng.below(40 * self.database.patience()) + 2 {
            if storm_state.is_over() || storm_state.is_quiet() != quiet {
                return;
            }
            self.rng.pause(40_000).await;
        }
    }

    /// Dropping a relay ends it at any point.
    async fn stop_one(&mut self) -> Result<()> {
        let index = usize::try_from(self.rng.below(self.relays.len() as u64)).unwrap_or(0);
        let relay = self.relays.swap_remove(index);
        if self.rng.one_in(4) {
            return relay.shutdown().await;
        }
        self.crashes += 1;
        drop(relay);
        Ok(())
    }

    async fn shut_down(&mut self) -> Result<()> {
        for relay in self.relays.drain(..) {
            relay.shutdown().await?;
        }
        Ok(())
    }
}

impl<D: Database> Reader for RelayGroup<D> {
    fn name(&self) -> String {
        format!("{RELAYS} relays that crash and move")
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, storm_state: Arc<StormState>) -> BoxFuture<'static, Result<ReaderStats>> {
        Box::pin(self.work(storm_state))
    }
}

/// Records deliveries, and may be stopped between any two of them.
struct Recorder {
    log: Arc<Log>,
    rng: Mutex<Rng>,
}

impl Recorder {
    fn is_slow(&self) -> bool {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).one_in(16)
    }
}

impl Sink for Recorder {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(batch.len());
            for message in batch {
                let version = std::str::from_utf8(&message.event.payload).unwrap().parse().unwrap();
                let key = message.key().unwrap().to_owned();
                self.log.deliver(Sighting { id: message.event.id, key, version });
                outcomes.push(Outcome::Acknowledged(Receipt::default()));
                if self.is_slow() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            outcomes
        })
    }
}
