//! Where the demo's events go. A destination knows what it received: the end check asks it, not the relay.

mod analytics;
mod audit;
mod metered;

pub(crate) use analytics::Analytics;
pub(crate) use audit::AuditFile;
pub(super) use metered::Metered;

use std::sync::Arc;

use postrider::Result;
use postrider::sink::Sink;
use postrider_audit::Sighting;

/// A destination that can be asked what it received.
pub(crate) trait Destination: Sink {
    /// All it acknowledged, in the order it came.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn received(&self) -> Result<Vec<Sighting>>;

    /// Takes it down or up again, if it takes part in that.
    fn set_down(&self, _down: bool) {}
}

/// A subscription of the demo.
#[derive(Clone)]
pub(crate) struct Receiver {
    /// The subscription's name.
    pub(crate) name: &'static str,
    /// What it sends to, for people.
    pub(crate) target: String,
    /// What it sends to.
    pub(crate) destination: Arc<dyn Destination>,
}
