//! The program between a real PostgreSQL and real destinations, Kafka and a webhook, with everything killed on the way.
//! What arrived is checked by programs in Python that share nothing with it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the result of a soak is printed")]

mod both;
mod check;
mod destination;
mod relays;
mod shop;
mod soak;
mod zombie;
