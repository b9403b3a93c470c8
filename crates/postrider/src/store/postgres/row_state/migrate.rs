//! Creating the tables, and comparing existing tables with their layout.

use tokio_postgres::Client;

use super::super::failure::{commit_failed, failed};
use super::super::pooler::settings_here;
use super::super::session::Session;
use super::super::shape::rows_hidden;
use super::super::statement::query_unnamed;
use super::sql::Sql;
use super::{custom, views};
use crate::layout::{Ability, Dialect, Difference, FoundColumn, FoundIndex, RowTable, Shape, compare};
use crate::store::row_state::tables::{
    RowExtras, RowsMigrated, check_names, check_owner, missing, other_layout, refuse_harmful,
    with_migrate_hint,
};
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Ident, Result};

/// Every migration of Postrider's own tables, oldest first. A released one never changes.
const MIGRATIONS: &[&str] = &[
    concat!(include_str!("ledger.sql"), "\n", include_str!("../migrations/0001_leases.sql")),
    include_str!("refused.sql"),
    include_str!("../migrations/0002_inbox.sql"),
    include_str!("../migrations/0003_actions.sql"),
    concat!(include_str!("changes.sql"), "\n", include_str!("../migrations/0004_audit.sql")),
    include_str!("../migrations/0005_heartbeat.sql"),
];

/// What the first migration adds for a layout with notifications.
const HANDLERS: &str = include_str!("handlers.sql");

/// The table that records these migrations. Not that of the default layout: the two never share a schema.
const MIGRATIONS_TABLE: &str = "CREATE TABLE IF NOT EXISTS {schema}.row_migrations (
    version    bigint PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

";

const LATEST: i64 = MIGRATIONS.len() as i64;

const AGGREGATE_INDEX: &str =
    "CREATE INDEX \"idx_{name}_aggregate\" ON {table} (aggregate_type, aggregate_id);";

const UNDELIVERED_INDEX: &str =
    "CREATE INDEX \"{name}_undelivered\" ON {table} (event_type, event_date) WHERE delivered = FALSE;";

/// The statements that create the tables of a layout, in their order, each with the shape of its table.
fn tables(table: &RowTable, extras: RowExtras) -> Vec<(&'static Shape, String)> {
    let shapes = extras.shapes(table.layout, Dialect::Postgres);
    let sql = Sql::of(table.layout).create;
    shapes.iter().zip(sql).map(|(shape, sql)| (shape, table.put_into(sql))).collect()
}

/// All migrations as SQL, for use with another tool: the layout's tables and Postrider's.
pub(super) fn all(schema: &Ident, table: &RowTable, extras: RowExtras) -> Vec<Migration> {
    let mut layout_sql: String =
        tables(table, extras).into_iter().map(|(_, sql)| format!("{sql}\n")).collect();
    // They count the rows of the inbox, so they come after it.
    let views = if table.layout.has(Ability::Views) { views::all(table) } else { String::new() };
    if extras.aggregate_index {
        layout_sql.push_str(&table.put_into(AGGREGATE_INDEX));
        layout_sql.push('\n');
    }
    if extras.handlers {
        layout_sql.push_str(&table.put_into(UNDELIVERED_INDEX));
        layout_sql.push('\n');
    }
    (1..)
        .zip(MIGRATIONS)
        .map(|(version, sql)| {
            let (preamble, record) = if version == 1 {
                (format!("{layout_sql}{MIGRATIONS_TABLE}"), record_table(table))
            } else {
                Default::default()
            };
            let entry = format!("INSERT INTO {{schema}}.row_migrations (version) VALUES ({version});");
            let views = if version == LATEST { views.as_str() } else { "" };
            let sql = format!("{preamble}{}\n\n{views}{record}{entry}\n", sql.trim_end());
            Migration { version, sql: schema.put_into(&sql) }
        })
        .collect()
}

/// Records which table Postrider's tables belong to. The names are checked identifiers, so they need no escaping.
fn record_table(table: &RowTable) -> String {
    let handlers = if table.layout.has(Ability::Notifications) { HANDLERS } else { "" };
    format!(
        "{handlers}INSERT INTO {{schema}}.row_table (layout, table_schema, table_name) VALUES ('{}', '{}', '{}');\n",
        table.layout.name(),
        table.schema.as_str(),
        table.name.as_str()
    )
}

