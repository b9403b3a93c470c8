//! Servers for tests that a machine has not installed: fetched once, kept outside the clone.
//!
//! What cannot be had is said and left out; the tests that need it are then skipped, by name.

mod kafka;

use std::path::PathBuf;

/// Fetches what is missing.
pub(crate) fn prepare() {
    if let Err(reason) = kafka::prepare() {
        println!("no Kafka for the tests: {reason}");
    }
}

/// Where servers are kept: `$XDG_CACHE_HOME/postrider-servers`, else `~/.cache/postrider-servers`.
fn folder() -> Result<PathBuf, String> {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").ok_or("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(cache.join("postrider-servers"))
}
