//! Postrider itself: a relay that drains the events to the null sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use postrider::Position;
use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{Start, sqlite::SqliteStore};
use postrider_sinks::Null;

use super::Fixture;
use crate::machine::{Meter, rss_bytes};
use crate::{Error, Usage};

impl Fixture {
    /// Drains all events with a new subscription. Also tells how much memory it took at most, beyond what
    /// the idle process had.
    pub(crate) async fn relay(&self, name: &str, events: u64, policy: Policy) -> Result<(Usage, u64), Error> {
        self.relay_from(name, 1, events, policy).await
    }

    /// Drains so many events that stand at and behind a position.
    pub(crate) async fn relay_from(
        &self,
        name: &str,
        position: u64,
        events: u64,
        policy: Policy,
    ) -> Result<(Usage, u64), Error> {
        let start = Start::Position(Position::new(i64::try_from(position)?));
        let sink = Arc::new(Null::new());
        let store = Arc::new(SqliteStore::open(&self.path)?);
        let subscription = Subscription::new(name, sink.clone()).encoder(Plain).policy(policy).start(start);
        let memory = Memory::watch();
        let meter = Meter::start();
        let relay = Relay::builder().outbox(store, [subscription]).spawn().await?;
        while sink.messages() < events {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        relay.shutdown().await?;
        Ok((meter.stop(), memory.most().await))
    }
}

/// Looks at the memory of the process every few milliseconds.
struct Memory {
    idle_bytes: u64,
    most_bytes: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Memory {
    fn watch() -> Self {
        let (most_bytes, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn({
            let (most_bytes, over) = (most_bytes.clone(), over.clone());
            async move {
                while !over.load(Ordering::Relaxed) {
                    most_bytes.fetch_max(rss_bytes(), Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
        Self { idle_bytes: rss_bytes(), most_bytes, over, task }
    }

    async fn most(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        _ = self.task.await;
        self.most_bytes.load(Ordering::Relaxed).saturating_sub(self.idle_bytes)
    }
}
