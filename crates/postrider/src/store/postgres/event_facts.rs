//! What PostgreSQL knows about one event; see [`event_facts`](crate::store::event_facts).

use tokio_postgres::Row;
use uuid::Uuid;

use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use crate::operate::ParkedItem;
use crate::operate::explain::{OpenWriter, SqlFlavor};
use crate::store::event_facts::FactsTx;
use crate::{Position, Result, Timestamp};

/// The columns of [`ParkedItem::read`].
macro_rules! item {
    () => {
        "SELECT p.position::text, p.event_id::text,
                (SELECT e.type FROM ONLY {schema}.events AS e
                 WHERE e.position = p.position AND e.id IS NOT DISTINCT FROM coalesce(p.event_id, e.id)),
                p.key, p.destination, p.state, p.attempts, p.next_attempt_at, p.last_error, p.parked_at,
                p.updated_at, p.redelivery
         FROM {schema}.parked AS p "
    };
}

/// Transactions that hold the lock of a writer on a table: `$1` its name. Only members of pg_read_all_stats see the
/// statements of other users. No index: shared memory.
pub(super) const OPEN_WRITERS: &str = "
    WITH locks AS MATERIALIZED (
        SELECT locktype, database, relation, mode, virtualtransaction, transactionid, pid
        FROM pg_catalog.pg_locks
        WHERE granted
    )
    SELECT coalesce(l.pid::text, 'prepared transaction ' || p.gid, 'prepared transaction'),
           concat_ws(' ', coalesce(a.usename, p.owner), nullif(a.application_name, ''), host(a.client_addr)),
           coalesce(a.xact_start, p.prepared), a.query
    FROM locks AS l
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    LEFT JOIN locks AS x ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
                         AND x.locktype = 'transactionid'
    LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = x.transactionid
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.relation = to_regclass($1)
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
      AND l.pid IS DISTINCT FROM pg_backend_pid()
    ORDER BY 3
    LIMIT 20";

/// The transactions that have written to a table.
pub(super) async fn open_writers(tx: &Tx<'_>, table: &str) -> Result<Vec<OpenWriter>> {
    let of = |row: &Row| {
        let (client, query): (String, Option<String>) = (get(row, 1)?, get(row, 3)?);
        let since = get::<Option<Time>>(row, 2)?.map(|time| time.0);
        Ok(OpenWriter::new(get::<String>(row, 0)?, &client, since, query.as_deref(), SqlFlavor::Postgres))
    };
    tx.query(OPEN_WRITERS, &[&table]).await?.iter().map(of).collect()
}

/// The first row of an answer as a position.
fn first(rows: &[Row]) -> Result<Option<Position>> {
    rows.first().map(|row| row::position(row, 0)).transpose()
}

fn first_item(name: &str, row: Option<Row>) -> Result<Option<ParkedItem>> {
    row.map(|row| ParkedItem::read(name, &row)).transpose()
}

impl FactsTx for Tx<'_> {
    async fn position_of(&mut self, id: Uuid, start: Position, end: Position) -> Result<Option<Position>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position FROM ONLY {schema}.events
                   WHERE position BETWEEN $1 AND $2 AND id = $3
                   ORDER BY position LIMIT 1";
        first(&self.query(sql, &[&start.get(), &end.get(), &id]).await?)
    }

    async fn first_of_key(&mut self, key: &str, start: Position, end: Position) -> Result<Option<Position>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position FROM ONLY {schema}.events
                   WHERE position BETWEEN $1 AND $2
                     AND coalesce(key, replace(replace(aggregate_type, '%', '%25'), '/', '%2F') || '/'
                                       || aggregate_id) = $3
                   ORDER BY position LIMIT 1";
        first(&self.query(sql, &[&start.get(), &end.get(), &key]).await?)
    }

    async fn parked_at(&mut self, name: &str, position: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(item!(), "WHERE p.subscription = $1 AND p.position = $2");
        first_item(name, self.query_opt(sql, &[&name, &position.get()]).await?)
    }

    async fn parked_head(&mut self, name: &str, key: &str, below: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(
            item!(),
            "WHERE p.subscription = $1 AND p.position < $2 AND p.key = $3 AND p.state <> 'behind'
             ORDER BY p.position DESC LIMIT 1"
        );
        first_item(name, self.query_opt(sql, &[&name, &below.get(), &key]).await?)
    }

    async fn recorded_at(&mut self, name: &str) -> Result<Option<Timestamp>> {
        let sql = "SELECT updated_at FROM {schema}.subscriptions WHERE name = $1";
        let row = self.query_opt(sql, &[&name]).await?;
        row.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()
    }

    async fn open_writers(&mut self) -> Result<Vec<OpenWriter>> {
        let row = self.query_opt("SELECT '{schema}.events'", &[]).await?;
        let table: String = row.map_or(Ok(String::new()), |row| get(&row, 0))?;
        open_writers(self, &table).await
    }
}