/// Creates what is missing, all of it or nothing. Existing tables are compared and not altered.
pub(super) async fn migrate(
    session: &mut Session,
    schema: &Ident,
    table: &RowTable,
    extras: RowExtras,
) -> Result<RowsMigrated> {
    extras.check(table.layout)?;
    check_names(table, table.layout.shapes())?;
    let tx = session.client.transaction().await.map_err(failed)?;
    tx.batch_execute(settings_here!()).await.map_err(failed)?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('postrider migrations of ' || $1, 0))";
    query_unnamed(tx.client(), lock, &[&schema.as_str()]).await.map_err(failed)?;
    for schema in [schema, &table.schema] {
        // IF NOT EXISTS would require the privilege to create a schema even if it exists.
        if !holds(tx.client(), "SELECT to_regnamespace($1) IS NOT NULL", &schema.to_string()).await? {
            tx.batch_execute(&schema.put_into("CREATE SCHEMA {schema}")).await.map_err(failed)?;
        }
    }
    let (mut created, mut differences) = (Vec::new(), Vec::new());
    for (shape, sql) in tables(table, extras) {
        let name = shape.table.replace("{name}", table.name.as_str());
        match found(tx.client(), table, shape).await? {
            Some(different) => differences.extend(different),
            None => {
                tx.batch_execute(&sql).await.map_err(failed)?;
                created.push(name);
            }
        }
    }
    if let Some(map) = &table.map {
        differences.extend(custom::differences(tx.client(), table, map).await?);
    }
    refuse_harmful(table, &differences)?;
    if extras.aggregate_index {
        create_index(tx.client(), table, "idx_{name}_aggregate", AGGREGATE_INDEX).await?;
    }
    if extras.handlers {
        create_index(tx.client(), table, "{name}_undelivered", UNDELIVERED_INDEX).await?;
    }
    let from = version(tx.client(), schema).await?;
    schema::refuse_newer("the PostgreSQL database", from, LATEST)?;
    if from == 0 {
        refuse_other_layout(tx.client(), schema).await?;
    }
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        let (preamble, record) =
            if version == 1 { (MIGRATIONS_TABLE, record_table(table)) } else { Default::default() };
        let entry = format!("INSERT INTO {{schema}}.row_migrations (version) VALUES ({version})");
        let step = schema.put_into(&format!("{preamble}{sql}\n{record}{entry}"));
        tx.batch_execute(&step).await.map_err(failed)?;
    }
    let is_new = table.layout.has(Ability::Views) && !created.is_empty();
    if extras.views || is_new {
        // They count the rows of the inbox, so they come after it.
        differences.extend(views::create(tx.client(), schema, table).await?);
    }
    check_table(tx.client(), schema, table).await?;
    tx.commit().await.map_err(commit_failed)?;
    Ok(RowsMigrated { ledger: Migrated { from, to: LATEST }, created, differences })
}

/// Creates an optional index if it does not exist.
async fn create_index(client: &Client, table: &RowTable, name: &str, sql: &str) -> Result<()> {
    let name = table.put_into(&format!("{{table_schema}}.\"{name}\""));
    if !holds(client, "SELECT to_regclass($1) IS NOT NULL", &name).await? {
        client.batch_execute(&table.put_into(sql)).await.map_err(failed)?;
    }
    Ok(())
}

/// Refuses a schema that contains the default layout.
async fn refuse_other_layout(client: &Client, schema: &Ident) -> Result<()> {
    if !holds(client, "SELECT to_regclass($1 || '.subscriptions') IS NOT NULL", &schema.to_string()).await? {
        return Ok(());
    }
    Err(other_layout(&schema.to_string()))
}

/// The schema version of a database, and the version that this program needs.
pub(super) async fn schema(client: &Client, schema: &Ident) -> Result<Schema> {
    Ok(Schema { found: version(client, schema).await?, needed: LATEST })
}

/// Refuses a database without Postrider's tables, with those of another outbox, or with a table that does not match its
/// layout. Returns a mapped table with the types of its columns.
pub(crate) async fn check(client: &Client, schema: &Ident, table: &RowTable) -> Result<Option<RowTable>> {
    let database = format!("the PostgreSQL database, in {schema},");
    schema::check(&database, version(client, schema).await?, LATEST)
        .map_err(|error| with_migrate_hint(error, table))?;
    check_table(client, schema, table).await?;
    refuse_harmful(table, &differences(client, table).await?)?;
    refuse_hidden(client, schema, table).await?;
    match table.map {
        Some(_) => custom::inspect(client, table).await.map(Some),
        None => Ok(None),
    }
}

