//! What MySQL and MariaDB know about one event; see [`event_facts`](crate::store::event_facts).

use std::time::Duration;

use mysql_async::Row;
use uuid::Uuid;

use super::locks::Locks;
use super::operate::uuid_text;
use super::row::{self, get, get_opt, micros};
use super::session::{Params, Tx, params};
use crate::operate::ParkedItem;
use crate::operate::explain::{OpenWriter, SqlFlavor};
use crate::store::event_facts::FactsTx;
use crate::{Clock, Position, Result, SystemClock, Timestamp};

/// The columns of [`ParkedItem::read`].
macro_rules! item {
    () => {
        concat!(
            "SELECT CAST(p.position AS CHAR), IF(p.event_id IS NULL, NULL, ",
            uuid_text!("p.event_id"),
            "),     (SELECT e.type FROM {schema}.events AS e
                     WHERE e.position = p.position AND e.id = COALESCE(p.event_id, e.id)),
                    p.`key`, p.destination, p.state, p.attempts, ",
            micros!("p.next_attempt_at"),
            "     , p.last_error, ",
            micros!("p.parked_at"),
            "     , ",
            micros!("p.updated_at"),
            "     , p.redelivery
             FROM {schema}.parked AS p "
        )
    };
}

/// Locks that only readers hold are left out. When a transaction began is known only with the right PROCESS. No index:
/// memory of the server.
const WRITERS_BY_LOCKS: &str = "
    SELECT CAST(t.processlist_id AS CHAR), CONCAT_WS(' ', t.processlist_user, t.processlist_host), t.processlist_info
    FROM performance_schema.metadata_locks AS l
    JOIN performance_schema.threads AS t ON t.thread_id = l.owner_thread_id
    WHERE l.object_type = 'TABLE' AND l.object_schema = ? AND l.object_name = ? AND l.lock_status = 'GRANTED'
      AND l.lock_type NOT IN ('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_READ_ONLY')
      AND t.processlist_id <> CONNECTION_ID()
    GROUP BY 1, 2, 3
    LIMIT 20";

/// The same with MariaDB's plugin.
const WRITERS_BY_PLUGIN: &str = "
    SELECT CAST(l.thread_id AS CHAR), CONCAT_WS(' ', p.user, p.host), p.info
    FROM information_schema.metadata_lock_info AS l
    LEFT JOIN information_schema.processlist AS p ON p.id = l.thread_id
    WHERE l.lock_type = 'Table metadata lock' AND l.table_schema = ? AND l.table_name = ?
      AND l.lock_mode NOT IN ('MDL_SHARED', 'MDL_SHARED_HIGH_PRIO', 'MDL_SHARED_READ', 'MDL_SHARED_READ_ONLY')
      AND l.thread_id <> CONNECTION_ID()
    GROUP BY 1, 2, 3
    LIMIT 20";

/// When transactions began, by connection. The column is in the time zone of the server.
const BEGUN: &str = concat!(
    "SELECT CAST(trx_mysql_thread_id AS CHAR), ",
    micros!("UTC_TIMESTAMP(6)"),
    " - 1000000 * TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_query
     FROM information_schema.innodb_trx"
);

const BEGUN_TRIES_MAX: usize = 4;
const BEGUN_PAUSE: Duration = Duration::from_millis(120);

/// The last statement of each connection, also if it has ended. MariaDB collects none unless it is configured to.
const STATEMENTS: &str = "
    SELECT CAST(t.processlist_id AS CHAR), s.sql_text
    FROM performance_schema.events_statements_current AS s
    JOIN performance_schema.threads AS t ON t.thread_id = s.thread_id
    WHERE t.processlist_id IS NOT NULL AND s.sql_text IS NOT NULL
    ORDER BY s.event_id DESC";

