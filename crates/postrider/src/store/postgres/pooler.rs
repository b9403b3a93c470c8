//! Whether the server at the other end of a connection is ours alone.
//!
//! A pooler in transaction mode (PgBouncer's `pool_mode=transaction` and its like) lends a server process to a
//! client for one transaction at a time. What a session has there, names of prepared statements, settings and
//! LISTEN, is lost between two transactions or met by somebody else. The relay works through such a pooler: it
//! then sends unnamed statements, sets what matters with `SET LOCAL`, and does not LISTEN.
//!
//! To be alone is proven, to be pooled is presumed. A connection is opened with startup options that hold our
//! settings and a random word, and then asks for that word. Only a server process that was started for this
//! very connection knows it. A pooler has its server processes started already: it refuses such options
//! (PgBouncer) or leaves them out, and then the connection is treated as shared. Where the options never arrive,
//! our settings do not either, so they cannot leak into the connections of others. Taking a private connection
//! for a shared one (PgBouncer in session mode) costs some speed and nothing else; [`Pooler::None`] says
//! otherwise.
//!
//! The server behind a pooler may also be replaced under a connection that lives on. So each transaction there
//! asks which server it runs on, in the same round trip, and a connection whose server has changed counts as
//! lost: leases that were taken over it are refused, and the relay loads its subscriptions anew.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error as SqlError};
use uuid::Uuid;

use super::failure::failed;
use super::statement::query_unnamed;
use crate::Result;

/// What stands between the relay and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pooler {
    /// Find out, at every connection.
    #[default]
    Detect,
    /// A pooler that lends server processes per transaction. Always right, and slower than a private connection.
    Transaction,
    /// No pooler, or one in session mode. Where that is wrong, statements fail with errors that say so.
    None,
}

/// What every connection of our own is told. A statement that cannot get a lock gives up, so that nobody waits
/// longer than a lease behind somebody who has stopped; and a transaction that is left open is ended by the
/// server. The planner is kept to the one index there is: it may not have statistics yet, and a plan with a
/// sort of the whole outbox would be found out only when the outbox is large.
const SETTINGS: [(&str, &str); 7] = [
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("default_transaction_isolation", "read committed"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
];

/// The same for one transaction on a shared connection, where every statement is planned when it is run.
macro_rules! settings_here {
    () => {
        "SET LOCAL lock_timeout = '5s';
         SET LOCAL idle_in_transaction_session_timeout = '30s';
         SET LOCAL jit = off;
         SET LOCAL enable_seqscan = off;
         SET LOCAL enable_bitmapscan = off"
    };
}
pub(super) use settings_here;

/// The word of one connection, under a name that the server keeps without knowing it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word(Uuid);

impl Word {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The caller's configuration, with our settings and the word as startup options after its own.
    pub(super) fn said_in(self, config: &Config) -> Config {
        let mut options = config.get_options().unwrap_or_default().to_owned();
        for (name, value) in SETTINGS {
            options.push_str(&format!(" -c {name}={}", value.replace(' ', "\\ ")));
        }
        options.push_str(&format!(" -c postrider.word={}", self.0));
        let mut config = config.clone();
        config.options(options);
        config
    }

    /// Whether the server process heard the word when it started.
    pub(super) async fn is_known_to(self, client: &Client) -> Result<bool> {
        // No table is read.
        let sql = "SELECT coalesce(current_setting('postrider.word', true), '') = $1";
        let rows = query_unnamed(client, sql, &[&self.0.to_string()]).await.map_err(failed)?;
        rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(failed)
    }
}

/// Whether a connection was refused for its startup options, as far as one can tell: not for its user, its
/// database, or the state the server is in.
pub(super) fn options_refused(error: &SqlError) -> bool {
    let state = error.code().map(SqlState::code);
    state.is_some_and(|state| !["28", "3D", "53", "57"].iter().any(|class| state.starts_with(class)))
}

/// Our settings for a private connection that could not be started with them.
pub(super) async fn set_for_session(client: &Client) -> Result<()> {
    let settings: String = SETTINGS.iter().map(|(name, value)| format!("SET {name} = '{value}';")).collect();
    client.batch_execute(&settings).await.map_err(failed)
}
