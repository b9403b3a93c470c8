//! Retention: while it is set, Postrider notes the rows it delivers, and deletes them when they are old.
//!
//! A row shows that it was delivered, but not by which program. A relay with a retention therefore notes its deliveries
//! in `row_done`, and deletes only rows with such a note. If a note is lost, its row is kept.

use std::time::Duration;

use super::super::connection::Guard;
use super::super::row::get;
use super::super::session::Tx;
use super::super::time::Time;
use super::sql::Sql;
use crate::Result;
use crate::clock::micros;
use crate::inbox::processed_events::DELETE_EXPIRED;
use crate::layout::RowTable;
use crate::store::row_limit;
use crate::store::row_state::no_row;
use crate::store::{InboxPurge, InboxPurged, Purge};

/// Longer retentions are cut to this: the calendar of the database ends.
const FOREVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Whether the schema `$1` has the inbox of layout `outbox`.
const HAS_PROCESSED: &str = "
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                   WHERE n.nspname = $1::text AND c.relname = 'processed_events' AND c.relkind IN ('r', 'p'))";

/// Notes deliveries. Index: the primary key (row_id).
const NOTE: &str = "
    INSERT INTO {schema}.row_done AS d (row_id)
    SELECT unnest($1::text[])
    ON CONFLICT (row_id) DO UPDATE SET done_at = clock_timestamp()";

/// Notes of rows that were moved to another outbox never expire. Index: the primary key (row_id).
const EXCLUDE: &str = "
    UPDATE {schema}.row_done
    SET done_at = timestamptz '9999-12-31 00:00:00+00'
    WHERE row_id = ANY ($1::text[])";

/// Deletes own rows of a table that cannot show deliveries. A note is deleted only together with its row; otherwise the
/// row would be due again. A row that its table refuses to delete is tried again after the other notes. Indexes:
/// row_done (done_at), from its beginning, and the key of the table.
const DELETE_NOTED: &str = "
    WITH old AS (
        SELECT n.row_id, t.{c.id} IS NULL AS is_gone
        FROM {schema}.row_done AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}
        WHERE n.done_at < to_timestamp(0) + $1::bigint * interval '1 microsecond'
        ORDER BY n.done_at
        LIMIT $2::bigint
        FOR UPDATE OF n SKIP LOCKED
    ), gone AS (
        DELETE FROM {table} AS t USING old AS n WHERE t.{c.id} = {c.row_id} RETURNING n.row_id
    ), ended AS (
        SELECT row_id FROM gone UNION ALL SELECT row_id FROM old WHERE is_gone
    ), deleted_notes AS (
        DELETE FROM {schema}.row_done AS d USING ended WHERE d.row_id = ended.row_id RETURNING 1
    ), kept AS (
        UPDATE {schema}.row_done AS d
        SET done_at = clock_timestamp()
        FROM old
        WHERE d.row_id = old.row_id AND old.row_id NOT IN (SELECT row_id FROM ended)
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM deleted_notes)";

/// The statement that deletes rows that Postrider delivered.
fn delete_own_sql(sql: &Sql, table: &RowTable, at_expiry: bool) -> &'static str {
    match sql.delete_own_expired {
        _ if table.only_notes_deliveries() => DELETE_NOTED,
        Some(expired) if at_expiry => expired,
        _ => sql.delete_own,
    }
}

/// The time before which rows must have been delivered, in microseconds since 1970, and how many are deleted at a time.
/// The time is the same for every statement of a batch, and exact: a row that is newer by a microsecond stays.
async fn limits(tx: &Tx<'_>, purge: &Purge) -> Result<(i64, i64)> {
    let row = tx.query_opt("SELECT clock_timestamp()", &[]).await?.ok_or_else(no_row)?;
    let purge = Purge { older_than: purge.older_than.min(FOREVER), ..*purge };
    let cutoff = purge.cutoff(get::<Time>(&row, 0)?.0).as_micros();
    Ok((cutoff.max(-micros(FOREVER)), row_limit(purge.events_max)))
}

/// Deletes rows that Postrider delivered, and their notes. Returns how many rows, and how many notes.
pub(super) async fn delete_own(
    tx: &Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    purge: &Purge,
) -> Result<(u64, u64)> {
    let (cutoff, rows_max) = limits(tx, purge).await?;
    let row = tx
        .query_opt(delete_own_sql(sql, table, purge.at_expiry), &[&cutoff, &rows_max])
        .await?
        .ok_or_else(no_row)?;
    let count = |at| get::<i64>(&row, at).map(i64::unsigned_abs);
    Ok((count(0)?, count(1)?))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) async fn delete_delivered(tx: &Tx<'_>, sql: &Sql, purge: &Purge) -> Result<u64> {
    let (cutoff, rows_max) = limits(tx, purge).await?;
    tx.execute(sql.delete_delivered, &[&cutoff, &rows_max]).await
}

/// Whether the schema has `processed_events`.
pub(super) async fn has_processed(tx: &Tx<'_>, table: &RowTable) -> Result<bool> {
    let schema = table.schema.as_str().to_owned();
    get(&tx.query_opt(HAS_PROCESSED, &[&schema]).await?.ok_or_else(no_row)?, 0)
}

/// Deletes expired rows of `processed_events`, if the schema has it.
pub(super) async fn purge_processed(
    conn: &mut Guard<'_>,
    table: &RowTable,
    purge: &InboxPurge,
) -> Result<InboxPurged> {
    let tx = conn.begin().await?;
    if !has_processed(&tx, table).await? {
        return Ok(InboxPurged::default());
    }
    let (_, most) = purge.limits();
    let deleted = tx.execute(DELETE_EXPIRED, &[&most]).await?;
    tx.commit().await.map(|()| purge.deleted(deleted))
}

/// Notes deliveries. The rows are settled already, so a note that fails only keeps its row from being deleted.
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

/// Excludes rows from retention: they were moved to another outbox.
pub(super) async fn exclude(tx: &Tx<'_>, ids: &[String]) -> Result<()> {
    tx.execute(EXCLUDE, &[&ids]).await.map(drop)
}
