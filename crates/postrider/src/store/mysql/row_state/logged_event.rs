//! One event of layout `eventlog`, and its notifications.

use mysql_async::Row;

use super::super::row::{self, get, get_opt, micros};
use super::super::session::{Tx, params};
use crate::Result;
use crate::store::event_row::count;
use crate::store::row_state::event_facts::{LoggedEvent, LoggedNotification};
use crate::store::row_state::read::aggregate;

/// Index: the primary key (id).
const EVENT: &str = concat!(
    "SELECT event_type, model_type, model_id, ",
    micros!("event_date"),
    ", delivered, payload FROM {table} WHERE id = ?"
);

/// Index: the unique key (event_id, handler_name).
const NOTIFICATIONS: &str = concat!(
    "SELECT handler_name, CAST(id AS CHAR), state, CAST(attempts AS SIGNED), ",
    micros!("next_retry_at"),
    ", ",
    micros!("updated_date"),
    " FROM {notifications} WHERE event_id = ?"
);

pub(super) async fn read(tx: &mut Tx<'_>, id: &str) -> Result<Option<LoggedEvent>> {
    let Some(row) = tx.query_opt(EVENT, params![id]).await? else { return Ok(None) };
    let notifications = tx.query(NOTIFICATIONS, params![id]).await?;
    Ok(Some(LoggedEvent {
        event_type: get_opt(&row, 0)?,
        model: aggregate(get_opt(&row, 1)?, get_opt(&row, 2)?),
        date: row::time(&row, 3)?,
        is_fanned_out: get::<i64>(&row, 4)? != 0,
        payload: get_opt(&row, 5)?,
        notifications: notifications.iter().map(notification).collect::<Result<_>>()?,
    }))
}

fn notification(row: &Row) -> Result<LoggedNotification> {
    Ok(LoggedNotification {
        handler: get(row, 0)?,
        id: get(row, 1)?,
        state: get(row, 2)?,
        attempts: count(get(row, 3)?)?,
        next_retry_at: row::time(row, 4)?,
        updated_at: row::time(row, 5)?,
    })
}
