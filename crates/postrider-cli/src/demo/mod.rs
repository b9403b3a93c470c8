//! The demo: a small shop with an outbox, a relay, and two subscriptions to watch.
//!
//! 1. [`plan`]: how long, how much, how fast
//! 2. [`folder`]: where its files are
//! 3. [`shop`]: writers commit orders with their events, or roll both back
//! 4. [`destination`]: two destinations, each of which records what it received
//! 5. [`meter`] and [`time_series`]: counters, and their values over time
//! 6. [`run`]: runs all of this until the shop is closed and every event has arrived
//! 7. [`view`]: the live view
//! 8. [`report`]: compares the committed events with those that each subscription received

pub(crate) mod destination;
pub(crate) mod folder;
mod meter;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
mod shop;
mod snapshot;
mod time_series;
pub(crate) mod view;

#[cfg(test)]
mod tests;
