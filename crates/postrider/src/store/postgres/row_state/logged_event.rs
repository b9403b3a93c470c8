//! One event of layout `eventlog`, and its notifications.

use tokio_postgres::Row;

use super::super::row::get;
use super::super::session::Tx;
use super::super::time::Time;
use crate::store::event_row::count;
use crate::store::row_state::event_facts::{LoggedEvent, LoggedNotification};
use crate::store::row_state::read::aggregate;
use crate::{Result, Timestamp};

/// Index: the primary key (id).
const EVENT: &str = "
    SELECT event_type::text, model_type::text, model_id::text, event_date AT TIME ZONE 'UTC', delivered,
           payload::text
    FROM {table}
    WHERE id = $1::text::uuid";

/// Index: the unique key (event_id, handler_name).
const NOTIFICATIONS: &str = "
    SELECT handler_name::text, id::text, state::text, attempts::bigint, next_retry_at AT TIME ZONE 'UTC',
           updated_date AT TIME ZONE 'UTC'
    FROM {notifications}
    WHERE event_id = $1::text::uuid";

pub(super) async fn read(tx: &Tx<'_>, id: &str) -> Result<Option<LoggedEvent>> {
    let Some(row) = tx.query_opt(EVENT, &[&id]).await? else { return Ok(None) };
    let notifications = tx.query(NOTIFICATIONS, &[&id]).await?;
    Ok(Some(LoggedEvent {
        event_type: get(&row, 0)?,
        model: aggregate(get(&row, 1)?, get(&row, 2)?),
        date: time(&row, 3)?,
        is_fanned_out: get(&row, 4)?,
        payload: get(&row, 5)?,
        notifications: notifications.iter().map(notification).collect::<Result<_>>()?,
    }))
}

fn notification(row: &Row) -> Result<LoggedNotification> {
    Ok(LoggedNotification {
        handler: get(row, 0)?,
        id: get(row, 1)?,
        state: get(row, 2)?,
        attempts: count(get(row, 3)?)?,
        next_retry_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

fn time(row: &Row, column: usize) -> Result<Timestamp> {
    get::<Time>(row, column).map(|time| time.0)
}
