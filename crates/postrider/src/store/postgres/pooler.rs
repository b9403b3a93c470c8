//! Detects whether a connection has a server process to itself.
//!
//! A pooler in transaction mode (such as PgBouncer with `pool_mode=transaction`) assigns a server process to a client
//! for one transaction at a time. The state of a session there (prepared statements, settings and LISTEN) is lost
//! between two transactions, or seen by another client of the pooler. The relay works through such a pooler: it then
//! sends unnamed statements, applies its settings with `SET LOCAL`, and does not LISTEN.
//!
//! A connection counts as pooled unless it is proven to be private. It is opened with startup options that contain our
//! settings and a random token, and then queries the token. Only a server process that was started for this connection
//! knows it. A pooler has started its server processes before: it refuses such options (PgBouncer) or drops them, and
//! the connection is treated as pooled. If the options do not arrive, our settings do not either, so they cannot leak
//! into other clients' connections. Treating a private connection as pooled (PgBouncer in session mode) costs some
//! speed and nothing else; [`Pooler::None`] prevents it.
//!
//! The server behind a pooler may be replaced while the connection stays open. Each transaction there therefore queries
//! the identity of its server, in the same round trip. If the server has changed, the connection counts as lost: leases
//! that were taken over it are refused, and the relay loads its subscriptions again.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error as SqlError, SimpleQueryMessage};
use uuid::Uuid;

use super::failure::failed;
use crate::Result;

/// The pooler between the relay and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pooler {
    /// Detect it, for every connection.
    #[default]
    Detect,
    /// A pooler in transaction mode. Correct in every case, and slower than a private connection.
    Transaction,
    /// No pooler, or one in session mode. If that is wrong, statements fail with an error that explains it.
    None,
}

/// The settings that guard every session, with their values in SQL. Names are looked up in `pg_catalog` only: otherwise
/// a user who may create a function or an operator in some schema could have it run with the relay's rights. If a
/// policy would hide rows, the server returns an error instead. The role's time limits are for applications, so the
/// relay sets its own. A statement that cannot get a lock fails, so that no relay waits longer than a lease for a
/// stalled process; and the server ends a transaction that is left open.
const SETTINGS: [(&str, &str); 6] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("row_security", "off"),
    ("statement_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("lock_timeout", "'5s'"),
    ("idle_in_transaction_session_timeout", "'30s'"),
];

/// Further settings of a relay's connection. They make the planner use the only index: without statistics it might
/// choose a sort of the whole outbox, which is noticed only when the outbox is large.
const PLANNER: [(&str, &str); 5] = [
    ("default_transaction_isolation", "'read committed'"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
];

/// Which settings a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionSettings {
    /// Only the guard: a search needs all kinds of plans.
    Guard,
    /// All settings.
    All,
}

impl SessionSettings {
    fn values(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        SETTINGS.iter().chain(PLANNER.iter().take(if self == Self::All { PLANNER.len() } else { 0 }))
    }
}

/// The guard for one transaction, on any connection.
macro_rules! guard_here {
    () => {
        "SET LOCAL search_path = pg_catalog, pg_temp;
         SET LOCAL row_security = off;
         SET LOCAL statement_timeout = 0;
         SET LOCAL lock_timeout = '5s';
         SET LOCAL idle_in_transaction_session_timeout = '30s'"
    };
}

/// All settings for one transaction on a pooled connection, where every statement is planned when it runs.
macro_rules! settings_here {
    () => {
        concat!(
            $crate::store::postgres::pooler::guard_here!(),
            ";
         SET LOCAL jit = off;
         SET LOCAL enable_seqscan = off;
         SET LOCAL enable_bitmapscan = off"
        )
    };
}
pub(super) use {guard_here, settings_here};

/// The first statements of a transaction on a connection that may be pooled; see [`BEGIN_GUARDED`].
pub const GUARD: &str = guard_here!();

/// Begins a transaction on a connection that may be pooled: names are looked up in `pg_catalog` only, and row-level
/// security raises an error instead of hiding rows.
pub const BEGIN_GUARDED: &str = concat!("BEGIN; ", guard_here!());

/// The same for a transaction that sees one snapshot and writes nothing.
pub(super) const BEGIN_READ: &str =
    concat!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; ", guard_here!());

/// A token that a connection sends at its start, as a custom setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartupToken(Uuid);

impl StartupToken {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The caller's configuration, with our settings and the token appended to its startup options.
    pub(super) fn startup_options(self, config: &Config, settings: SessionSettings) -> Config {
        let mut options = config.get_options().unwrap_or_default().to_owned();
        for (name, value) in settings.values() {
            let value = value.replace('\'', "").replace(' ', "\\ ");
            options.push_str(&format!(" -c {name}={value}"));
        }
        options.push_str(&format!(" -c postrider.word={}", self.0));
        let mut config = config.clone();
        config.options(options);
        config
    }

    /// Whether the server process received the token when it started.
    pub(super) async fn is_known_to(self, client: &Client) -> Result<bool> {
        // SHOW looks no name up, which would not be safe yet: if the token is unknown, so are our settings.
        let answer = match client.simple_query("SHOW postrider.word").await {
            Ok(answer) => answer,
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let token = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(token == Some(self.0.to_string().as_str()))
    }
}

/// Whether a connection may have been refused because of its startup options: not because of its user, its database or
/// the state of the server.
pub(super) fn options_refused(error: &SqlError) -> bool {
    let state = error.code().map(SqlState::code);
    state.is_some_and(|state| !["28", "3D", "53", "57"].iter().any(|class| state.starts_with(class)))
}

/// Applies our settings to a private connection that could not be started with them.
pub(super) async fn set_for_session(client: &Client, settings: SessionSettings) -> Result<()> {
    let settings: String = settings.values().map(|(name, value)| format!("SET {name} = {value};")).collect();
    client.batch_execute(&settings).await.map_err(failed)
}

/// The first version with a time limit for transactions. Earlier servers would refuse a startup option of that name.
const TRANSACTION_TIMEOUT_SINCE: i32 = 170_000;

/// Further settings for a server of this version, each with the given prefix: `SET` or `SET LOCAL`.
pub(super) fn newer_settings(version: i32, set: &str) -> String {
    if version < TRANSACTION_TIMEOUT_SINCE {
        String::new()
    } else {
        format!("; {set} transaction_timeout = 0")
    }
}
