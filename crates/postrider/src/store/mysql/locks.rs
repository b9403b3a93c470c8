//! The metadata locks of a server: which sessions have a table open for writing.
//!
//! Besides the locks, the activity of their owners is queried. A writer that waits for its application gets an *idle
//! token*, which changes as soon as it begins a statement: between two lists with the same token it was idle, and took
//! no position. ADR 25 explains how the token is composed.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::failure::failed;
use super::row::{get, get_opt};
use super::server::Product;
use crate::{Ident, Result};

/// The source of the metadata locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// `performance_schema.metadata_locks` of MySQL.
    MySql,
    /// The same on MariaDB. A prepared transaction loses its lock when its connection ends, so `XA RECOVER` is needed,
    /// too.
    MariaDb,
    /// MariaDB's plugin `metadata_lock_info`, which reports only connections. It needs `XA RECOVER`, too.
    Plugin,
}

/// The sessions and transactions that have a table open for writing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// The idle token of each lock, by owner and lock. Two locks of the same owner may belong to one transaction or to
    /// two.
    pub(super) locks: BTreeMap<(String, String), Option<String>>,
    /// Prepared transactions, which may have lost their locks, of any table, with a token: they take no more positions,
    /// but their names may be reused.
    pub(super) prepared: BTreeMap<String, Option<String>>,
}

/// Locks that only readers hold. All others count, including those of `LOCK TABLES`, which an INSERT then uses.
macro_rules! reading {
    () => {
        "('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_READ_ONLY')"
    };
}

/// One query of the lock table, with a column about the owner. No index: memory of the server.
macro_rules! scan {
    ($of_owner:literal) => {
        concat!(
            "SELECT CAST(COALESCE(owner_thread_id, 0) AS CHAR),
                    CONCAT(COALESCE(owner_event_id, 0), '/', object_instance_begin),
                    ",
            $of_owner,
            "
             FROM performance_schema.metadata_locks
             WHERE object_type = 'TABLE' AND object_schema = '{name}' AND object_name = 'events'
               AND lock_type NOT IN ",
            reading!()
        )
    };
}

/// Detects an incomplete list: locks or threads were lost for lack of memory, or the instruments are disabled. The last
/// two columns: whether every statement of an instrumented thread gets a number.
macro_rules! reservations {
    () => {
        "SHOW GLOBAL STATUS WHERE variable_name IN
            ('performance_schema_metadata_lock_lost', 'performance_schema_thread_instances_lost',
             'performance_schema_thread_classes_lost');
         SELECT (SELECT enabled FROM performance_schema.setup_instruments WHERE name = 'wait/lock/metadata/sql/mdl'),
                (SELECT enabled FROM performance_schema.setup_consumers WHERE name = 'global_instrumentation'),
                (SELECT MIN(enabled) FROM performance_schema.setup_consumers
                 WHERE name IN ('thread_instrumentation', 'events_statements_current')),
                (SELECT MIN(enabled) FROM performance_schema.setup_instruments
                 WHERE name LIKE 'statement/%' AND name NOT LIKE 'statement/sp/%')"
    };
}

/// Two queries of the lock table: while a transaction is being prepared, its lock moves, and one query may miss it. The
/// first query reads the statement numbers of the owner: `Questions` counts all statements that can take a position but
/// restarts when the connection is reset; the number of the last statement never restarts. The second, later query
/// shows whether the owner is idle: so the numbers are those of an idle owner, or will differ in the next list. An
/// owner that does not exist has left a prepared transaction behind; the owner of a recovered transaction is the main
/// thread.
const MYSQL: &str = concat!(
    scan!(
        "CONCAT((SELECT s.variable_value FROM performance_schema.status_by_thread AS s
                             WHERE s.thread_id = owner_thread_id AND s.variable_name = 'Questions'), '/',
                            (SELECT MAX(e.event_id) FROM performance_schema.events_statements_current AS e
                             WHERE e.thread_id = owner_thread_id))"
    ),
    ";\n",
    scan!(
        "CASE WHEN owner_thread_id IS NULL THEN NULL
                         WHEN (SELECT COUNT(*) FROM performance_schema.threads AS t
                               WHERE t.thread_id = owner_thread_id AND t.name <> 'thread/sql/main') = 0 THEN 'Gone'
                         ELSE (SELECT CASE t.instrumented WHEN 'YES' THEN t.processlist_command END
                               FROM performance_schema.threads AS t WHERE t.thread_id = owner_thread_id) END"
    ),
    ";\n",
    reservations!()
);

