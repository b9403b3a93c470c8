//! Rows that were delivered from here: noted while retention is set, and deleted when they are old.
//!
//! A row of somebody's table tells that it was delivered, and not by which program. So a relay with a retention notes
//! what it delivers in `row_done`, and nothing without such a note is deleted. A note that is lost keeps its row.

use super::super::row::get;
use super::super::session::{Params, Session, Tx, params};
use super::sql::{Ids, Sql};
use crate::Result;
use crate::layout::{RowLayout, RowTable};

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

/// Deletes the rows of these notes. A row that was made a day after its note is another one, under a number that was
/// given out again. Indexes: the primary keys.
macro_rules! trim_own {
    ($row:literal, $is_done:literal, $made:literal) => {
        concat!(
            "DELETE t FROM {schema}.row_done AS n STRAIGHT_JOIN {table} AS t ON ",
            $row,
            " WHERE n.row_id IN ({ids}) AND ",
            $is_done,
            " AND COALESCE(",
            $made,
            " <= n.done_at + INTERVAL 1 DAY, TRUE)"
        )
    };
}

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

fn rows_of(table: &RowTable) -> &'static str {
    match table.layout {
        _ if table.only_notes_deliveries() => NOTED,
        RowLayout::EventOutbox => trim_own!("t.id = n.row_id", "t.status = 'sent'", "t.created_at"),
        // There is no such table here.
        RowLayout::Outbox | RowLayout::OutboxEvents => {
            trim_own!("t.id = n.row_id", "t.status = 'PUBLISHED'", "t.created_at")
        }
        RowLayout::Custom => trim_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.made}"),
    }
}

/// Deletes rows that were delivered from here before `cutoff`, in microseconds since 1970, and their notes. Answers how
/// many rows, and how many notes.
pub(super) async fn trim(
    work: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    cutoff: i64,
    most: usize,
) -> Result<(u64, usize)> {
    let found = work.query(&OLD.replace("{most}", &most.to_string()), params![cutoff]).await?;
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
    let deleted = work.execute(&rows_of(table).replace("{ids}", &listed), Params::new()).await?;
    if !table.only_notes_deliveries() {
        work.execute(&FORGET.replace("{ids}", &listed), Params::new()).await?;
        return Ok((deleted, ids.len()));
    }
    let forgotten = work.execute(&FORGET_NOTED.replace("{ids}", &listed), Params::new()).await?;
    work.execute(&KEEP.replace("{ids}", &listed), Params::new()).await?;
    Ok((deleted, usize::try_from(forgotten).unwrap_or(usize::MAX)))
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
pub(super) async fn keep(work: &mut Tx<'_>, sql: &Sql, ids: &[String]) -> Result<()> {
    let listed = sql.ids.listed(ids.iter().map(String::as_str));
    work.execute(&HANDED_OVER.replace("{ids}", &listed), Params::new()).await.map(|_| ())
}
