//! Private PostgreSQL servers: one shared by all tests of a process, and any number that a test starts for itself.
//!
//! - `POSTRIDER_TEST_POSTGRES=URL` uses that server as the shared one; some tests need its
//!   `max_prepared_transactions`.
//! - `POSTRIDER_TEST_POSTGRES_VERSION=14` takes that version for all of them.

mod programs;
mod server;
mod standby;

pub use server::{Options, Server};

use std::sync::OnceLock;

use super::skipped;

/// Makes a schema `trap` whose functions, operators and tables have the names of those of the server and fail, for who puts
/// it first in a `search_path`.
pub const TRAPS: &str = include_str!("traps.sql");

/// The address of the shared server, started at the first call; `None`, with a line that says why, if there is
/// none.
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

/// The port of the shared server on loopback, if it has one.
pub fn port() -> Option<u16> {
    let (_, address) = url()?.rsplit_once('@')?;
    address.split_once('/')?.0.rsplit_once(':')?.1.parse().ok()
}

struct Shared {
    url: String,
    /// Held for as long as this process lives.
    _server: Option<Server>,
}

/// A server of the test's own, with these options; `None`, with a line that says why, if there is none.
pub fn own(options: Options) -> Option<Server> {
    options.start().inspect_err(|reason| skipped("postgres", reason)).ok()
}
