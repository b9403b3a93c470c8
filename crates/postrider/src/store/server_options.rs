//! The options of a connection to a server that PostgreSQL, MySQL and MariaDB share.

use std::sync::Arc;
use std::time::Duration;

use super::AfterFailover;
use super::address::Certificates;
use super::holes::Patience;
use crate::Ident;
use crate::layout::RowTable;

/// The default of [`ServerOptions::answer_within`]. Longer than any wait for a lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The default of [`Patience::holes_max`].
const HOLES_MAX: usize = 10_000;

/// How a store uses its server. The setters are on the public configuration of each database.
#[derive(Debug, Clone)]
pub(super) struct ServerOptions {
    /// The schema with the outbox; on MySQL and MariaDB the database.
    pub(super) schema: Ident,
    /// The files for TLS.
    pub(super) certificates: Certificates,
    /// When holes are looked up, and how many are tracked.
    pub(super) patience: Patience,
    /// What a failover means for the subscriptions.
    pub(super) after_failover: AfterFailover,
    /// A server that has not answered a page, a settle or a BEGIN within this time is considered dead, even if its
    /// network connection is alive.
    pub(super) answer_within: Duration,
    /// The table with a state per row, if that is the outbox.
    pub(super) rows: Option<Arc<RowTable>>,
}

impl ServerOptions {
    /// The defaults. Writers are listed for holes that are older than `list_after`.
    pub(super) fn new(certificates: Certificates, list_after: Duration) -> Self {
        Self {
            schema: Ident::default(),
            certificates,
            patience: Patience { list_after, holes_max: HOLES_MAX },
            after_failover: AfterFailover::default(),
            answer_within: ANSWER_WITHIN,
            rows: None,
        }
    }

    /// The same options with a table with a state per row as the outbox.
    pub(super) fn with_rows(&self, rows: RowTable) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self.clone() }
    }
}

/// The setters of [`ServerOptions`], on the public configuration of a database, which has them in its field `options`.
macro_rules! server_setters {
    ($config:ident; schema: $schema:literal; check_rollbacks_after: $list_after:literal;) => {
        impl $config {
            #[doc = $schema]
            #[must_use]
            pub fn schema(mut self, schema: $crate::Ident) -> Self {
                self.options.schema = schema;
                self
            }

            /// A PEM file with root certificates to trust instead of the system's. Read for every connection.
            #[must_use]
            pub fn tls_root(mut self, file: impl Into<std::path::PathBuf>) -> Self {
                self.options.certificates.root = Some(file.into());
                self
            }

            /// PEM files with the client's certificate (followed by its intermediate certificates) and its key. Read for
            /// every connection.
            #[must_use]
            pub fn tls_client(
                mut self,
                certificate: impl Into<std::path::PathBuf>,
                key: impl Into<std::path::PathBuf>,
            ) -> Self {
                self.options.certificates.client = Some(certificate.into());
                self.options.certificates.client_key = Some(key.into());
                self
            }

            /// When the relay checks whether a transaction was rolled back. If the position of an event stays missing for
            /// this long, the relay queries which open transactions may still commit it. Other events are delivered in
            /// the meantime, but progress and retention wait for the position.
            #[doc = concat!("Default: ", $list_after, ".")]
            #[must_use]
            pub fn check_rollbacks_after(mut self, age: std::time::Duration) -> Self {
                self.options.patience.list_after = age;
                self
            }

            /// The maximum number of holes that the relay tracks. A hole is a range of positions without an event that
            /// were assigned to transactions which have not committed: they are open, or were rolled back and the relay
            /// does not know it yet. At the limit the relay reads no new events, and logs `too many open transactions`.
            /// Default: 10,000.
            #[must_use]
            pub fn holes_max(mut self, holes_max: usize) -> Self {
                self.options.patience.holes_max = holes_max.max(1);
                self
            }

            /// What a failover of the server means for the subscriptions. Default: they halt.
            #[must_use]
            pub fn after_failover(mut self, choice: $crate::store::AfterFailover) -> Self {
                self.options.after_failover = choice;
                self
            }

            /// A server that has not answered within this time is considered dead, even if its network connection is
            /// alive, and a new connection is opened. Default: 30 seconds. Must not be shorter than the 5 seconds for
            /// which a settle may wait for a lock.
            #[must_use]
            pub fn answer_within(mut self, limit: std::time::Duration) -> Self {
                self.options.answer_within = limit;
                self
            }

            pub(super) fn options(&self) -> &$crate::store::server_options::ServerOptions {
                &self.options
            }

            pub(crate) fn schema_name(&self) -> &$crate::Ident {
                &self.options.schema
            }

            /// The same server with a table with a state per row as its outbox.
            pub(super) fn with_rows(&self, rows: $crate::layout::RowTable) -> Self {
                Self { options: self.options.with_rows(rows), ..self.clone() }
            }
        }
    };
}
pub(super) use server_setters;
