//! The lease of a subscription, and the state that is loaded with it.

use std::time::Duration;

use super::LeaseOverview;
use crate::ledger::{ParkedRow, Progress};

/// Increases with every new owner of a subscription. A settle with an older epoch is refused, so that a relay that lost
/// its lease cannot overwrite the progress of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub i64);

/// A request for a lease. Its time runs on the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The subscription.
    pub subscription: String,
    /// The name of the relay, unique among running relays.
    pub holder: String,
    /// How long the lease lasts unless it is renewed.
    pub duration: Duration,
}

/// The result of [`Store::acquire`](super::Store::acquire).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The caller now holds the lease.
    Granted(Box<Loaded>),
    /// Another process holds it.
    Held {
        /// Its name.
        holder: String,
        /// When the lease expires unless it is renewed.
        remaining: Duration,
    },
    /// The subscription waits for an operator; see [`Store::halt`](super::Store::halt).
    Halted(String),
}

/// The state of a subscription when its lease was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The new epoch.
    pub epoch: Epoch,
    /// The recorded progress.
    pub progress: Progress,
    /// The parked rows whose state is not final.
    pub parked: Vec<ParkedRow>,
    /// The dead rows: they block their keys if the policy is configured so.
    pub dead: Vec<ParkedRow>,
    /// The number of parked rows, including final ones.
    pub parked_count: u64,
    /// The last owner released the lease with everything settled. If not, it may have died.
    pub clean: bool,
    /// The lease that this one replaces, expired or the caller's own. `None`: there was none, or it was released.
    pub previous: Option<LeaseOverview>,
    /// The reason of the operator's pause, if there is one.
    pub paused: Option<String>,
    /// The server that the state was read from, if another server could replace it.
    pub origin: Option<Origin>,
}

impl Loaded {
    /// The state of a subscription that was released cleanly and has no parked rows.
    pub fn new(epoch: Epoch, progress: Progress) -> Self {
        let (parked, dead) = (Vec::new(), Vec::new());
        Self {
            epoch,
            progress,
            parked,
            dead,
            parked_count: 0,
            clean: true,
            previous: None,
            paused: None,
            origin: None,
        }
    }
}

/// One run of one server, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its cluster and timeline.
    pub history: String,
    /// When it started.
    pub started: String,
}

/// The result of [`Store::renew`](super::Store::renew).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// Renewed.
    Held {
        /// The reason of the operator's pause, if there is one.
        paused: Option<String>,
        /// Another process has changed, added or removed parked rows since this owner loaded or settled them. Settles
        /// of this owner do not overwrite these rows. It must acquire the lease again to load them.
        parked_changed: bool,
    },
    /// Another relay has the lease, or it was removed.
    Lost,
}
