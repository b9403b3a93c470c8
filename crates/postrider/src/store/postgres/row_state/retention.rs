//! Retention: rows that were delivered from here are noted while it is set, and deleted when they are old.
//!
//! A row says that it was delivered, and not by which program. So a relay with a retention notes what it delivers in
//! `row_done`, and nothing without such a note is deleted. A note that is lost keeps its row.

use std::time::Duration;

use super::super::connection::Guard;
use super::super::row::get;
use super::super::session::Tx;
use super::sql::Sql;
use crate::Result;
use crate::inbox::processed_events::DELETE_EXPIRED;
use crate::layout::RowTable;
use crate::store::row_state::lost;
use crate::store::{InboxPurge, InboxPurged, Purge};

/// Longer than this is forever, to a database whose calendar ends.
const FOREVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Whether the schema `$1` has the inbox of layout `outbox`.
const HAS_PROCESSED: &str = "
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                   WHERE n.nspname = $1::text AND c.relname = 'processed_events' AND c.relkind IN ('r', 'p'))";

/// Rows were delivered. Index: the primary key (row_id).
const NOTE: &str = "
    INSERT INTO {schema}.row_done AS d (row_id)
    SELECT unnest($1::text[])
    ON CONFLICT (row_id) DO UPDATE SET done_at = clock_timestamp()";

/// Rows were handed over to another outbox: their notes never grow old. Index: the primary key (row_id).
const HANDED_OVER: &str = "
    UPDATE {schema}.row_done
    SET done_at = timestamptz '9999-12-31 00:00:00+00'
    WHERE row_id = ANY ($1::text[])";

/// Deletes own rows where a note is all that tells of a delivery: it goes only with its row, or the row would be due again. A row
/// that its table keeps is looked at again after those that wait now. Indexes: row_done (done_at), from its begin, and the
/// key of the table.
const NOTED: &str = "
    WITH old AS (
        SELECT n.row_id, t.{c.id} IS NULL AS is_gone
        FROM {schema}.row_done AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}
        WHERE n.done_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY n.done_at
        LIMIT $2::bigint
        FOR UPDATE OF n SKIP LOCKED
    ), gone AS (
        DELETE FROM {table} AS t USING old AS n WHERE t.{c.id} = {c.row_id} RETURNING n.row_id
    ), ended AS (
        SELECT row_id FROM gone UNION ALL SELECT row_id FROM old WHERE is_gone
    ), forgotten AS (
        DELETE FROM {schema}.row_done AS d USING ended WHERE d.row_id = ended.row_id RETURNING 1
    ), kept AS (
        UPDATE {schema}.row_done AS d
        SET done_at = clock_timestamp()
        FROM old
        WHERE d.row_id = old.row_id AND old.row_id NOT IN (SELECT row_id FROM ended)
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)";

/// The statement that deletes what was delivered from here.
fn own(sql: &Sql, table: &RowTable, at_expiry: bool) -> &'static str {
    match sql.delete_own_expired {
        _ if table.only_notes_deliveries() => NOTED,
        Some(expired) if at_expiry => expired,
        _ => sql.delete_own,
    }
}

/// How old rows must be, in microseconds, and how many go at a time.
fn limits(purge: &Purge) -> (i64, i64) {
    let age = i64::try_from(purge.older_than.min(FOREVER).as_micros()).unwrap_or(i64::MAX);
    (age, i64::try_from(purge.events_max).unwrap_or(i64::MAX))
}

/// Deletes rows that were delivered from here, and their notes. Returns how many rows, and how many notes.
pub(super) async fn delete_own(
    tx: &Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    purge: &Purge,
) -> Result<(u64, u64)> {
    let (age, most) = limits(purge);
    let row = tx.query_opt(own(sql, table, purge.at_expiry), &[&age, &most]).await?.ok_or_else(lost)?;
    let count = |at| get::<i64>(&row, at).map(i64::unsigned_abs);
    Ok((count(0)?, count(1)?))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) async fn delete_delivered(tx: &Tx<'_>, sql: &Sql, purge: &Purge) -> Result<u64> {
    let (age, most) = limits(purge);
    tx.execute(sql.delete_delivered, &[&age, &most]).await
}

/// Deletes expired rows of `processed_events`, if the schema has it.
pub(super) async fn purge_processed(
    conn: &mut Guard<'_>,
    table: &RowTable,
    purge: &InboxPurge,
) -> Result<InboxPurged> {
    let tx = conn.begin().await?;
    let schema = table.schema.as_str().to_owned();
    let found = tx.query_opt(HAS_PROCESSED, &[&schema]).await?.ok_or_else(lost)?;
    if !get::<bool>(&found, 0)? {
        return Ok(InboxPurged::default());
    }
    let (_, most) = purge.limits();
    let deleted = tx.execute(DELETE_EXPIRED, &[&most]).await?;
    tx.commit().await.map(|()| purge.deleted(deleted))
}

/// Notes that these rows were delivered. They are settled already: a note that fails only keeps its row from being
/// deleted.
pub(super) async fn note(conn: &mut Guard<'_>, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    if let Err(error) = conn.query(NOTE, &[&ids]).await {
        let rows = ids.len();
        tracing::debug!(
            rows,
            "delivered rows were not recorded for retention and will not be deleted: {}",
            error.one_line()
        );
    }
}

/// These rows were handed over, and are not to be deleted.
pub(super) async fn keep(tx: &Tx<'_>, ids: &[String]) -> Result<()> {
    tx.execute(HANDED_OVER, &[&ids]).await.map(drop)
}
