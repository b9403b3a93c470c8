//! Where a database is and how to get in, as the configuration says.

use std::path::PathBuf;

use postrider::layout::RowTable;
use postrider::store::AfterFailover;

use crate::config::Secret;

/// The keys of an outbox that say which database it is. Printing it shows no secret.
#[derive(Debug, Clone)]
pub struct Address {
    /// `url`
    pub url: Secret,
    /// `password`: instead of one in the URL.
    pub password: Option<Secret>,
    /// `schema`: where in the database the tables are.
    pub schema: Option<String>,
    /// `tls_root_cert`: the authorities to believe.
    pub tls_root_cert: Option<PathBuf>,
    /// `tls_client_cert`: what tells the server who we are.
    pub tls_client_cert: Option<PathBuf>,
    /// `tls_client_key`: its key.
    pub tls_client_key: Option<PathBuf>,
    /// `after_failover`: what a failover of the server means.
    pub after_failover: AfterFailover,
    /// `pooler`: what stands between here and the server; found out if not given.
    pub pooler: PoolerChoice,
    /// `listen`: whether a relay hears the NOTIFY of writers.
    pub listen: bool,
    /// `layout` and the keys about its table: a table with a state per row.
    pub rows: Option<RowTable>,
}

/// The values of `pooler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolerChoice {
    /// Find out.
    #[default]
    Detect,
    /// Connections are shared between transactions.
    Transaction,
    /// Every connection is our own.
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
    /// The first key that is given besides the URL.
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

/// Which key is wrong and why, without a word of its value.
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

    /// A table that this database cannot have, or not there.
    #[cfg(any(feature = "sqlite", feature = "mysql"))]
    pub(super) fn table(error: &postrider::Error) -> Self {
        let key = if error.code() == postrider::Code::LayoutDiffers { "layout" } else { "table_schema" };
        Self::new(key, error.message())
    }

    pub(super) fn url(why: impl Into<String>) -> Self {
        Self::new("url", why)
    }
}
