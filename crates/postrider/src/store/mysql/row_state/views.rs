//! The views of layout `event_outbox`.

use super::super::session::{Access, Session, params};
use super::migrate::{holds, is_table};
use crate::Result;
use crate::layout::{Difference, RowTable};
use crate::store::row_state::tables::{column_of_view, other_view, views_of};

const VIEWS: &str = include_str!("views.sql");
const THROUGHPUT: &str = include_str!("throughput.sql");
const THROUGHPUT_WITH_INBOX: &str = include_str!("throughput_with_inbox.sql");

/// Their statements, for use with another tool, as for a database without an inbox.
pub(super) fn all() -> String {
    format!("{VIEWS}{THROUGHPUT}")
}

/// Creates the missing views. Received events are counted in Postrider's own inbox, and in a table `event_inbox` if one
/// exists now. Returns a difference for each name that something else already has.
pub(super) async fn create(session: &mut Session, table: &RowTable) -> Result<Vec<Difference>> {
    let schema = table.schema.as_str();
    let inbox =
        "columns WHERE table_schema = ? AND table_name = 'event_inbox' AND column_name = 'received_at'";
    let has_inbox = holds(session, inbox, params![schema]).await?;
    let throughput = if has_inbox { THROUGHPUT_WITH_INBOX } else { THROUGHPUT };
    let mut others = Vec::new();
    for (name, sql) in views_of(VIEWS).chain(views_of(throughput)) {
        if !is_table(session, schema, name).await? {
            session.several(Access::Writes, &table.put_into_mysql(sql)).await?;
        } else if !is_layout_view(session, table, name).await? {
            others.push(other_view(table, name));
        }
    }
    Ok(others)
}

/// Whether the object with this name is the layout's view of this table.
async fn is_layout_view(session: &mut Session, table: &RowTable, name: &str) -> Result<bool> {
    let schema = table.schema.as_str();
    let column = "columns WHERE table_schema = ? AND table_name = ? AND column_name = ?";
    let of = "views WHERE table_schema = ? AND table_name = ? AND LOCATE(?, view_definition) > 0";
    let table_name = table.put_into_mysql("{table}");
    Ok(holds(session, column, params![schema, name, column_of_view(name)]).await?
        && holds(session, of, params![schema, name, table_name]).await?)
}
