//! Each sink under a relay, behind a network with every fault of the proxy.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "another process gives no signal; durations are printed, not asserted"
)]

mod counted;
#[cfg(feature = "kafka")]
mod kafka;
mod shop;
mod through;
mod webhook;
