//! Waiting for the lock of the file.

use std::time::Duration;

/// How many times a statement tries to get the lock before it fails with [`Code::StoreBusy`](crate::Code::StoreBusy): for about five seconds.
const LOCK_TRIES_MAX: i32 = 5_000;

/// Waits a moment for the lock. SQLite's own wait grows to 100 ms; a caller that tries so rarely may find a file with
/// busy writers always locked, and then a lease expires while its holder waits to renew it.
#[allow(
    clippy::disallowed_methods,
    reason = "SQLite has no signal for this, and the thread belongs to the connection"
)]
pub(super) fn wait_for_lock(tries: i32) -> bool {
    std::thread::sleep(Duration::from_micros(if tries < 100 { 200 } else { 1_000 }));
    tries < LOCK_TRIES_MAX
}