/// The transactions that have written to a table, as far as this server shows them.
pub(super) async fn open_writers(tx: &mut Tx<'_>, schema: &str, table: &str) -> Result<Vec<OpenWriter>> {
    let sql = match tx.server().locks {
        Some(Locks::MySql | Locks::MariaDb) => WRITERS_BY_LOCKS,
        Some(Locks::Plugin) => WRITERS_BY_PLUGIN,
        None => return Ok(Vec::new()),
    };
    let rows = tx.query(sql, params![schema, table]).await?;
    let begun = begun(tx, &rows).await;
    // Without the right to read it this fails too, and only statements that are being executed are shown.
    let ended = match rows.is_empty() {
        true => Vec::new(),
        false => tx.query(STATEMENTS, Params::new()).await.unwrap_or_default(),
    };
    let of = |row: &Row| -> Result<OpenWriter> {
        let (backend, client): (String, Option<String>) = (get(row, 0)?, get_opt(row, 1)?);
        let of_backend = |row: &&Row| get::<String>(row, 0).is_ok_and(|other| other == backend);
        let known = begun.iter().find(of_backend);
        let since = known.map(|row| row::time(row, 1)).transpose()?;
        let running: Option<String> = get_opt(row, 2)?;
        let last = || ended.iter().find(of_backend).and_then(|row| get_opt(row, 1).ok().flatten());
        let query = running.or_else(last);
        Ok(OpenWriter::new(
            backend,
            client.as_deref().unwrap_or_default(),
            since,
            query.as_deref(),
            SqlFlavor::MySql,
        ))
    };
    rows.iter().map(of).collect()
}

/// When the transactions of these writers began. Without the right PROCESS nothing is known, and they are shown without
/// their times. The server shows a copy that is not renewed while any session reads it more often than every 0.1 s, so a
/// transaction that is missing is looked for again.
async fn begun(tx: &mut Tx<'_>, writers: &[Row]) -> Vec<Row> {
    let clock = SystemClock::new();
    let mut begun = Vec::new();
    for tried in 0..BEGUN_TRIES_MAX {
        if tried > 0 {
            clock.sleep_until(clock.now().elapsed + BEGUN_PAUSE).await;
        }
        let Ok(found) = tx.query(BEGUN, Params::new()).await else { return Vec::new() };
        begun = found;
        let of = |row: &Row| get::<String>(row, 0).unwrap_or_default();
        if writers.iter().all(|writer| begun.iter().any(|row| of(row) == of(writer))) {
            break;
        }
    }
    begun
}

fn first(rows: &[Row]) -> Result<Option<Position>> {
    rows.first().map(|row| row::position(row, 0)).transpose()
}

fn first_item(name: &str, row: Option<Row>) -> Result<Option<ParkedItem>> {
    row.map(|row| ParkedItem::read(name, &row)).transpose()
}

impl FactsTx for Tx<'_> {
    async fn position_of(&mut self, id: Uuid, start: Position, end: Position) -> Result<Option<Position>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position FROM {schema}.events FORCE INDEX (PRIMARY)
                   WHERE position BETWEEN ? AND ? AND id = ?
                   ORDER BY position LIMIT 1";
        let values = params![start.get(), end.get(), id.as_bytes().to_vec()];
        first(&self.query(sql, values).await?)
    }

    async fn first_of_key(&mut self, key: &str, start: Position, end: Position) -> Result<Option<Position>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position FROM {schema}.events FORCE INDEX (PRIMARY)
                   WHERE position BETWEEN ? AND ?
                     AND COALESCE(`key`, CONCAT(REPLACE(REPLACE(aggregate_type, '%', '%25'), '/', '%2F'), '/',
                                                aggregate_id)) = ?
                   ORDER BY position LIMIT 1";
        first(&self.query(sql, params![start.get(), end.get(), key]).await?)
    }

    async fn parked_at(&mut self, name: &str, position: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(item!(), "WHERE p.subscription = ? AND p.position = ?");
        first_item(name, self.query_opt(sql, params![name, position.get()]).await?)
    }

    async fn parked_head(&mut self, name: &str, key: &str, below: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(
            item!(),
            "WHERE p.subscription = ? AND p.position < ? AND p.`key` = ? AND p.state <> 'behind'
             ORDER BY p.position DESC LIMIT 1"
        );
        first_item(name, self.query_opt(sql, params![name, below.get(), key]).await?)
    }

    async fn recorded_at(&mut self, name: &str) -> Result<Option<Timestamp>> {
        let sql = concat!("SELECT ", micros!("updated_at"), " FROM {schema}.subscriptions WHERE name = ?");
        let row = self.query_opt(sql, params![name]).await?;
        row.map(|row| row::time(&row, 0)).transpose()
    }

    async fn open_writers(&mut self) -> Result<Vec<OpenWriter>> {
        let schema = self.schema().as_str().to_owned();
        open_writers(self, &schema, "events").await
    }
}
