//! Postrider on the schema.

use postrider::relay::Policy;

use super::{Cost, Fixture, Gauge};
use crate::Error;
use crate::carry::{carry, handle};
use crate::memory::Memory;

impl Fixture {
    /// Delivers this many events from a position on, with a new subscription. Also returns its peak memory above that
    /// of the idle process.
    pub(crate) async fn relay(&self, name: &str, position: u64, events: u64) -> Result<(Cost, u64), Error> {
        let store = self.store().await?;
        let memory = Memory::watch();
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        carry(store, name, position, events, Policy::default()).await?;
        Ok((gauge.stop().await?, memory.most().await))
    }

    /// The same while another connection keeps an old snapshot open.
    pub(crate) async fn relay_next_to_an_old_snapshot(&self, name: &str, events: u64) -> Result<Cost, Error> {
        let reader = self.connect().await?;
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_snapshot()").await?;
        let (cost, _) = self.relay(name, 1, events).await?;
        reader.batch_execute("COMMIT").await?;
        Ok(cost)
    }

    /// Calls a handler for all events, with a new subscription.
    pub(crate) async fn handle(&self, name: &str, events: u64) -> Result<Cost, Error> {
        let store = self.store().await?;
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        handle(store, name, None, events).await?;
        gauge.stop().await
    }
}
