//! Retention: while it is set, Postrider notes the rows it delivers, and deletes them when they are old.
//!
//! A row shows that it was delivered, but not by which program. A relay with a retention therefore notes its deliveries
//! in `row_done`, and deletes only rows with such a note. If a note is lost, its row is kept.

use super::super::log_tx::clock;
use super::super::row::get;
use super::super::session::{Params, Session, Tx, params};
use super::notifications;
use super::sql::{Ids, Sql};
use crate::Result;
use crate::layout::{Ability, RowTable};
use crate::store::Purge;

/// Notes deliveries. Index: the primary key (row_id).
const NOTE: &str = "INSERT INTO {schema}.row_done (row_id) VALUES {rows}
                    ON DUPLICATE KEY UPDATE done_at = UTC_TIMESTAMP(6)";

/// Notes of rows that were moved to another outbox never expire. Index: the primary key (row_id).
const EXCLUDE: &str = "UPDATE {schema}.row_done SET done_at = '9999-12-31' WHERE row_id IN ({ids})";

/// Old notes, the oldest first. Index: row_done (done_at), from its beginning.
const OLD: &str = "
    SELECT row_id
    FROM {schema}.row_done
    WHERE done_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    ORDER BY done_at, row_id
    LIMIT {rows_max}
    FOR UPDATE SKIP LOCKED";

/// Index: the primary key (row_id).
const DELETE_NOTES: &str = "DELETE FROM {schema}.row_done WHERE row_id IN ({ids})";

/// For a table that cannot show deliveries. Indexes: the primary keys.
const DELETE_NOTED: &str =
    "DELETE t FROM {schema}.row_done AS n STRAIGHT_JOIN {table} AS t ON t.{c.id} = {c.row_id}
                     WHERE n.row_id IN ({ids})";

/// There a note is deleted only together with its row; otherwise the row would be due again. Indexes: the primary keys.
const DELETE_NOTES_OF_DELETED: &str =
    "DELETE n FROM {schema}.row_done AS n LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}
                            WHERE n.row_id IN ({ids}) AND t.{c.id} IS NULL";

/// A row that its table refuses to delete is tried again after the other notes. Index: the primary key (row_id).
const POSTPONE: &str = "UPDATE {schema}.row_done SET done_at = UTC_TIMESTAMP(6) WHERE row_id IN ({ids})";

/// The time before which rows must have been delivered, in microseconds since 1970. `None` if it is before 1970: no row
/// is older, and a TIMESTAMP cannot express it.
async fn cutoff(tx: &mut Tx<'_>, purge: &Purge) -> Result<Option<i64>> {
    let cutoff = purge.cutoff(clock(tx).await?).as_micros();
    Ok((cutoff > 0).then_some(cutoff))
}

/// Deletes rows that Postrider delivered, and their notes. Returns how many rows, and how many notes.
pub(super) async fn delete_own(
    tx: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    purge: &Purge,
) -> Result<(u64, u64)> {
    let Some(cutoff) = cutoff(tx, purge).await? else { return Ok((0, 0)) };
    if table.layout.has(Ability::Notifications) {
        let deleted = notifications::delete_finished(tx, cutoff, purge.events_max).await?;
        return Ok((deleted, deleted));
    }
    let found = tx.query(&OLD.replace("{rows_max}", &purge.events_max.to_string()), params![cutoff]).await?;
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
    let rows = if table.only_notes_deliveries() { DELETE_NOTED } else { sql.delete_own };
    let deleted = tx.execute(&rows.replace("{ids}", &listed), Params::new()).await?;
    if !table.only_notes_deliveries() {
        tx.execute(&DELETE_NOTES.replace("{ids}", &listed), Params::new()).await?;
        return Ok((deleted, ids.len() as u64));
    }
    let notes = tx.execute(&DELETE_NOTES_OF_DELETED.replace("{ids}", &listed), Params::new()).await?;
    tx.execute(&POSTPONE.replace("{ids}", &listed), Params::new()).await?;
    Ok((deleted, notes))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) async fn delete_delivered(
    tx: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    purge: &Purge,
) -> Result<u64> {
    let Some(cutoff) = cutoff(tx, purge).await? else { return Ok(0) };
    if table.layout.has(Ability::Notifications) {
        return notifications::delete_finished(tx, cutoff, purge.events_max).await;
    }
    let params = sql.delete_delivered.matches('?').count();
    let statement = sql.delete_delivered.replace("{rows_max}", &purge.events_max.to_string());
    tx.execute(&statement, vec![cutoff; params]).await
}

/// Notes deliveries. The rows are settled already, so a note that fails only keeps its row from being deleted.
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

/// Excludes rows from retention: they were moved to another outbox.
pub(super) async fn exclude(tx: &mut Tx<'_>, sql: &Sql, ids: &[String]) -> Result<()> {
    let listed = sql.ids.listed(ids.iter().map(String::as_str));
    tx.execute(&EXCLUDE.replace("{ids}", &listed), Params::new()).await.map(|_| ())
}
