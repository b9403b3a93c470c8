//! Verbs of the operator: subscribe, accept a new history.

use super::super::history::Incarnation;
use super::super::lease::unknown;
use super::super::row::get;
use super::super::session::Tx;
use super::Rows;
use super::read::foreign_timeout;
use crate::Result;
use crate::store::Start;
use crate::store::row_state::start;

/// See [`Store::subscribe`](crate::store::Store::subscribe). One subscription per table: a row has one state.
pub(super) async fn subscribe(
    work: &Tx<'_>,
    rows: &Rows,
    subscription: &str,
    start: Start,
    server: &Incarnation,
) -> Result<bool> {
    // Index: the primary key (name), and that of the one row.
    let sql = "INSERT INTO {schema}.subscriptions (name, history) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    if work.execute(sql, &[&subscription, &server.history]).await? > 0 {
        refuse_start(work, rows, start).await?;
        return Ok(true);
    }
    let other =
        work.query_opt("SELECT name FROM {schema}.subscriptions WHERE name <> $1", &[&subscription]).await?;
    match other {
        Some(row) => Err(start::second(&rows.table, get(&row, 0)?)),
        None => Ok(false),
    }
}

/// Refuses to leave out rows that are due.
async fn refuse_start(work: &Tx<'_>, rows: &Rows, start: Start) -> Result<()> {
    if start == Start::Beginning {
        return Ok(());
    }
    let table = &rows.table;
    let due = work
        .query_opt(rows.sql.list, &[&1i64, &i64::from(table.max_attempts), &foreign_timeout(table)])
        .await?;
    start::refuse(table, start, due.is_some())
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Nothing is read again that is not due.
pub(super) async fn accept_history(
    work: &Tx<'_>,
    rows: &Rows,
    subscription: &str,
    start: Start,
    server: &Incarnation,
) -> Result<()> {
    // Index: the primary key (name), of both tables.
    let sql = "UPDATE {schema}.subscriptions
               SET epoch = epoch + 1, halted = NULL, history = $2
               WHERE name = $1";
    if work.execute(sql, &[&subscription, &server.history]).await? == 0 {
        return Err(unknown(subscription));
    }
    refuse_start(work, rows, start).await?;
    work.execute("DELETE FROM {schema}.leases WHERE name = $1", &[&subscription]).await.map(|_| ())
}
