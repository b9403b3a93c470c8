//! The program between a real PostgreSQL and real destinations, Kafka and a webhook, with every process killed on the
//! way. Programs in Python, which share no code with it, check what arrived.

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
