//! Verbs of the operator: subscribe, accept a new history.

use super::super::lease::unknown;
use super::super::row::get;
use super::super::session::{Params, Tx, params};
use super::sql::Sql;
use crate::Result;
use crate::layout::RowTable;
use crate::store::Start;
use crate::store::row_state::start;

/// See [`Store::subscribe`](crate::store::Store::subscribe). One subscription per table: a row has one state.
pub(super) async fn subscribe(
    work: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    subscription: &str,
    from: Start,
) -> Result<bool> {
    // One after the other. Index: the primary key, its one row.
    work.query("SELECT layout FROM {schema}.row_table FOR UPDATE", Params::new()).await?;
    let known = work.query_opt("SELECT name FROM {schema}.subscriptions", Params::new()).await?;
    if let Some(row) = known {
        let name: String = get(&row, 0)?;
        return if name == subscription { Ok(false) } else { Err(start::second(table, &name)) };
    }
    refuse_start(work, sql, table, from).await?;
    let history = work.server().history.clone();
    let create = "INSERT INTO {schema}.subscriptions (name, history) VALUES (?, ?)";
    work.execute(create, params![subscription, history]).await?;
    Ok(true)
}

async fn refuse_start(work: &mut Tx<'_>, sql: &Sql, table: &RowTable, from: Start) -> Result<()> {
    let due = work.query_opt(&sql.list.replace("{most}", "1"), Params::new()).await?;
    start::refuse(table, from, due.is_some())
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Nothing is read again that is not due.
pub(super) async fn accept_history(
    work: &mut Tx<'_>,
    sql: &Sql,
    table: &RowTable,
    subscription: &str,
    from: Start,
) -> Result<()> {
    let history = work.server().history.clone();
    // Index: the primary key (name), of both tables.
    let accept =
        "UPDATE {schema}.subscriptions SET epoch = epoch + 1, halted = NULL, history = ? WHERE name = ?";
    if work.execute(accept, params![history, subscription]).await? == 0 {
        return Err(unknown(subscription));
    }
    refuse_start(work, sql, table, from).await?;
    work.execute("DELETE FROM {schema}.leases WHERE name = ?", params![subscription]).await.map(drop)
}
