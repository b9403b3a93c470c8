//! How fast a task that deletes rows may go on next to the subscriptions of its outbox.

use std::sync::Arc;
use std::time::Duration;

use super::driver_handle::DriverHandle;

/// Shortest pause between two batches.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// How many times longer than the batch before it a pause is: deleting takes a tenth of the time while there is something to
/// publish, otherwise half of it.
const PAUSE_WHILE_BUSY: u32 = 9;
const PAUSE_WHILE_IDLE: u32 = 1;

/// The subscriptions of an outbox that this relay serves, as a task that deletes sees them.
#[derive(Clone)]
pub(super) struct Pace(pub(super) Vec<Arc<DriverHandle>>);

impl Pace {
    /// Whether one of the subscriptions is led here. A relay on standby leaves the deleting to the leader.
    pub(super) fn leads(&self) -> bool {
        self.0.iter().any(|handle| handle.status().state.leading.is_some())
    }

    /// How long to wait after a full batch, which took this long.
    pub(super) fn after_batch(&self, took: Duration) -> Duration {
        let times = if self.is_busy() { PAUSE_WHILE_BUSY } else { PAUSE_WHILE_IDLE };
        self.at_least(took.saturating_mul(times))
    }

    /// A wait that is not too short.
    pub(super) fn at_least(&self, wait: Duration) -> Duration {
        wait.max(PAUSE_MIN)
    }

    /// The names of the subscriptions, for the log.
    pub(super) fn names(&self) -> String {
        self.0.iter().map(|handle| handle.label()).collect::<Vec<_>>().join(", ")
    }

    /// Whether there is something to publish or to settle.
    fn is_busy(&self) -> bool {
        self.0.iter().any(|handle| {
            let state = handle.status().state;
            state.events_in_memory > 0 || state.in_flight > 0 || state.unsettled > 0
        })
    }
}
