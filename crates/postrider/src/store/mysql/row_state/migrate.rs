//! Creating the tables, and comparing existing tables with their layout.

use super::super::migrate::{lock, unlock};
use super::super::row::{get, get_opt};
use super::super::server::Product;
use super::super::session::{Access, Params, Session, params};
use super::sql::{Ids, Names, Sql};
use super::{custom, views};
use crate::layout::{
    Ability, Dialect, Difference, FoundColumn, FoundIndex, RowLayout, RowTable, Shape, compare,
};
use crate::store::row_state::tables::{
    RowExtras, RowsMigrated, check_names, check_owner, missing, missing_custom, other_layout, refuse_harmful,
    with_migrate_hint,
};
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Code, Error, Ident, Result};

/// Every migration of Postrider's own tables, oldest first. A released one never changes. These servers commit every
/// CREATE at once, so an interrupted migration can be run again.
const MIGRATIONS: &[&str] = &[
    concat!(include_str!("ledger.sql"), "\n", include_str!("../migrations/0001_leases.sql")),
    include_str!("refused.sql"),
    include_str!("../migrations/0003_inbox.sql"),
    include_str!("../migrations/0004_actions.sql"),
    concat!(include_str!("changes.sql"), "\n", include_str!("../migrations/0005_audit.sql")),
    include_str!("../migrations/0006_heartbeat.sql"),
];

/// The database, and the table that records these migrations. Not that of the default layout: the two never share a
/// database.
const MIGRATIONS_TABLE: &str = "CREATE DATABASE IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.row_migrations (
    version    BIGINT NOT NULL PRIMARY KEY,
    applied_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

";

const LATEST: i64 = MIGRATIONS.len() as i64;

/// What the first migration adds for a layout with notifications.
const HANDLERS: &str = include_str!("handlers.sql");

/// The optional table of notifications.
const NOTIFICATIONS: &str = include_str!("event_notifications.sql");

const UNDELIVERED_INDEX: &str =
    "CREATE INDEX `{name}_undelivered` ON {table} (delivered, event_type, event_date);";

const AGGREGATE_INDEX: &str =
    "CREATE INDEX `idx_{name}_aggregate` ON {table} (aggregate_type, aggregate_id);";

/// The statement that creates the table of a layout; `None` for a mapped table.
///
/// # Errors
/// [`Code::LayoutDiffers`] if the layout does not exist on these servers.
fn table_of(layout: RowLayout) -> Result<Option<&'static str>> {
    Ok(Sql::of(layout).ok_or_else(|| layout_unsupported(layout))?.create)
}

/// The error for a layout that does not exist on these servers.
pub(super) fn layout_unsupported(layout: RowLayout) -> Error {
    let what = format!("there is no layout {} on MySQL and MariaDB", layout.name());
    Error::new(Code::LayoutDiffers, what)
        .with_hint("it exists for PostgreSQL only; use event_outbox or outbox_events")
}

fn dialect(session: &Session) -> Dialect {
    match session.server.product {
        Product::MySql => Dialect::MySql,
        Product::MariaDb => Dialect::MariaDb,
    }
}

fn shapes(session: &Session, table: &RowTable) -> &'static [Shape] {
    table.layout.shapes_on(dialect(session))
}

/// All migrations as SQL, for use with another tool: the layout's table and Postrider's.
pub(super) fn all(schema: &Ident, table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
    let mut layout_sql = table_of(table.layout)?.unwrap_or_default().to_owned();
    if extras.aggregate_index {
        layout_sql.push_str(AGGREGATE_INDEX);
    }
    if extras.handlers {
        layout_sql.push_str(&format!("{UNDELIVERED_INDEX}\n{NOTIFICATIONS}"));
    }
    if table.layout.spec().default_table.is_some() {
        layout_sql.insert_str(0, "CREATE DATABASE IF NOT EXISTS {table_schema};\n");
    }
    let layout_sql = table.put_into_mysql(&layout_sql);
    // They count the rows of the inbox, so they come after it.
    let views =
        if table.layout.has(Ability::Views) { table.put_into_mysql(&views::all()) } else { String::new() };
    let steps = (1..).zip(MIGRATIONS).map(|(version, sql)| {
        let (preamble, record) = if version == 1 {
            (format!("{layout_sql}\n{MIGRATIONS_TABLE}"), record_table(table))
        } else {
            Default::default()
        };
        let views = if version == LATEST { views.as_str() } else { "" };
        let sql = format!("{preamble}{}\n\n{views}{record}{}\n", sql.trim_end(), entry(version));
        Migration { version, sql: schema.put_into_mysql(&for_layout(table, &sql)) }
    });
    Ok(steps.collect())
}

