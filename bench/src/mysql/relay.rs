//! Postrider itself, on the database.

use postrider::relay::Policy;

use super::{Cost, Fixture, Gauge};
use crate::Error;
use crate::carry::carry;
use crate::memory::Memory;

impl Fixture {
    /// Drains so many events that stand at and behind a position, with a new subscription. Also tells how much
    /// memory it took at most, beyond what the idle process had.
    pub(crate) async fn relay(&self, name: &str, position: u64, events: u64) -> Result<(Cost, u64), Error> {
        let store = self.store().await?;
        let memory = Memory::watch();
        let gauge = Gauge::start(self).await?;
        carry(store, name, position, events, Policy::default()).await?;
        Ok((gauge.stop().await?, memory.most().await))
    }
}
