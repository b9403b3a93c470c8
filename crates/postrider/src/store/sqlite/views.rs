//! Views over the default layout, for operators with their own tools. Made on request.

use rusqlite::{Connection, TransactionBehavior};

use super::failure::Attempt;
use super::migrate;
use super::worker::in_transaction;

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// What the views are made of.
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, as the counts read it.
pub(super) fn events() -> String {
    format!(
        "SELECT subscription, type AS event_type, producer, time AS created_at, NULL AS delivered_at, state, is_due,
                attempts
         FROM ({STATE}) AS o"
    )
}

/// Makes the views, or replaces them, all of them or none.
pub(super) fn make(connection: &mut Connection) -> Attempt<()> {
    migrate::check(connection)?;
    in_transaction(connection, TransactionBehavior::Immediate, |tx| {
        Ok(tx.execute_batch(&VIEWS.replace("{state}", STATE.trim_end()))?)
    })
}