/// The column that limits the subscriptions to one.
const ONLY_ONE: &str = "    only_one         TINYINT NOT NULL DEFAULT 1 UNIQUE CHECK (only_one = 1),\n";

/// The statement with the placeholders of its layout replaced: `{id_type}` is the type of row ids; the line `{only_one}`
/// is a column, except with notifications, where each handler is a subscription.
fn for_layout(table: &RowTable, sql: &str) -> String {
    let only_one = if table.layout.has(Ability::Notifications) { "" } else { ONLY_ONE };
    let sql = sql.replace("    {only_one}\n", only_one);
    let ids = Sql::of(table.layout).map_or(Ids::Numbers, |sql| sql.ids);
    sql.replace("{id_type}", ids.sql_type())
}

fn entry(version: i64) -> String {
    format!(
        "INSERT INTO {{schema}}.row_migrations (version) VALUES ({version}) ON DUPLICATE KEY UPDATE version = version;"
    )
}

/// Records which table Postrider's tables belong to. The names are checked identifiers, so they need no escaping.
fn record_table(table: &RowTable) -> String {
    let handlers = if table.layout.has(Ability::Notifications) { HANDLERS } else { "" };
    format!(
        "{handlers}INSERT INTO {{schema}}.row_table (layout, table_schema, table_name) VALUES ('{}', '{}', '{}')
         ON DUPLICATE KEY UPDATE only_one = 1;\n",
        table.layout.name(),
        table.schema.as_str(),
        table.name.as_str()
    )
}

/// Creates what is missing. Existing tables are compared and not altered; a table with harmful differences is refused
/// before anything is created. An interrupted migration continues the next time.
pub(super) async fn migrate(
    session: &mut Session,
    table: &RowTable,
    extras: RowExtras,
) -> Result<RowsMigrated> {
    extras.check(table.layout)?;
    let layout_sql = table_of(table.layout)?;
    check_names(table, shapes(session, table))?;
    if table.layout.has(Ability::Notifications) {
        session.server.refuse_without_uuids(table.layout)?;
    }
    let lock = lock(session).await?;
    let migrated = apply(session, table, layout_sql, extras).await;
    unlock(session, &lock).await?;
    migrated
}

async fn apply(
    session: &mut Session,
    table: &RowTable,
    layout_sql: Option<&str>,
    extras: RowExtras,
) -> Result<RowsMigrated> {
    let from = version(session).await?;
    schema::refuse_newer("the database", from, LATEST)?;
    let ledger = session.schema().clone();
    if from == 0 && is_table(session, ledger.as_str(), "migrations").await? {
        return Err(other_layout(ledger.as_str()));
    }
    if from > 0 {
        check_table(session, table).await?;
    }
    let found = found(session, table, shapes(session, table).first()).await?;
    refuse_harmful(table, found.as_deref().unwrap_or_default())?;
    let mut created = Vec::new();
    if let (None, Some(layout_sql)) = (&found, layout_sql) {
        if !holds(session, "schemata WHERE schema_name = ?", params![table.schema.as_str()]).await? {
            let database = table.put_into_mysql("CREATE DATABASE {table_schema}");
            session.several(Access::Writes, &database).await?;
        }
        session.several(Access::Writes, &table.put_into_mysql(layout_sql)).await?;
        created.push(table.name.as_str().to_owned());
    }
    if extras.aggregate_index && !has_index(session, table, "idx_{name}_aggregate").await? {
        session.several(Access::Writes, &table.put_into_mysql(AGGREGATE_INDEX)).await?;
    }
    if extras.handlers {
        if !has_index(session, table, "{name}_undelivered").await? {
            session.several(Access::Writes, &table.put_into_mysql(UNDELIVERED_INDEX)).await?;
        }
        if !is_table(session, table.schema.as_str(), "event_notifications").await? {
            session.several(Access::Writes, &table.put_into_mysql(NOTIFICATIONS)).await?;
            created.push("event_notifications".to_owned());
        }
    }
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        let (preamble, record) =
            if version == 1 { (MIGRATIONS_TABLE, record_table(table)) } else { Default::default() };
        let step = format!("{preamble}{sql}\n{record}{}", entry(version));
        session.several(Access::Writes, &for_layout(table, &step)).await?;
    }
    let is_new = table.layout.has(Ability::Views) && !created.is_empty();
    let mut differences = found.unwrap_or_default();
    if extras.views || is_new {
        // They count the rows of the inbox, so they come after it.
        differences.extend(views::create(session, table).await?);
    }
    check_table(session, table).await?;
    Ok(RowsMigrated { ledger: Migrated { from, to: LATEST }, created, differences })
}

