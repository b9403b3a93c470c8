//! Verbs of the operator: subscribe, accept a new history.

use rusqlite::{Connection, OptionalExtension, params};

use super::super::failure::Attempt;
use super::super::lease::{now, unknown};
use super::claim::list_due;
use super::sql::Names;
use crate::store::Start;
use crate::store::row_state::start;

/// See [`Store::subscribe`](crate::store::Store::subscribe). One subscription per table: a row has one state.
pub(super) fn subscribe(tx: &Connection, names: &Names, subscription: &str, from: Start) -> Attempt<bool> {
    let known: Option<String> =
        tx.query_row("SELECT name FROM postrider_row_subscriptions", [], |row| row.get(0)).optional()?;
    match known {
        Some(name) if name == subscription => return Ok(false),
        Some(name) => return Err(start::second(&names.table, &name).into()),
        None => refuse_start(tx, names, from)?,
    }
    let create = "INSERT INTO postrider_row_subscriptions (name, created_at, updated_at) VALUES (?1, ?2, ?2)";
    tx.execute(create, params![subscription, now(tx)?])?;
    Ok(true)
}

fn refuse_start(tx: &Connection, names: &Names, from: Start) -> Attempt<()> {
    let due = list_due(tx, &names.put_into(names.sql.list), 1)?;
    Ok(start::refuse(&names.table, from, !due.is_empty())?)
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Nothing is read again that is not due.
pub(super) fn accept_history(tx: &Connection, names: &Names, subscription: &str, from: Start) -> Attempt<()> {
    // Index: the primary key (name), of both tables.
    let accept = "UPDATE postrider_row_subscriptions SET epoch = epoch + 1, halted = NULL WHERE name = ?1";
    if tx.execute(accept, [subscription])? == 0 {
        return Err(unknown(subscription).into());
    }
    refuse_start(tx, names, from)?;
    tx.execute("DELETE FROM postrider_row_leases WHERE name = ?1", [subscription])?;
    Ok(())
}
