//! What an operator checks in an outbox of layout `eventlog`.

use super::super::row::{get, get_opt};
use super::super::session::{Access, Params, Session};
use super::migrate::{has_index, is_table};
use crate::Result;
use crate::layout::RowTable;
use crate::store::{HandlerCheck, OpenNotifications};

/// Index: event_notifications_due (state, next_retry_at), the ranges of both states.
const OPEN: &str = "
    SELECT t.handler_name, COUNT(*),
           EXISTS (SELECT 1 FROM {schema}.handler_types AS h WHERE h.handler = t.handler_name),
           (SELECT a.handler FROM {schema}.handler_aliases AS a WHERE a.alias = t.handler_name),
           EXISTS (SELECT 1 FROM {schema}.leases AS l WHERE l.name = t.handler_name AND l.expires_at > UTC_TIMESTAMP(6))
    FROM {notifications} AS t
    WHERE t.state IN ('PENDING', 'FAILED')
    GROUP BY t.handler_name
    ORDER BY 1";

pub(super) async fn check(session: &mut Session, table: &RowTable) -> Result<HandlerCheck> {
    let mut check = HandlerCheck {
        has_notifications: is_table(session, table.schema.as_str(), "event_notifications").await?,
        has_index: has_index(session, table, "{name}_undelivered").await?,
        open: Vec::new(),
    };
    if check.has_notifications {
        let sql = table.put_into_mysql(OPEN);
        for row in session.autocommit(Access::Reads, &sql, Params::new()).await? {
            check.open.push(OpenNotifications {
                handler: get(&row, 0)?,
                notifications: get(&row, 1)?,
                is_registered: get_opt::<i64>(&row, 2)? == Some(1),
                is_served: get_opt::<i64>(&row, 4)? == Some(1),
                alias_of: get_opt(&row, 3)?,
            });
        }
    }
    Ok(check)
}
