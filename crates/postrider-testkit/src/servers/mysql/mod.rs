//! Private MySQL and MariaDB servers: one of each that all tests of a process share, and any number that single tests
//! start.
//!
//! `POSTRIDER_TEST_MYSQL=URL` and `POSTRIDER_TEST_MARIADB=URL` use that server as the shared one. The user needs all
//! privileges.

mod programs;
mod replica;
mod server;
mod twin;

pub use replica::Replica;
pub use server::{Options, Server};

use std::sync::OnceLock;

use super::skipped;

/// MySQL or MariaDB, which share a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::MySql, Self::MariaDb];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }

    /// The URL of the shared server, started at the first call. If it cannot be started, prints why and returns `None`.
    pub fn url(self) -> Option<&'static str> {
        static SHARED: [OnceLock<Result<Shared, String>>; 2] = [const { OnceLock::new() }; 2];
        let [mysql, mariadb] = &SHARED;
        let (shared, given) = match self {
            Self::MySql => (mysql, "POSTRIDER_TEST_MYSQL"),
            Self::MariaDb => (mariadb, "POSTRIDER_TEST_MARIADB"),
        };
        let shared = shared.get_or_init(|| match std::env::var(given) {
            Ok(url) => Ok(Shared { url, _server: None }),
            Err(_) => {
                let started = Options::of(self).setting("max_connections=300").start();
                started.map(|server| Shared { url: server.url().to_owned(), _server: Some(server) })
            }
        });
        match shared {
            Ok(shared) => Some(&shared.url),
            Err(reason) => {
                skipped(self.name(), reason);
                None
            }
        }
    }
}

struct Shared {
    url: String,
    /// Runs as long as this process does.
    _server: Option<Server>,
}

/// Starts a server with these options for one test. If it cannot be started, prints why and returns `None`.
pub fn own(options: Options) -> Option<Server> {
    let name = options.kind().name();
    options.start().inspect_err(|reason| skipped(name, reason)).ok()
}
