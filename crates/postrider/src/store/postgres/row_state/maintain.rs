//! Retention by the rule of each layout, in short transactions.

use std::time::Duration;

use super::super::connection::Guard;
use super::super::row::get;
use super::super::session::Tx;
use super::sql::Sql;
use super::{lost, own};
use crate::Result;
use crate::layout::{RowLayout, RowTable};
use crate::store::row_state::scope;
use crate::store::{Purge, Purged, RetentionScope};

/// Longer than this is for ever, to a database whose calendar ends.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Whether the schema `$1` has the inbox of layout `outbox`.
const HAS_PROCESSED: &str = "
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                   WHERE n.nspname = $1::text AND c.relname = 'processed_events' AND c.relkind IN ('r', 'p'))";

/// Each row by itself: rows of other consumer groups for the same event may expire later. Every partition has a row of the
/// same `ctid`. Index: idx_processed_events_expires (expires_at), from its begin.
const TRIM_PROCESSED: &str = "
    WITH old AS MATERIALIZED (
        SELECT tableoid AS part, ctid AS place
        FROM {processed}
        WHERE expires_at < statement_timestamp()
        ORDER BY expires_at
        LIMIT $1::bigint
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM {processed}
    WHERE ctid = ANY (ARRAY(SELECT place FROM old))
      AND (tableoid, ctid) IN (SELECT part, place FROM old)
      AND expires_at < statement_timestamp()";

/// See [`Store::purge`](crate::store::Store::purge). What is delivered says so itself, so there is no cursor.
pub(super) async fn trim(turn: &mut Guard<'_>, sql: &Sql, table: &RowTable, trim: &Purge) -> Result<Purged> {
    let work = turn.begin().await?;
    let trimmed = trim_outbox(&work, sql, table, trim).await?;
    work.commit().await?;
    if table.layout != RowLayout::Outbox {
        return Ok(trimmed);
    }
    // A transaction of its own: an inbox that cannot be cleaned must not keep the outbox from being so.
    match trim_processed(turn, table, trim.events_max).await {
        Ok(more) => Ok(Purged { more: trimmed.more || more, ..trimmed }),
        Err(error) if trimmed.deleted == 0 => Err(error),
        Err(_) => Ok(trimmed),
    }
}

async fn trim_outbox(work: &Tx<'_>, sql: &Sql, table: &RowTable, trim: &Purge) -> Result<Purged> {
    let micros = i64::try_from(trim.older_than.min(FOR_EVER).as_micros()).unwrap_or(i64::MAX);
    let most = i64::try_from(trim.events_max).unwrap_or(i64::MAX);
    let (deleted, looked_at) = match scope(trim, table) {
        RetentionScope::Own => {
            let statement = own::trim(table, trim.at_expiry);
            let row = work.query_opt(statement, &[&micros, &most]).await?.ok_or_else(lost)?;
            let count = |at| get::<i64>(&row, at).map(i64::unsigned_abs);
            (count(0)?, count(1)?)
        }
        RetentionScope::All => {
            let deleted = work.execute(sql.trim, &[&micros, &most]).await?;
            (deleted, deleted)
        }
    };
    Ok(Purged { deleted, reached: trim.after, more: looked_at >= trim.events_max as u64, held: None })
}

/// Deletes expired rows of the inbox beside the outbox, if there is one. Answers whether there may be more.
async fn trim_processed(turn: &mut Guard<'_>, table: &RowTable, rows_max: usize) -> Result<bool> {
    let work = turn.begin().await?;
    let schema = table.schema.as_str().to_owned();
    let found = work.query_opt(HAS_PROCESSED, &[&schema]).await?.ok_or_else(lost)?;
    if !get::<bool>(&found, 0)? {
        return Ok(false);
    }
    let most = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let deleted = work.execute(TRIM_PROCESSED, &[&most]).await?;
    work.commit().await?;
    if deleted > 0 {
        tracing::info!(deleted, "deleted expired rows of processed_events");
    }
    Ok(deleted >= rows_max as u64)
}
