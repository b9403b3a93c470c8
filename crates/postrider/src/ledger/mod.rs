//! How a subscription's progress is recorded: a set of positions, not a write per event.

mod intervals;
mod known;
mod parked;
mod progress;

pub use intervals::{Intervals, ParseIntervalsError};
pub use known::{ANY, Change, KnownRows, seal};
pub use parked::{ParkedRow, ParkedState};
pub use progress::{Mark, Progress, Trial};
