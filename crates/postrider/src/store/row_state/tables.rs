//! Creating and comparing tables: the part that does not depend on the database.

use crate::layout::{Ability, Difference, RowLayout, RowTable, Shape};
use crate::store::Migrated;
use crate::{Code, Error, Ident, Result};

/// Optional parts of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RowExtras {
    /// The index over aggregate type and id of `outbox_events`.
    pub aggregate_index: bool,
    /// The six views of `event_outbox`, for a table that already exists; a new table is created with them.
    pub views: bool,
    /// The notifications of `eventlog` and the index that the fan-out needs.
    pub handlers: bool,
}

crate::setters! { RowExtras:
    aggregate_index: bool,
    views: bool,
    handlers: bool,
}

/// The result of migrating a table with a state per row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowsMigrated {
    /// Postrider's own tables.
    pub ledger: Migrated,
    /// Tables of the layout that were created.
    pub created: Vec<String>,
    /// How tables that already existed differ from the layout. They were not altered.
    pub differences: Vec<Difference>,
}

impl RowExtras {
    /// The tables to create, the outbox first: notifications only on request.
    #[cfg(feature = "postgres")]
    pub(crate) fn shapes(self, layout: RowLayout, dialect: crate::layout::Dialect) -> &'static [Shape] {
        let all = layout.shapes_on(dialect);
        let is_base = layout.has(Ability::Notifications) && !self.handlers;
        if is_base { &all[..all.len().min(1)] } else { all }
    }

    /// Refuses options that the layout does not have.
    pub(crate) fn check(self, layout: RowLayout) -> Result<()> {
        let what = match layout {
            _ if self.aggregate_index && !layout.has(Ability::AggregateIndex) => {
                "has no optional index aggregate-index"
            }
            _ if self.views && !layout.has(Ability::Views) => "has no views",
            _ if self.handlers && !layout.has(Ability::Notifications) => "has no handlers",
            _ => return Ok(()),
        };
        let what = format!("layout {} {what}", layout.name());
        Err(Error::new(Code::NameInvalid, what)
            .with_hint("the index belongs to outbox_events, the views to event_outbox and postrider, the handlers to eventlog; remove the option, or select one outbox with --outbox"))
    }
}

/// Refuses a table whose name is too long for the names of its indexes.
pub(crate) fn check_names(table: &RowTable, shapes: &[Shape]) -> Result<()> {
    for index in shapes.iter().flat_map(|shape| shape.indexes) {
        // `PRIMARY` is not a valid identifier in upper case.
        let name = index.name.replace("{name}", table.name.as_str());
        Ident::new(&name.to_lowercase())?;
    }
    Ok(())
}

/// The statements that create views, each with the name of its view.
#[cfg(feature = "_server")]
pub(crate) fn views_of(sql: &str) -> impl Iterator<Item = (&str, &str)> {
    sql.split_inclusive(";\n").filter_map(|statement| {
        let (_, named) = statement.split_once(" VIEW {table_schema}.")?;
        Some((named.split_whitespace().next()?.trim_matches('"'), statement))
    })
}

/// The difference for an existing view that is not the layout's view of this table.
#[cfg(feature = "_server")]
pub(crate) fn other_view(table: &RowTable, name: &str) -> Difference {
    let what = format!(
        "{name:?} already exists and is not the layout's view of {}; it was not replaced",
        table.name.as_str()
    );
    Difference::harmless(what)
}

/// A column by which the layout's view of this name is recognised.
#[cfg(feature = "_server")]
pub(crate) fn column_of_view(name: &str) -> &'static str {
    match name {
        "vw_event_outbox" => "is_due",
        "vw_event_outbox_due" => "since_next_sec",
        "vw_event_outbox_latency" => "p95_latency_sec",
        "vw_event_outbox_metrics" => "due_now",
        "vw_event_throughput_hourly" => "outbox_cnt",
        _ => "producer_node",
    }
}

/// The difference for a table that does not exist.
pub(crate) fn missing(table: &RowTable, shape: &Shape) -> Difference {
    let name = shape.table.replace("{name}", table.name.as_str());
    if shape.table != "{name}" && table.layout.has(Ability::Notifications) {
        return Difference::harmful(format!(
            "there is no table {name:?}, which handlers need: run `postrider migrate up --layout {} --with handlers`",
            table.layout.name()
        ));
    }
    // The relay needs only the outbox itself.
    Difference { what: format!("there is no table {name:?}"), is_harmful: shape.table == "{name}" }
}

/// The difference for a mapped table that does not exist.
pub(crate) fn missing_custom(table: &RowTable) -> Difference {
    let name = table.name.as_str();
    Difference::harmful(format!(
        "there is no table {name:?}, and Postrider does not create tables of this layout"
    ))
}

/// The difference for a mapped table whose id column is not a key.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn id_is_no_key(table: &RowTable, column: &str) -> Difference {
    Difference::harmful(format!(
        "column {}.{column} is not a unique key: it needs a unique index over this column alone",
        table.name.as_str()
    ))
}

/// Refuses a table with harmful differences.
pub(crate) fn refuse_harmful(table: &RowTable, differences: &[Difference]) -> Result<()> {
    let harmful: Vec<&str> = differences.iter().filter(|d| d.is_harmful).map(|d| d.what.as_str()).collect();
    if harmful.is_empty() {
        return Ok(());
    }
    let layout = table.layout.name();
    let what =
        format!("{}.{} does not match layout {layout}: {}", table.schema, table.name, harmful.join("; "));
    let error = Error::new(Code::LayoutDiffers, what);
    Err(match table.map {
        Some(_) => error.with_hint("correct the column map (`columns` and `states`) or the table; docs/src/layouts.md lists the allowed values"),
        None => error,
    })
}

/// Refuses Postrider's tables in `database` if they belong to another table. `recorded` are layout, schema and name of the
/// table they belong to.
pub(crate) fn check_owner(database: &str, recorded: Option<[String; 3]>, table: &RowTable) -> Result<()> {
    let Some([layout, at, name]) = recorded else {
        return Err(Error::new(
            Code::SchemaAltered,
            format!("{database} does not record the table it belongs to"),
        ));
    };
    if (layout.as_str(), at.as_str(), name.as_str())
        == (table.layout.name(), table.schema.as_str(), table.name.as_str())
    {
        return Ok(());
    }
    let what = format!("{database} belongs to {at}.{name} with layout {layout}, not to this outbox");
    Err(Error::new(Code::LayoutDiffers, what)
        .with_hint("configure a separate `schema` for Postrider's tables of each outbox"))
}

/// The error for a database or schema that contains the default layout.
#[cfg(feature = "_server")]
pub(crate) fn other_layout(database: &str) -> Error {
    Error::new(Code::LayoutDiffers, format!("{database} contains the tables of another outbox"))
        .with_hint("configure another `schema` for Postrider's own tables of this outbox")
}

/// Adds the command that creates what is missing.
pub(crate) fn with_migrate_hint(error: Error, table: &RowTable) -> Error {
    match error.code() {
        Code::SchemaMissing if table.map.is_some() => {
            error.with_hint("run `postrider migrate up`, or the store's `migrate`")
        }
        Code::SchemaMissing => error.with_hint(format!(
            "run `postrider migrate up --layout {}`, or the store's `migrate`",
            table.layout.name()
        )),
        _ => error,
    }
}
