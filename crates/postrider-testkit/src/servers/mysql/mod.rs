//! Private MySQL and MariaDB servers: one of each shared by all tests of a process, and any number that a test starts of
//! its own.
//!
//! `POSTRIDER_TEST_MYSQL=URL` and `POSTRIDER_TEST_MARIADB=URL` use that server as the shared one, for a user who may
//! do everything.

mod programs;
mod replica;
mod server;
mod twin;

pub use replica::Replica;
pub use server::{Options, Server};

use std::sync::OnceLock;

use super::skipped;

/// One of the two that speak this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Oracle's.
    MySql,
    /// The MariaDB Foundation's.
    MariaDb,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::MySql, Self::MariaDb];

    /// In small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }

    /// The address of the shared server, started at the first call; `None`, with a line that says why, if there is
    /// none.
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
    /// Held for as long as this process lives.
    _server: Option<Server>,
}

/// A server of the test's own, with these options; `None`, with a line that says why, if there is none.
pub fn own(options: Options) -> Option<Server> {
    let name = options.kind().name();
    options.start().inspect_err(|reason| skipped(name, reason)).ok()
}
