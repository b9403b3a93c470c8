//! Postrider on the file.

use std::sync::Arc;

use postrider::relay::Policy;
use postrider::store::sqlite::SqliteStore;

use super::Fixture;
use crate::carry::{carry, handle};
use crate::machine::Meter;
use crate::memory::Memory;
use crate::{Error, Usage};

impl Fixture {
    /// Delivers all events with a new subscription. Also returns its peak memory above that of the idle process.
    pub(crate) async fn relay(&self, name: &str, events: u64, policy: Policy) -> Result<(Usage, u64), Error> {
        self.relay_from(name, 1, events, policy).await
    }

    /// Delivers this many events from a position on.
    pub(crate) async fn relay_from(
        &self,
        name: &str,
        position: u64,
        events: u64,
        policy: Policy,
    ) -> Result<(Usage, u64), Error> {
        let store = Arc::new(SqliteStore::open(&self.path)?);
        let memory = Memory::watch();
        let meter = Meter::start();
        carry(store, name, position, events, policy).await?;
        Ok((meter.stop(), memory.most().await))
    }

    /// Calls a handler for all events, with a new subscription.
    pub(crate) async fn handle(&self, name: &str, events: u64) -> Result<Usage, Error> {
        let store = Arc::new(SqliteStore::open(&self.path)?);
        let meter = Meter::start();
        handle(store, name, None, events).await?;
        Ok(meter.stop())
    }
}
