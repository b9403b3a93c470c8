//! Views over the default layout, for operators who use other tools. Created on request.

use rusqlite::{Connection, TransactionBehavior};

use super::failure::Attempt;
use super::migrate;
use super::worker::in_transaction;
use crate::store::event_counts::log_events;

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// The views; `{state}` is [`STATE`].
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, for a [count](crate::store::event_counts).
pub(super) fn events() -> String {
    log_events(STATE, "NULL")
}

/// Creates or replaces the views, all of them or none.
pub(super) fn create(connection: &mut Connection) -> Attempt<()> {
    migrate::check(connection)?;
    in_transaction(connection, TransactionBehavior::Immediate, |tx| {
        Ok(tx.execute_batch(&VIEWS.replace("{state}", STATE.trim_end()))?)
    })
}
