//! Three relays on one subscription, of which one or another dies or leaves at any moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::Start;
use postrider::{BoxFuture, Result};
use postrider_testkit::audit::Sighting;

use super::database::{Database, Proof};
use super::dice::Dice;
use super::postgres::failed;
use super::reader::{Findings, Log, Reader};
use super::weather::Weather;

const RELAYS: usize = 3;

/// The bound on duplicates of one crash.
const WINDOW: u64 = 200;

/// What is not delivered by then is lost.
const LONG: Duration = Duration::from_secs(60);

const NAME: &str = "storm";

pub(crate) struct Crew<D: Database> {
    database: Arc<D>,
    dice: Dice,
    seed: u64,
    log: Arc<Log>,
    relays: Vec<Relay>,
    hired: u64,
    crashes: u64,
}

impl<D: Database> Crew<D> {
    pub(crate) fn new(database: &Arc<D>, seed: u64) -> Self {
        let (database, dice) = (database.clone(), Dice::new(seed, 2_000));
        Self { database, dice, seed, log: Arc::default(), relays: Vec::new(), hired: 0, crashes: 0 }
    }

    async fn work(mut self, weather: Arc<Weather>) -> Result<Findings> {
        while !weather.is_over() {
            if weather.is_quiet() {
                // Their settles would be transactions beside the two that are to be alone.
                self.leave().await?;
            } else {
                self.fill_up().await?;
            }
            self.wait(&weather).await;
            if !weather.is_quiet() && !self.relays.is_empty() {
                self.lose_one().await?;
            }
        }
        self.fill_up().await?;
        let wanted: Vec<_> =
            self.database.committed().await?.into_iter().map(|event| event.sighting).collect();
        let all = tokio::time::timeout(LONG, self.log.until_delivered(&wanted)).await;
        self.leave().await?;
        all.map_err(failed)?;
        let overview = self.database.store(Proof::Default).await?.overview(0).await?;
        let subscription = overview.subscriptions.into_iter().find(|known| known.name == NAME);
        let takeovers = subscription.map_or(0, |known| known.epoch.0.unsigned_abs().saturating_sub(1));
        let duplicates_max = takeovers * WINDOW;
        Ok(Findings { crashes: self.crashes, takeovers, duplicates_max, ..Findings::default() })
    }

    async fn fill_up(&mut self) -> Result<()> {
        let policy = Policy::default()
            .lease(Duration::from_millis(600))
            .window_events_max(WINDOW as usize)
            .batch_events_max(60)
            .poll_max(Duration::from_millis(30))
            .flush_interval(Duration::from_millis(20))
            // No event of this storm kills a relay, however often one dies with it.
            .trial_deaths_max(10_000);
        while self.relays.len() < RELAYS {
            self.hired += 1;
            let dice = Mutex::new(Dice::new(self.seed, 3_000 + self.hired));
            let sink = Recorder { log: self.log.clone(), dice };
            let subscription = Subscription::new(NAME, sink).start(Start::Beginning).policy(policy.clone());
            let store = self.database.store(Proof::Default).await?;
            self.relays.push(Relay::builder().outbox(store, [subscription]).spawn().await?);
        }
        Ok(())
    }

    /// Up to most of a second, unless the weather changes.
    async fn wait(&mut self, weather: &Weather) {
        let quiet = weather.is_quiet();
        for _ in 0..self.dice.below(40 * self.database.patience()) + 2 {
            if weather.is_over() || weather.is_quiet() != quiet {
                return;
            }
            self.dice.pause(40_000).await;
        }
    }

    /// Dropping a relay ends it at any point.
    async fn lose_one(&mut self) -> Result<()> {
        let index = usize::try_from(self.dice.below(self.relays.len() as u64)).unwrap_or(0);
        let relay = self.relays.swap_remove(index);
        if self.dice.one_in(4) {
            return relay.shutdown().await;
        }
        self.crashes += 1;
        drop(relay);
        Ok(())
    }

    async fn leave(&mut self) -> Result<()> {
        for relay in self.relays.drain(..) {
            relay.shutdown().await?;
        }
        Ok(())
    }
}

impl<D: Database> Reader for Crew<D> {
    fn name(&self) -> String {
        format!("{RELAYS} relays that crash and move")
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, weather: Arc<Weather>) -> BoxFuture<'static, Result<Findings>> {
        Box::pin(self.work(weather))
    }
}

/// Writes deliveries down, and may be stopped between any two of them.
struct Recorder {
    log: Arc<Log>,
    dice: Mutex<Dice>,
}

impl Recorder {
    fn dawdles(&self) -> bool {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).one_in(16)
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
                if self.dawdles() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            outcomes
        })
    }
}
