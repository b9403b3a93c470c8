//! Whether the server at the other end of a connection is ours alone.
//!
//! A pooler in transaction mode (PgBouncer's `pool_mode=transaction` and its like) lends a server process to a
//! client for one transaction at a time. What a session has there, names of prepared statements, settings and
//! LISTEN, is lost between two transactions or found by another user of the pooler. The relay works through such a pooler: it
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
//! lost: leases that were taken over it are refused, and the relay loads its subscriptions again.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error as SqlError, SimpleQueryMessage};
use uuid::Uuid;

use super::failure::failed;
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

/// What guards every session of ours, each with its value as SQL has it. Names are looked up in `pg_catalog`
/// alone: a user that may create a function or an operator in some schema would otherwise have it run with the relay's
/// rights. Where a policy would hide rows, the server says so instead of hiding them. Time limits of the role are
/// made for applications: ours are our own. A statement that cannot get a lock gives up, so that no relay waits
/// longer than a lease behind a process that has stopped; and a transaction that is left open is ended by the server.
const SETTINGS: [(&str, &str); 6] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("row_security", "off"),
    ("statement_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("lock_timeout", "'5s'"),
    ("idle_in_transaction_session_timeout", "'30s'"),
];

/// What a relay's connection is set to in addition. The planner is kept to the one index there is: it may not have
/// statistics yet, and a plan with a sort of the whole outbox would be found out only when the outbox is large.
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
    /// The guard alone: a search needs every plan there is.
    Guard,
    /// All of them.
    All,
}

impl SessionSettings {
    fn values(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        SETTINGS.iter().chain(PLANNER.iter().take(if self == Self::All { PLANNER.len() } else { 0 }))
    }
}

/// The guard for one transaction, on whichever connection.
macro_rules! guard_here {
    () => {
        "SET LOCAL search_path = pg_catalog, pg_temp;
         SET LOCAL row_security = off;
         SET LOCAL statement_timeout = 0;
         SET LOCAL lock_timeout = '5s';
         SET LOCAL idle_in_transaction_session_timeout = '30s'"
    };
}

/// All settings for one transaction on a shared connection, where every statement is planned when it is run.
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

/// What a transaction begins with that may run on a shared connection: see [`BEGIN_GUARDED`].
pub const GUARD: &str = guard_here!();

/// Begins a transaction for who looks at the database or writes events over a connection that may be shared: names are
/// looked up in `pg_catalog` alone, and no policy hides a row unsaid.
pub const BEGIN_GUARDED: &str = concat!("BEGIN; ", guard_here!());

/// The same in which nothing is written and everything is of one moment.
pub(super) const BEGIN_READ: &str =
    concat!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; ", guard_here!());

/// A token that one connection sends at its start, as a setting that the server keeps without knowing it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartupToken(Uuid);

impl StartupToken {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The caller's configuration, with our settings and the token as startup options after its own.
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
        // Nothing is looked up: where the token is unknown, so are our settings.
        let said = match client.simple_query("SHOW postrider.word").await {
            Ok(said) => said,
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let word = said.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(word == Some(self.0.to_string().as_str()))
    }
}

/// Whether a connection was refused for its startup options, as far as one can tell: not for its user, its
/// database, or the state the server is in.
pub(super) fn options_refused(error: &SqlError) -> bool {
    let state = error.code().map(SqlState::code);
    state.is_some_and(|state| !["28", "3D", "53", "57"].iter().any(|class| state.starts_with(class)))
}

/// Our settings for a private connection that could not be started with them.
pub(super) async fn set_for_session(client: &Client, settings: SessionSettings) -> Result<()> {
    let settings: String = settings.values().map(|(name, value)| format!("SET {name} = {value};")).collect();
    client.batch_execute(&settings).await.map_err(failed)
}

/// The first version with a time limit for whole transactions. A startup option of that name would be refused by the
/// servers before it.
const TRANSACTION_TIMEOUT_SINCE: i32 = 170_000;

/// What a server of this version has to be told beside our settings, with a word before each: `SET` or `SET LOCAL`.
pub(super) fn newer_settings(version: i32, set: &str) -> String {
    if version < TRANSACTION_TIMEOUT_SINCE {
        String::new()
    } else {
        format!("; {set} transaction_timeout = 0")
    }
}
