//! The database of an outbox. The library's [`Admin`] operates it; this module finds the database for an address.
//! Another database needs one more file with its `Backend`, and a line in `DIALECTS`.

mod address;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use address::{Address, PoolerChoice, Refused};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::store::Store;
use postrider::store::admin::{Admin, EventWriter};
use postrider::{BoxFuture, Error, Outbox, Result};

use crate::config::settings::OutboxSettings;
use crate::config::url;
use crate::doctor::{self, InboxHealth, Subject};

/// A database of the configuration. It is opened only when a command needs it. Its `Display` is the address without
/// secrets.
#[derive(Debug)]
pub struct Database {
    backend: Box<dyn Backend>,
    shown: String,
}

/// What differs between the kinds of databases, apart from the library's [`Admin`].
trait Backend: fmt::Debug + Send + Sync {
    /// The operations on the outbox.
    fn admin(&self) -> &dyn Admin;

    /// Whether it is a server, which may come up later by itself.
    fn is_server(&self) -> bool;

    /// The setting that allows unencrypted traffic over a network, if one does.
    fn exposed_by(&self) -> Option<&'static str>;

    /// The database without secrets, from the address without secrets: two outboxes with the same location can share a
    /// transaction.
    fn location(&self, shown: &str) -> String;

    /// See [`Database::inbox_health`].
    fn inbox_health(&self, kept: Duration) -> BoxFuture<'_, Result<InboxHealth, String>>;

    /// See [`Database::check`].
    fn check<'a>(
        &'a self,
        shown: &'a str,
        options: &'a doctor::Options,
        subject: &'a mut Subject<'_>,
    ) -> BoxFuture<'a, bool>;
}

impl Database {
    /// The operations on the outbox.
    pub fn admin(&self) -> &dyn Admin {
        self.backend.admin()
    }

    /// Opens the store for a relay. The schema must exist. Logs a warning if the connection is not encrypted.
    ///
    /// # Errors
    /// As [`Admin::open`].
    pub async fn open(&self) -> Result<Arc<dyn Store>> {
        let store = self.admin().open().await?;
        if let Some(setting) = self.backend.exposed_by() {
            tracing::warn!(
                database = %self,
                "not encrypted ({setting}): anyone on the network path can read and modify the traffic"
            );
        }
        Ok(store)
    }

    /// The database without secrets: two outboxes with the same location can share a transaction.
    pub fn location(&self) -> String {
        self.backend.location(&self.shown)
    }

    /// Whether a later attempt may succeed without an operator: a server is down or starting, or a standby is not the
    /// primary yet. Not for a file.
    pub fn may_come_up(&self, error: &Error) -> bool {
        error.code().may_recover_by_itself() && self.backend.is_server()
    }

    /// What `doctor` checks in the inbox, if a relay keeps its rows for this time.
    pub(crate) async fn inbox_health(&self, kept: Duration) -> Result<InboxHealth, String> {
        self.backend.inbox_health(kept).await
    }

    /// The checks of `doctor` for this database. Returns whether its tables can be read.
    pub(crate) async fn check(&self, options: &doctor::Options, subject: &mut Subject<'_>) -> bool {
        self.backend.check(&self.shown, options, subject).await
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

type Read = fn(&Address) -> Result<Database, Refused>;

/// The URL schemes of each database.
const DIALECTS: &[(&[&str], Read)] = &[
    #[cfg(feature = "sqlite")]
    (&["sqlite"], sqlite::read),
    #[cfg(feature = "postgres")]
    (&["postgres", "postgresql"], postgres::read),
    #[cfg(feature = "mysql")]
    (&["mysql", "mariadb"], mysql::read),
];

/// The database of an address. Does not connect.
///
/// # Errors
/// The invalid key and the reason, without its value.
pub fn read(address: &Address) -> Result<Database, Refused> {
    let scheme = url::scheme(address.url.expose_secret()).unwrap_or_default();
    match DIALECTS.iter().find(|(schemes, _)| schemes.contains(&scheme)) {
        Some((_, read)) => read(address),
        None => Err(Refused::url(match scheme {
            "sqlite" => "this program was built without SQLite; build it with --features sqlite",
            "postgres" | "postgresql" => {
                "this program was built without PostgreSQL; build it with --features postgres"
            }
            "mysql" | "mariadb" => {
                "this program was built without MySQL and MariaDB; build it with --features mysql"
            }
            _ => "the URL must start with sqlite:, postgres:, mysql: or mariadb:",
        })),
    }
}

impl OutboxSettings {
    /// Writes events to this outbox, within its limits.
    ///
    /// # Errors
    /// As [`Admin::open_writer`].
    pub async fn writer(&self) -> Result<Box<dyn EventWriter>> {
        self.database.admin().open_writer(self.outbox()).await
    }

    /// The library's writer with the limits of this outbox.
    pub fn outbox(&self) -> Outbox {
        Outbox::new().limits(self.limits.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn at(url: &str) -> Address {
        Address { url: Secret::new(url), ..Address::default() }
    }

    #[test]
    fn a_supported_url_is_shown_without_secrets() {
        for (url, shown) in [
            #[cfg(feature = "sqlite")]
            ("sqlite:shop.db", "sqlite:shop.db"),
            #[cfg(feature = "postgres")]
            ("postgres://u:pw@h:5433/db?sslmode=disable", "postgres://***@h:5433/db?***"),
            #[cfg(feature = "postgres")]
            ("postgresql://h/db", "postgresql://h/db"),
            #[cfg(feature = "mysql")]
            ("mariadb://u:pw@h:3307/db?ssl-mode=disabled", "mariadb://***@h:3307/db?***"),
        ] {
            assert_eq!(read(&at(url)).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn an_unsupported_url_is_refused() {
        for url in [
            "sqlite://shop.db",
            "sqlite::memory:",
            "sqlite:a?mode=ro",
            "postgres://h:port/db",
            "postgres://h/db?sslmode=maybe",
            "mysql://h:port/db",
            "mariadb://h/db?ssl-mode=maybe",
            "redis://h",
            "x",
        ] {
            assert_eq!(read(&at(url)).unwrap_err().key, "url", "{url}");
        }
    }

    #[test]
    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    fn keys_of_another_dialect_are_refused() {
        let schema = |url: &str, schema: &str| {
            read(&Address { schema: Some(schema.to_owned()), ..at(url) }).err().map(|refused| refused.key)
        };
        assert_eq!(schema("sqlite:shop.db", "shop"), Some("schema"));
        assert_eq!(schema("postgres://h/db", "Sh\"op"), Some("schema"));
        assert_eq!(schema("postgres://h/db", "Shop"), None);
        assert_eq!(schema("postgres://h/db", "shop"), None);
        let half = Address { tls_client_cert: Some("a".into()), ..at("postgres://h/db") };
        assert_eq!(read(&half).unwrap_err().key, "tls_client_key");
    }
}
