//! What an operator checks in an outbox of layout `eventlog`.

use tokio_postgres::Client;

use super::super::failure::failed;
use super::super::row::get;
use super::super::statement::query_unnamed;
use crate::layout::RowTable;
use crate::store::{HandlerCheck, OpenNotifications};
use crate::{Ident, Result};

/// Index: those of the catalog.
const TABLES: &str = "SELECT to_regclass($1) IS NOT NULL,
    EXISTS (SELECT FROM pg_index AS i WHERE i.indexrelid = to_regclass($2) AND i.indisvalid)";

/// Index: event_notifications_due (next_retry_at), all of it.
const OPEN: &str = "
    SELECT t.handler_name::text, count(*),
           EXISTS (SELECT FROM {schema}.handler_types AS h WHERE h.handler = t.handler_name),
           (SELECT a.handler FROM {schema}.handler_aliases AS a WHERE a.alias = t.handler_name),
           EXISTS (SELECT FROM {schema}.leases AS l WHERE l.name = t.handler_name AND l.expires_at > clock_timestamp())
    FROM {notifications} AS t
    WHERE t.state IN ('PENDING', 'FAILED')
    GROUP BY t.handler_name
    ORDER BY 1";

pub(super) async fn check(client: &Client, schema: &Ident, table: &RowTable) -> Result<HandlerCheck> {
    let names = [table.put_into("{notifications}"), table.put_into("{table_schema}.\"{name}_undelivered\"")];
    let found = query_unnamed(client, TABLES, &[&names[0], &names[1]]).await.map_err(failed)?;
    let Some(found) = found.first() else { return Ok(HandlerCheck::default()) };
    let mut check =
        HandlerCheck { has_notifications: get(found, 0)?, has_index: get(found, 1)?, open: Vec::new() };
    if check.has_notifications {
        let sql = schema.put_into(&table.put_into(OPEN));
        for row in query_unnamed(client, &sql, &[]).await.map_err(failed)? {
            check.open.push(OpenNotifications {
                handler: get(&row, 0)?,
                notifications: get::<i64>(&row, 1)?.unsigned_abs(),
                is_registered: get(&row, 2)?,
                is_served: get(&row, 4)?,
                alias_of: get(&row, 3)?,
            });
        }
    }
    Ok(check)
}
