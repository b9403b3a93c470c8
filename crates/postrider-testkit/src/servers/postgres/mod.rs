//! Private PostgreSQL servers: one that all tests of a process share, and any number that single tests start.
//!
//! - `POSTRIDER_TEST_POSTGRES=URL` uses that server as the shared one; some tests need its
//!   `max_prepared_transactions`.
//! - `POSTRIDER_TEST_POSTGRES_VERSION=14` uses that version for all of them.

mod programs;
mod server;
mod standby;

pub use server::{Options, Server};

use std::sync::OnceLock;

use super::skipped;

/// Creates a schema `trap` with functions, operators and tables that have the names of the server's own and fail. A
/// session that has it first in its `search_path` uses them.
pub const TRAPS: &str = include_str!("traps.sql");

/// The URL of the shared server, started at the first call. If it cannot be started, prints why and returns `None`.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| match std::env::var("POSTRIDER_TEST_POSTGRES") {
        Ok(url) => Ok(Shared { url, _server: None }),
        Err(_) => Options::default()
            .setting("max_connections=200")
            .setting("max_prepared_transactions=20")
            .start()
            .map(|server| Shared { url: server.url().to_owned(), _server: Some(server) }),
    });
    match shared {
        Ok(shared) => Some(&shared.url),
        Err(reason) => {
            skipped("postgres", reason);
            None
        }
    }
}

/// The loopback port of the shared server, if it has one.
pub fn port() -> Option<u16> {
    let (_, address) = url()?.rsplit_once('@')?;
    address.split_once('/')?.0.rsplit_once(':')?.1.parse().ok()
}

struct Shared {
    url: String,
    /// Runs as long as this process does.
    _server: Option<Server>,
}

/// Starts a server with these options for one test. If it cannot be started, prints why and returns `None`.
pub fn own(options: Options) -> Option<Server> {
    options.start().inspect_err(|reason| skipped("postgres", reason)).ok()
}