pub(super) async fn has_index(session: &mut Session, table: &RowTable, index: &str) -> Result<bool> {
    let index = table.put_into_mysql(index);
    let condition = "statistics WHERE table_schema = ? AND table_name = ? AND index_name = ?";
    holds(session, condition, params![table.schema.as_str(), table.name.as_str(), index]).await
}

/// The schema version of a database, and the version that this program needs.
pub(super) async fn schema(session: &mut Session) -> Result<Schema> {
    Ok(Schema { found: version(session).await?, needed: LATEST })
}

/// Refuses a database without Postrider's tables, with those of another outbox, or with a table that does not match its
/// layout. From then on the session's statements use this table.
pub(in crate::store::mysql) async fn check(session: &mut Session, table: &RowTable) -> Result<()> {
    let database = format!("the database {}", session.schema().as_str());
    schema::check(&database, version(session).await?, LATEST)
        .map_err(|error| with_migrate_hint(error, table))?;
    check_table(session, table).await?;
    refuse_harmful(table, &differences(session, table).await?)?;
    let own_limit = "columns WHERE table_schema = ? AND table_name = ? AND column_name = 'max_attempts'";
    let own_limit = holds(session, own_limit, params![table.schema.as_str(), table.name.as_str()]).await?;
    let has_own_limit = own_limit && table.layout.has(Ability::RowLimitColumn);
    // MySQL refuses an UPDATE of several tables without a default database, even if all names have one.
    session.several(Access::Reads, "USE {schema}").await?;
    let table = custom::inspect(session, table).await?;
    session.set_rows(Names { table, has_own_limit });
    Ok(())
}

/// How the table differs from the layout. A missing table is a difference, too.
pub(super) async fn differences(session: &mut Session, table: &RowTable) -> Result<Vec<Difference>> {
    let shapes = shapes(session, table);
    let mut all = match (found(session, table, shapes.first()).await?, shapes.first()) {
        (Some(different), _) => different,
        (_, None) => return Err(layout_unsupported(table.layout)),
        (None, Some(shape)) => vec![missing(table, shape)],
    };
    if table.layout.has(Ability::Notifications) {
        for shape in shapes.iter().skip(1) {
            let other = table.clone().named(Ident::new(shape.table)?);
            match found(session, &other, Some(shape)).await? {
                Some(different) => all.extend(different),
                None => all.push(missing(table, shape)),
            }
        }
    }
    Ok(all)
}

/// Refuses Postrider's tables if they belong to another table.
async fn check_table(session: &mut Session, table: &RowTable) -> Result<()> {
    let sql = "SELECT layout, table_schema, table_name FROM {schema}.row_table";
    let rows = session.autocommit(Access::Reads, sql, Params::new()).await?;
    let recorded = match rows.first() {
        Some(row) => Some([get(row, 0)?, get(row, 1)?, get(row, 2)?]),
        None => None,
    };
    check_owner(session.schema().as_str(), recorded, table)
}