/// Refuses tables with a row security policy that applies to this user: hidden rows would never be delivered.
async fn refuse_hidden(client: &Client, schema: &Ident, table: &RowTable) -> Result<()> {
    let sql = "SELECT coalesce(string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid), '')
               FROM unnest($1::text[]) AS t (name) JOIN pg_class AS c ON c.oid = to_regclass(t.name)
               WHERE row_security_active(c.oid)";
    let own_tables = ["subscriptions", "leases", "row_notes", "row_done", "row_claims"];
    let mut names: Vec<String> = own_tables.iter().map(|name| format!("{schema}.{name}")).collect();
    names.push(table.put_into("{table}"));
    let rows = query_unnamed(client, sql, &[&names]).await.map_err(failed)?;
    let hidden: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0)).map_err(failed)?;
    if hidden.is_empty() { Ok(()) } else { Err(rows_hidden(&hidden)) }
}

/// How the tables differ from the layout. A missing table is a difference, too.
pub(super) async fn differences(client: &Client, table: &RowTable) -> Result<Vec<Difference>> {
    let mut all = Vec::new();
    for shape in table.layout.shapes() {
        match found(client, table, shape).await? {
            Some(different) => all.extend(different),
            None => all.push(missing(table, shape)),
        }
    }
    if let Some(map) = &table.map {
        all.extend(custom::differences(client, table, map).await?);
    }
    Ok(all)
}

/// Refuses Postrider's tables if they belong to another table.
async fn check_table(client: &Client, schema: &Ident, table: &RowTable) -> Result<()> {
    let sql = schema.put_into("SELECT layout, table_schema, table_name FROM {schema}.row_table");
    let rows = query_unnamed(client, &sql, &[]).await.map_err(failed)?;
    let text = |column| rows[0].try_get::<_, String>(column).map_err(failed);
    let recorded = if rows.is_empty() { None } else { Some([text(0)?, text(1)?, text(2)?]) };
    check_owner(&schema.to_string(), recorded, table)
}

async fn version(client: &Client, schema: &Ident) -> Result<i64> {
    if !holds(client, "SELECT to_regclass($1 || '.row_migrations') IS NOT NULL", &schema.to_string()).await? {
        return Ok(0);
    }
    let sql = schema.put_into("SELECT coalesce(max(version), 0) FROM {schema}.row_migrations");
    let rows = query_unnamed(client, &sql, &[]).await.map_err(failed)?;
    rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)
}

/// How an existing table differs; `None` if it does not exist.
async fn found(client: &Client, table: &RowTable, shape: &Shape) -> Result<Option<Vec<Difference>>> {
    let name = shape.table.replace("{name}", table.name.as_str());
    let table_name = format!("{}.\"{name}\"", table.schema);
    if !holds(client, "SELECT to_regclass($1) IS NOT NULL", &table_name).await? {
        return Ok(None);
    }
    let columns = columns(client, &table_name).await?;
    let sql = "SELECT c.relname::text, split_part(pg_get_indexdef(i.indexrelid), ' USING ', 2)
               FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
               WHERE i.indrelid = to_regclass($1) AND i.indisvalid
               ORDER BY 1";
    let mut indexes = Vec::new();
    for row in query_unnamed(client, sql, &[&table_name]).await.map_err(failed)? {
        let (name, definition) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        indexes.push(FoundIndex { name, definition });
    }
    Ok(Some(compare(table, shape, Dialect::Postgres, &columns, &indexes)))
}

/// The columns of a table; none if it does not exist. Index: those of the catalog.
pub(super) async fn columns(client: &Client, table_name: &str) -> Result<Vec<FoundColumn>> {
    let sql = "SELECT a.attname::text,
                      CASE WHEN y.typtype = 'e' THEN 'enum(' || y.typname || ')'
                           ELSE format_type(a.atttypid, a.atttypmod) END,
                      NOT a.attnotnull, a.atthasdef OR a.attidentity <> ''
               FROM pg_attribute AS a JOIN pg_type AS y ON y.oid = a.atttypid
               WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
               ORDER BY a.attnum";
    let rows = query_unnamed(client, sql, &[&table_name]).await.map_err(failed)?;
    let found = rows.iter().map(|row| {
        Ok(FoundColumn {
            name: row.try_get(0).map_err(failed)?,
            sql_type: row.try_get(1).map_err(failed)?,
            is_nullable: row.try_get(2).map_err(failed)?,
            has_default: row.try_get(3).map_err(failed)?,
        })
    });
    found.collect()
}

/// The answer to a yes-or-no question about a name.
pub(super) async fn holds(client: &Client, sql: &str, name: &str) -> Result<bool> {
    let rows = query_unnamed(client, sql, &[&name]).await.map_err(failed)?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(failed)
}
