//! The views of layout `event_outbox`.

use tokio_postgres::Client;

use super::super::failure::failed;
use super::super::statement::query_unnamed;
use super::migrate::{columns, holds};
use crate::layout::{Difference, RowTable};
use crate::store::row_state::tables::{column_of_view, other_view, views_of};
use crate::{Ident, Result};

const VIEWS: &str = include_str!("views.sql");
const THROUGHPUT: &str = include_str!("throughput.sql");
const THROUGHPUT_WITH_INBOX: &str = include_str!("throughput_with_inbox.sql");

/// Their statements, for use with another tool, as for a database without an inbox.
pub(super) fn all(table: &RowTable) -> String {
    format!("{}\n{}\n", table.put_into(VIEWS), table.put_into(THROUGHPUT))
}

/// Creates the missing views. Received events are counted in Postrider's own inbox, which is in `schema`, and in a table
/// `event_inbox` if one exists now. Returns a difference for each name that something else already has.
pub(super) async fn create(client: &Client, schema: &Ident, table: &RowTable) -> Result<Vec<Difference>> {
    let inbox = columns(client, &table.put_into("{table_schema}.\"event_inbox\"")).await?;
    let throughput = match inbox.iter().find(|column| column.name == "received_at") {
        // A time without a time zone is read as UTC.
        Some(column) if column.sql_type.contains("without time zone") => {
            THROUGHPUT_WITH_INBOX.replace("{received}", "received_at AT TIME ZONE 'UTC'")
        }
        Some(_) => THROUGHPUT_WITH_INBOX.replace("{received}", "received_at"),
        None => THROUGHPUT.to_owned(),
    };
    let mut others = Vec::new();
    for (name, sql) in views_of(VIEWS).chain(views_of(&throughput)) {
        let view = table.put_into(&format!("{{table_schema}}.\"{name}\""));
        if !holds(client, "SELECT to_regclass($1) IS NOT NULL", &view).await? {
            client.batch_execute(&schema.put_into(&table.put_into(sql))).await.map_err(failed)?;
        } else if !is_layout_view(client, table, &view, name).await? {
            others.push(other_view(table, name));
        }
    }
    Ok(others)
}

/// Whether the object with this name is the layout's view of this table. Index: those of the catalog.
async fn is_layout_view(client: &Client, table: &RowTable, view: &str, name: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_rewrite AS r
                              JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                              WHERE r.ev_class = to_regclass($1) AND d.refobjid = to_regclass($2))
                  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $3)";
    let table = table.put_into("{table}");
    let rows =
        query_unnamed(client, sql, &[&view, &table.as_str(), &column_of_view(name)]).await.map_err(failed)?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(failed)
}
