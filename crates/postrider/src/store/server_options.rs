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