/// Two queries, for the same reason, with the connection of the owner.
const MARIADB: &str = concat!(
    scan!(
        "CAST((SELECT t.processlist_id FROM performance_schema.threads AS t WHERE t.thread_id = owner_thread_id) AS CHAR)"
    ),
    ";\n",
    scan!(
        "CAST((SELECT t.processlist_id FROM performance_schema.threads AS t WHERE t.thread_id = owner_thread_id) AS CHAR)"
    ),
    ";\n",
    reservations!()
);

/// The plugin reports only connections. No index: memory of the server.
const PLUGIN: &str = "
    SELECT CAST(thread_id AS CHAR), '', CAST(thread_id AS CHAR)
    FROM information_schema.metadata_lock_info
    WHERE lock_type = 'Table metadata lock' AND table_schema = '{name}' AND table_name = 'events'
      AND lock_mode NOT IN ('MDL_SHARED', 'MDL_SHARED_HIGH_PRIO', 'MDL_SHARED_READ', 'MDL_SHARED_READ_ONLY')";

/// The connections of MariaDB: first the number of the last statement of each, which is unique on the server; then,
/// later, which of them are idle. Then the prepared transactions: they are queried after the locks, so that a
/// transaction that loses its lock in between is found here. Before and after them, how many were ever prepared.
/// Without the right PROCESS, only connections of the same user are reported. No index: memory of the server.
const OF_MARIADB: &str = ";
    SELECT CAST(id AS CHAR), CAST(query_id AS CHAR) FROM information_schema.processlist;
    SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE command = 'Sleep';
    SHOW GLOBAL STATUS LIKE 'Com_xa_prepare';
    XA RECOVER;
    SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'";

impl Locks {
    /// The source that this server has, if any.
    pub(super) async fn of(conn: &mut Conn, product: Product, has_schema: bool) -> Result<Option<Self>> {
        if has_schema {
            let sql = "SELECT (SELECT enabled FROM performance_schema.setup_instruments
                               WHERE name = 'wait/lock/metadata/sql/mdl') = 'YES'
                          AND (SELECT enabled FROM performance_schema.setup_consumers
                               WHERE name = 'global_instrumentation') = 'YES'";
            let answer: Option<Option<bool>> = conn.query_first(sql).await.map_err(|error| {
                failed(error).with_hint("GRANT SELECT ON performance_schema.* to the user of the relay")
            })?;
            if answer.flatten().unwrap_or(false) {
                return Ok(Some(if product == Product::MySql { Self::MySql } else { Self::MariaDb }));
            }
        }
        if product == Product::MariaDb {
            let sql = "SELECT COUNT(*) FROM information_schema.plugins
                       WHERE plugin_name = 'METADATA_LOCK_INFO' AND plugin_status = 'ACTIVE'";
            let found: Option<i64> = conn.query_first(sql).await.map_err(failed)?;
            if found.unwrap_or(0) > 0 {
                return Ok(Some(Self::Plugin));
            }
        }
        Ok(None)
    }

    /// The statements to run, in this order.
    pub(super) fn statements(self, schema: &Ident) -> String {
        // An Ident contains no character that must be escaped in quotes.
        let list = match self {
            Self::MySql => MYSQL,
            Self::MariaDb => MARIADB,
            Self::Plugin => PLUGIN,
        };
        let list = list.replace("{name}", schema.as_str());
        if self == Self::MySql { list } else { format!("{list}{OF_MARIADB}") }
    }

    /// The holders; `None` if the server reports that its list may be incomplete.
    pub(super) fn read(self, mut answers: Vec<Vec<Row>>) -> Result<Option<Holders>> {
        let mut holders = Holders::default();
        let mut idle = BTreeMap::new();
        if self != Self::MySql {
            let mut of_mariadb = answers.split_off(answers.len().saturating_sub(5)).into_iter();
            let mut next = || of_mariadb.next().unwrap_or_default();
            idle = idle_connections(&next(), &next())?;
            holders.prepared = prepared(&next(), &next(), &next())?;
        }
        let mut is_numbered = true;
        if self != Self::Plugin {
            let (settings, lost) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
            let is_on = |column| {
                let word = settings.first().map(|row| get_opt::<String>(row, column)).transpose();
                word.map(|word| word.flatten().is_some_and(|word| word == "YES"))
            };
            let counts = lost.iter().map(|row| get::<i64>(row, 1)).collect::<Result<Vec<_>>>()?;
            let is_whole = !counts.is_empty() && counts.iter().all(|lost| *lost == 0);
            if !is_whole || !is_on(0)? || !is_on(1)? {
                return Ok(None);
            }
            is_numbered = is_on(2)? && is_on(3)?;
        }
        let mut numbers = BTreeMap::new();
        for (nth, row) in
            answers.iter().enumerate().flat_map(|(nth, rows)| rows.iter().map(move |row| (nth, row)))
        {
            let (lock, reported) = ((get(row, 0)?, get(row, 1)?), get_opt::<String>(row, 2)?);
            let token = match (self, reported.as_deref()) {
                (Self::MySql, _) if nth == 0 => {
                    numbers.insert(lock.clone(), reported);
                    None
                }
                (Self::MySql, Some("Gone")) => Some("gone".to_owned()),
                (Self::MySql, Some("Sleep")) if is_numbered => numbers.remove(&lock).flatten(),
                (Self::MySql, _) => None,
                _ => reported.and_then(|connection| idle.get(&connection).cloned()),
            };
            holders.locks.insert(lock, token);
        }
        Ok(Some(holders))
    }
}

