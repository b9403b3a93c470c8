//! Retention: rows that were delivered from here are noted while it is set, and deleted when they are old.
//!
//! A row says that it was delivered, and not by which program. So a relay with a retention notes what it delivers in
//! `row_done`, and nothing without such a note is deleted. A note that is lost keeps its row.

use super::super::log_tx::clock;
use super::super::row::get;
use super::super::session::{Params, Session, Tx, params};
use super::sql::{Ids, Sql};
use crate::Result;
use crate::layout::RowTable;
use crate::store::Purge;

/// Rows were delivered. Index: the primary key (row_id).
const NOTE: &str = "INSERT INTO {schema}.row_done (row_id) VALUES {rows}
                    ON DUPLICATE KEY UPDATE done_at = UTC_TIMESTAMP(6)";

/// Rows were handed over to another outbox: their notes never grow old. Index: the primary key (row_id).
const HANDED_OVER: &str = "UPDATE {schema}.row_done SET done_at = '9999-12-31' WHERE row_id IN ({ids})";

/// Notes that are old, the oldest first. Index: row_done (done_at), from its begin.
const OLD: &str = "
    SELECT row_id
    FROM {schema}.row_done
    WHERE done_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    ORDER BY done_at, row_id
    LIMIT {most}
    FOR UPDATE SKIP LOCKED";

/// Index: the primary key (row_id).
const FORGET: &str = "DELETE FROM {schema}.row_done WHERE row_id IN ({ids})";

/// Where a note is all that tells of a delivery. Indexes: the primary keys.
const NOTED: &str = "DELETE t FROM {schema}.row_done AS n STRAIGHT_JOIN {table} AS t ON t.{c.id} = {c.row_id}
                     WHERE n.row_id IN ({ids})";

/// There a note goes only with its row, or the row would be due again. Indexes: the primary keys.
const FORGET_NOTED: &str =
    "DELETE n FROM {schema}.row_done AS n LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}
                            WHERE n.row_id IN ({ids}) AND t.{c.id} IS NULL";

/// A row that its table keeps is looked at again after those that wait now. Index: the primary key (row_id).
const KEEP: &str = "UPDATE {schema}.row_done SET done_at = UTC_TIMESTAMP(6) WHERE row_id IN ({ids})";

/// Before when rows must have been delivered, in microseconds since 1970. Before that there was nothing, and to a
/// TIMESTAMP there is no such time.
async fn cutoff(tx: &mut Tx<'_>, purge: &Purge) -> Result<Option<i64>> {
    let cutoff = purge.cutoff(clock(tx).await?).as_micros();
    Ok((cutoff > 0).then_some(cutoff))
}

/// Deletes rows that were delivered from here, and their notes. Returns how many rows, and how many notes.
pub(super) async fn delete_own(
    tx: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    purge: &Purge,
) -> Result<(u64, u64)> {
    let Some(cutoff) = cutoff(tx, purge).await? else { return Ok((0, 0)) };
    let found = tx.query(&OLD.replace("{most}", &purge.events_max.to_string()), params![cutoff]).await?;
    let ids: Vec<String> = match sql.ids {
        Ids::Numbers => {
            found.iter().map(|row| get::<i64>(row, 0).map(|id| id.to_string())).collect::<Result<_>>()?
        }
        Ids::Texts => found.iter().map(|row| get(row, 0)).collect::<Result<_>>()?,
    };
    if ids.is_empty() {
        return Ok((0, 0));
    }
    let listed = sql.ids.listed(ids.iter().map(String::as_str));
    let rows = if table.only_notes_deliveries() { NOTED } else { sql.delete_own };
    let deleted = tx.execute(&rows.replace("{ids}", &listed), Params::new()).await?;
    if !table.only_notes_deliveries() {
        tx.execute(&FORGET.replace("{ids}", &listed), Params::new()).await?;
        return Ok((deleted, ids.len() as u64));
    }
    let forgotten = tx.execute(&FORGET_NOTED.replace("{ids}", &listed), Params::new()).await?;
    tx.execute(&KEEP.replace("{ids}", &listed), Params::new()).await?;
    Ok((deleted, forgotten))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) async fn delete_delivered(tx: &mut Tx<'_>, sql: &Sql, purge: &Purge) -> Result<u64> {
    let Some(cutoff) = cutoff(tx, purge).await? else { return Ok(0) };
    let times = sql.delete_delivered.matches('?').count();
    let statement = sql.delete_delivered.replace("{most}", &purge.events_max.to_string());
    tx.execute(&statement, vec![cutoff; times]).await
}

/// Notes that these rows were delivered. They are settled already: a note that fails only keeps its row from being
/// deleted.
pub(super) async fn note(session: &mut Session, sql: &Sql, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    let rows = format!("({})", sql.ids.listed(ids.iter().map(String::as_str)).replace(',', "),("));
    if let Err(error) = session.autocommit_changes(&NOTE.replace("{rows}", &rows), Params::new()).await {
        let rows = ids.len();
        tracing::debug!(
            rows,
            "delivered rows were not recorded for retention and will not be deleted: {}",
            error.one_line()
        );
    }
}

/// These rows were handed over, and are not to be deleted.
pub(super) async fn keep(tx: &mut Tx<'_>, sql: &Sql, ids: &[String]) -> Result<()> {
    let listed = sql.ids.listed(ids.iter().map(String::as_str));
    tx.execute(&HANDED_OVER.replace("{ids}", &listed), Params::new()).await.map(|_| ())
}