async fn version(session: &mut Session) -> Result<i64> {
    let ledger = session.schema().as_str().to_owned();
    if !is_table(session, &ledger, "row_migrations").await? {
        return Ok(0);
    }
    let sql = "SELECT MAX(version) FROM {schema}.row_migrations";
    let newest = session.autocommit(Access::Reads, sql, Params::new()).await?;
    Ok(newest.first().map(|row| get_opt::<i64>(row, 0)).transpose()?.flatten().unwrap_or(0))
}

/// How an existing table differs; `None` if it does not exist. Index: those of the data dictionary.
async fn found(
    session: &mut Session,
    table: &RowTable,
    shape: Option<&Shape>,
) -> Result<Option<Vec<Difference>>> {
    let full_name = || params![table.schema.as_str(), table.name.as_str()];
    let engine = "SELECT engine FROM information_schema.tables WHERE table_schema = ? AND table_name = ?";
    let engine = session.autocommit(Access::Reads, engine, full_name()).await?;
    let Some(engine) = engine.first() else {
        return Ok(table.map.is_some().then(|| vec![missing_custom(table)]));
    };
    let engine: Option<String> = get(engine, 0)?;
    let all = columns(session, table).await?;
    let indexes = "SELECT index_name, CONCAT(LOWER(MAX(index_type)), ' (',
                          GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', '), ')')
                   FROM information_schema.statistics
                   WHERE table_schema = ? AND table_name = ?
                   GROUP BY index_name";
    let mut keys = Vec::new();
    for row in session.autocommit(Access::Reads, indexes, full_name()).await? {
        keys.push(FoundIndex { name: get(&row, 0)?, definition: get(&row, 1)? });
    }
    let mut different = match (&table.map, shape) {
        (Some(map), _) => custom::differences(session, table, map, &all).await?,
        (None, Some(shape)) => compare(table, shape, dialect(session), &all, &keys),
        (None, None) => return Ok(None),
    };
    if engine.as_deref().is_none_or(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
        let (name, engine) = (table.name.as_str(), engine.unwrap_or_else(|| "a view".to_owned()));
        let what = format!(
            "{name} uses the engine {engine}, not InnoDB: it supports neither transactions nor row locks"
        );
        different.insert(0, Difference::harmful(what));
    }
    Ok(Some(different))
}

/// The columns of a table. Index: those of the data dictionary.
pub(super) async fn columns(session: &mut Session, table: &RowTable) -> Result<Vec<FoundColumn>> {
    let columns = "SELECT column_name, column_type, is_nullable = 'YES',
                          column_default IS NOT NULL AND column_default <> 'NULL' OR extra LIKE '%auto_increment%'
                   FROM information_schema.columns
                   WHERE table_schema = ? AND table_name = ?
                   ORDER BY ordinal_position";
    let mut all = Vec::new();
    for row in session
        .autocommit(Access::Reads, columns, params![table.schema.as_str(), table.name.as_str()])
        .await?
    {
        all.push(FoundColumn {
            name: get(&row, 0)?,
            sql_type: without_width(get(&row, 1)?),
            is_nullable: get_opt::<i64>(&row, 2)? == Some(1),
            has_default: get_opt::<i64>(&row, 3)? == Some(1),
        });
    }
    Ok(all)
}

/// The type of a number without its display width, which only some versions print.
fn without_width(sql_type: String) -> String {
    match sql_type.split_once('(') {
        Some((base, rest)) if base.ends_with("int") => {
            base.to_owned() + rest.split_once(')').map_or("", |(_, after)| after)
        }
        _ => sql_type,
    }
}

pub(super) async fn is_table(session: &mut Session, schema: &str, name: &str) -> Result<bool> {
    holds(session, "tables WHERE table_schema = ? AND table_name = ?", params![schema, name]).await
}

/// Whether the data dictionary has a matching row.
pub(super) async fn holds(session: &mut Session, condition: &str, values: Params) -> Result<bool> {
    let sql = format!("SELECT 1 FROM information_schema.{condition} LIMIT 1");
    Ok(!session.autocommit(Access::Reads, &sql, values).await?.is_empty())
}