/// The last statement of every connection that was idle after its number was read.
fn idle_connections(statements: &[Row], sleeping: &[Row]) -> Result<BTreeMap<String, String>> {
    let sleeping = sleeping.iter().map(|row| get::<String>(row, 0)).collect::<Result<BTreeSet<_>>>()?;
    let statements = statements.iter().map(|row| Ok((get::<String>(row, 0)?, get::<String>(row, 1)?)));
    let mut known = statements.collect::<Result<BTreeMap<_, _>>>()?;
    known.retain(|connection, _| sleeping.contains(connection));
    Ok(known)
}

/// The prepared transactions. Their token is the number of transactions ever prepared, if it did not change while they
/// were read: as long as it stays the same, no name was reused.
fn prepared(before: &[Row], found: &[Row], after: &[Row]) -> Result<BTreeMap<String, Option<String>>> {
    let count = |rows: &[Row]| rows.first().map(|row| get::<String>(row, 1)).transpose();
    let (before, after) = (count(before)?, count(after)?);
    let token = before.filter(|before| Some(before) == after.as_ref());
    found.iter().map(|row| Ok((xid(row)?, token.clone()))).collect()
}

/// The name of a prepared transaction, as an identifier.
fn xid(row: &Row) -> Result<String> {
    let (format, global, branch): (i64, i64, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    let data: Vec<u8> = get(row, 3)?;
    let data: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("xa {format} {global} {branch} {data}"))
}

/// The names of the prepared transactions, in the format of `XA COMMIT`.
pub(super) async fn prepared_names(conn: &mut Conn) -> Result<Vec<String>> {
    let rows: Vec<Row> = conn.query("XA RECOVER").await.map_err(failed)?;
    rows.iter().map(written_xid).collect()
}

fn written_xid(row: &Row) -> Result<String> {
    let (format, global): (i64, usize) = (get(row, 0)?, get(row, 1)?);
    let data: Vec<u8> = get(row, 3)?;
    let (global, branch) = data.split_at(global.min(data.len()));
    let part = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| c.is_ascii_graphic() && c != '\'') => format!("'{text}'"),
        _ => format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    };
    Ok(format!("{},{},{format}", part(global), part(branch)))
}

/// The triggers on the tables of an outbox. Index: that of the dictionary, by name.
pub(super) async fn triggers(conn: &mut Conn, schema: &Ident) -> Result<Vec<String>> {
    let sql = "SELECT CONCAT(trigger_name, ' on ', event_object_table, ' by ', definer)
               FROM information_schema.triggers
               WHERE event_object_schema = ?
                 AND event_object_table IN ('events', 'subscriptions', 'parked', 'leases', 'relays', 'migrations',
                                            'empty_positions')
               ORDER BY 1";
    conn.exec(sql, (schema.as_str(),)).await.map_err(failed)
}
