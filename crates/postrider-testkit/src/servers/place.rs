//! Where servers are kept and where they listen.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Below what the system gives to outgoing connections: a server that is stopped for a while finds its port
/// free again.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Ports tried.
const PORT_TRIES_MAX: usize = 100;

/// The folder of the servers that no package manager has; `xtask` fills it by the same rule.
///
/// `POSTRIDER_SERVERS_DIR`, else a folder in the user's cache. Root's cache cannot be read by the account a
/// server runs as, so for root it is the machine's.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("POSTRIDER_SERVERS_DIR") {
        return folder.into();
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        _ if is_root => PathBuf::from("/var/cache"),
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache"),
    };
    cache.join("postrider-servers")
}

/// A port on loopback that nobody listens on.
///
/// # Errors
/// If none of many is free.
pub fn free_port() -> Result<u16, String> {
    for _ in 0..PORT_TRIES_MAX {
        let random = uuid::Uuid::now_v7().as_u64_pair().1 % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random).unwrap_or(0);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port".to_owned())
}

/// Says that something could not be tested here. The test runner counts these lines.
#[allow(clippy::print_stdout, reason = "the test runner counts these lines")]
pub fn skipped(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
}
