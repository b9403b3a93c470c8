//! The destinations of the demo. The final check reads what a destination received from the destination, not the relay.

mod analytics;
mod audit;
mod metered;

pub(crate) use analytics::Analytics;
pub(crate) use audit::AuditFile;
pub(super) use metered::Metered;

use std::sync::Arc;

use postrider::Result;
use postrider::sink::Sink;
use postrider_verify::Sighting;

/// A destination that records what it received.
pub(crate) trait Destination: Sink {
    /// All events that it acknowledged, in the order of arrival.
    ///
    /// # Errors
    /// If this cannot be read.
    fn received(&self) -> Result<Vec<Sighting>>;

    /// Starts or ends an outage, if the destination supports this.
    fn set_down(&self, _down: bool) {}
}

/// A subscription of the demo.
#[derive(Clone)]
pub(crate) struct Receiver {
    /// The subscription's name.
    pub(crate) name: &'static str,
    /// A description of its destination.
    pub(crate) target: String,
    /// Its destination.
    pub(crate) destination: Arc<dyn Destination>,
}
