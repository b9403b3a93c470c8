//! How a subscription's progress is recorded: one set of positions per subscription instead of one write per event.
//! Events that fail are recorded as parked rows.

mod intervals;
mod known;
mod parked;
mod progress;
pub(crate) mod range_map;

pub use intervals::{Intervals, ParseIntervalsError};
pub use known::{ANY, KnownRows, SettledChange, seal};
#[cfg(any(feature = "relay", feature = "_store"))]
pub(crate) use parked::NO_RULE;
pub use parked::{ParkedRow, ParkedState, Redelivery};
pub use progress::{LastSeen, Progress, Trial};
