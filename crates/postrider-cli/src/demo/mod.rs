//! The demo: a small shop with an outbox, a relay, and two subscriptions to watch.
//!
//! 1. [`plan`]: how long, how much, how fast
//! 2. [`folder`]: where its files are
//! 3. [`shop`]: writers commit orders with their events, or roll both back
//! 4. [`destination`]: two receivers, each of which knows what it received
//! 5. [`meter`] and [`time_series`]: what is counted on the way, and how that was over time
//! 6. [`run`]: all of it at once, until the shop is closed and everything has arrived
//! 7. [`view`]: what people see meanwhile
//! 8. [`report`]: what was committed against what each subscription received

pub(crate) mod destination;
pub(crate) mod folder;
mod meter;
mod snapshot;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
mod shop;
mod time_series;
pub(crate) mod view;

#[cfg(test)]
mod tests;
