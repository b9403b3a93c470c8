//! The connection settings of a database in the configuration.

use std::path::PathBuf;

use postrider::layout::RowTable;
use postrider::store::AfterFailover;

use crate::config::Secret;

/// The keys of an outbox about its database. Its `Debug` output contains no secrets.
#[derive(Debug, Clone)]
pub struct Address {
    /// `url`
    pub url: Secret,
    /// `password`: replaces one in the URL.
    pub password: Option<Secret>,
    /// `schema`: the schema of the tables.
    pub schema: Option<String>,
    /// `tls_root_cert`: the trusted root certificates.
    pub tls_root_cert: Option<PathBuf>,
    /// `tls_client_cert`: the client certificate.
    pub tls_client_cert: Option<PathBuf>,
    /// `tls_client_key`: its key.
    pub tls_client_key: Option<PathBuf>,
    /// `after_failover`: what a failover of the server means.
    pub after_failover: AfterFailover,
    /// `pooler`: the pooler in front of the server; detected by default.
    pub pooler: PoolerChoice,
    /// `listen`: whether a relay listens for the NOTIFY of writers.
    pub listen: bool,
    /// `layout` and the keys about its table: a table with a state per row.
    pub rows: Option<RowTable>,
}

/// The values of `pooler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolerChoice {
    /// Detect it.
    #[default]
    Detect,
    /// A pooler in transaction mode.
    Transaction,
    /// A direct connection.
    None,
}

impl Default for Address {
    fn default() -> Self {
        Self {
            url: Secret::new(""),
            password: None,
            schema: None,
            tls_root_cert: None,
            tls_client_cert: None,
            tls_client_key: None,
            after_failover: AfterFailover::default(),
            pooler: PoolerChoice::default(),
            listen: false,
            rows: None,
        }
    }
}

impl Address {
    /// The first key that is set in addition to the URL.
    #[cfg(feature = "sqlite")]
    pub(super) fn first_of_server(&self) -> Option<&'static str> {
        let Self { password, schema, tls_root_cert, tls_client_cert, tls_client_key, .. } = self;
        [
            ("password", password.is_some()),
            ("schema", schema.is_some()),
            ("tls_root_cert", tls_root_cert.is_some()),
            ("tls_client_cert", tls_client_cert.is_some()),
            ("tls_client_key", tls_client_key.is_some()),
            ("after_failover", self.after_failover != AfterFailover::default()),
            ("pooler", self.pooler != PoolerChoice::default()),
            ("listen", self.listen),
        ]
        .into_iter()
        .find_map(|(key, given)| given.then_some(key))
    }
}

/// The invalid key and the reason, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The key.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Refused {
    pub(super) fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self { key, why: why.into() }
    }

    /// A table that this database does not support, or not in this place.
    #[cfg(any(feature = "sqlite", feature = "mysql"))]
    pub(super) fn table(error: &postrider::Error) -> Self {
        let key = if error.code() == postrider::Code::LayoutDiffers { "layout" } else { "table_schema" };
        Self::new(key, error.message())
    }

    pub(super) fn url(why: impl Into<String>) -> Self {
        Self::new("url", why)
    }
}
