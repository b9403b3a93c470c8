//! Layouts of other people: tables in which every row carries its own state.
//!
//! An owner of such a table points Postrider at it and changes nothing. Each layout has one [`LayoutSpec`]: its tables on every
//! database, its states, its columns, and what it can do. An existing table is compared with it, and never altered.

mod compare;
mod custom;
mod event_outbox;
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "mysql_async",
    feature = "sqlx-mysql",
    feature = "diesel-mysql",
    feature = "rusqlite",
    feature = "sqlx-sqlite"
))]
mod derived_id;
mod outbox;
mod outbox_events;
mod shape;
mod spec;

use std::sync::Arc;
use std::time::Duration;

#[doc(hidden)]
pub use compare::{Difference, FoundColumn, FoundIndex, compare};
pub use custom::{ColumnMap, ColumnName, Field, StateWord, States};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use custom::{Times, length};
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "mysql_async",
    feature = "sqlx-mysql",
    feature = "diesel-mysql",
    feature = "rusqlite",
    feature = "sqlx-sqlite"
))]
pub(crate) use derived_id::derived_id;
#[doc(hidden)]
pub use shape::{Column, Family, Index, Shape};
pub use spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables};

use crate::{Ident, Result};

/// Which shape a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowLayout {
    /// `event_outbox`: pending, sent, failed, with the time of the next try.
    EventOutbox,
    /// `outbox` and `processed_events`: pending, published, failed, with topic and a limit of retries per row.
    Outbox,
    /// `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED, with a count of attempts.
    OutboxEvents,
    /// `custom`: any table, by a map of its columns.
    Custom,
}

impl RowLayout {
    /// Those with a shape of their own.
    pub const ALL: [Self; 3] = [Self::EventOutbox, Self::Outbox, Self::OutboxEvents];

    /// What a configuration may say: the default layout, those with a shape of their own, and `custom`.
    pub const CHOICES: &[&str] = &[
        "postrider",
        Self::EventOutbox.name(),
        Self::Outbox.name(),
        Self::OutboxEvents.name(),
        Self::Custom.name(),
    ];

    /// Its descriptor.
    pub const fn spec(self) -> &'static LayoutSpec {
        match self {
            Self::EventOutbox => &event_outbox::SPEC,
            Self::Outbox => &outbox::SPEC,
            Self::OutboxEvents => &outbox_events::SPEC,
            Self::Custom => &custom::SPEC,
        }
    }

    /// Its name, which is also that of its table unless another is given.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The layout of this name, if it has a shape of its own.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Whether it can do this.
    pub fn has(self, ability: Ability) -> bool {
        self.spec().has(ability)
    }

    /// What its tables look like on a database: the outbox first. None where the layout does not exist.
    pub const fn shapes_on(self, dialect: Dialect) -> &'static [Shape] {
        self.spec().tables.on(dialect)
    }

    /// What its tables look like on PostgreSQL: the outbox first.
    pub const fn shapes(self) -> &'static [Shape] {
        self.shapes_on(Dialect::Postgres)
    }
}

/// A database, as far as types and names differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL.
    MySql,
    /// MariaDB, where JSON is a text.
    MariaDb,
    /// SQLite.
    Sqlite,
}

/// One table of a layout, and how it is worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTable {
    pub(crate) layout: RowLayout,
    pub(crate) schema: Ident,
    /// The schema was named.
    is_placed: bool,
    pub(crate) name: Ident,
    pub(crate) max_attempts: u32,
    pub(crate) is_shared: bool,
    pub(crate) foreign_claim_timeout: Option<Duration>,
    /// Of a user-defined table.
    pub(crate) map: Option<Arc<ColumnMap>>,
}

impl RowTable {
    /// The layout's table under its own name in the schema `public`. On MySQL and MariaDB say in which database it is:
    /// [`in_schema`](Self::in_schema). SQLite has neither.
    ///
    /// # Errors
    /// None: every layout's name is a table's name.
    pub fn new(layout: RowLayout) -> Result<Self> {
        Ok(Self {
            layout,
            schema: Ident::new("public")?,
            is_placed: false,
            name: Ident::new(layout.name())?,
            max_attempts: 10,
            is_shared: false,
            foreign_claim_timeout: None,
            map: None,
        })
    }

    /// A user-defined table, whose columns hold what the map says, in the schema `public`. It must be there already.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if the map tells too little, or one thing twice.
    pub fn custom(name: Ident, map: ColumnMap) -> Result<Self> {
        map.check()?;
        Ok(Self {
            layout: RowLayout::Custom,
            map: Some(Arc::new(map)),
            ..Self::new(RowLayout::Custom)?.named(name)
        })
    }

    /// The same, with a map that has learnt from the live table.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn knowing(&self, learn: impl FnOnce(ColumnMap) -> ColumnMap) -> Self {
        let map = self.map.as_ref().map(|map| Arc::new(learn(ColumnMap::clone(map))));
        Self { map, ..self.clone() }
    }

    /// Which columns of a user-defined table hold what.
    pub fn columns(&self) -> Option<&ColumnMap> {
        self.map.as_deref()
    }

    /// Whether rows do not say themselves that they were delivered, and a note of ours is all that tells.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn only_notes_deliveries(&self) -> bool {
        self.columns().is_some_and(ColumnMap::only_notes_deliveries)
    }

    /// Schema and name as people write them; the name alone where no schema was named.
    pub fn full_name(&self) -> String {
        match self.is_placed {
            true => format!("{}.{}", self.schema.as_str(), self.name.as_str()),
            false => self.name.as_str().to_owned(),
        }
    }

    /// Whether rows of a key stand in an order that the table tells. Of a store that is open: before that it is unknown.
    pub(crate) fn defines_order(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.defines_order())
    }

    /// Its shape.
    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// Another name.
    #[must_use]
    pub fn named(mut self, name: Ident) -> Self {
        self.name = name;
        self
    }

    /// Another schema than `public`.
    #[must_use]
    pub fn in_schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self.is_placed = true;
        self
    }

    /// The same, unless a schema was named already.
    #[must_use]
    pub fn or_in_schema(self, schema: Ident) -> Self {
        if self.is_placed { self } else { self.in_schema(schema) }
    }

    /// Whether a schema was named.
    pub fn is_placed(&self) -> bool {
        self.is_placed
    }

    /// Tries before a row is given up, where the row itself does not say; 10 if not given, at least 1.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts.max(1);
        self
    }

    /// Whether publishers of others work on the table at the same time. Then order across publishers is not
    /// promised, and rows they have settled are theirs. Not if not given.
    #[must_use]
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// After this long the `PUBLISHING` of another publisher counts as abandoned. Without it, never.
    #[must_use]
    pub fn foreign_claim_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.foreign_claim_timeout = timeout;
        self
    }

    /// Whether rows are marked before they are published: only then can others tell, and only beside others must they.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn marks_rows(&self) -> bool {
        self.layout.has(Ability::PublishingState) && (self.is_shared || self.foreign_claim_timeout.is_some())
    }

    /// Tries after which a row is given up, as an expression: its own column where the table has one.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn limit_of_row(&self, has_own_limit: bool) -> String {
        match has_own_limit {
            true => format!("COALESCE(t.max_attempts, {})", self.max_attempts),
            false => self.max_attempts.to_string(),
        }
    }

    /// The statement with the names of the table put in: `{table}` in the quotes of MySQL, `{views}` the database,
    /// `{name}` as part of the name of an index, `{check}` the name of the layout's CHECK. Those are the database's, so
    /// a table of another name has another.
    #[cfg(feature = "_mysql")]
    pub(crate) fn put_into_mysql(&self, statement: &str) -> String {
        let (schema, name) = (self.schema.as_str(), self.name.as_str());
        let own_check = format!("chk_{name}_status");
        let check = if name == self.layout.name() { "chk_status" } else { &own_check };
        let mapped = self.map.as_ref().map(|map| map.put_into_mysql(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement
            .replace("{table}", &format!("`{schema}`.`{name}`"))
            .replace("{views}", &format!("`{schema}`"))
            .replace("{name}", name)
            .replace("{check}", check)
    }

    /// The statement with the name of the table put in, and as part of the name of an index.
    #[cfg(feature = "_sqlite")]
    pub(crate) fn put_into_sqlite(&self, statement: &str) -> String {
        let mapped = self.map.as_ref().map(|map| map.put_into_sqlite(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement.replace("{table}", &self.name.to_string()).replace("{name}", self.name.as_str())
    }

    /// The statement with the names of the tables put in: `{table}`, `{processed}` and the schema of `{views}`
    /// quoted, `{name}` as part of the name of an index.
    #[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
    pub(crate) fn put_into(&self, statement: &str) -> String {
        let mapped = self.map.as_ref().map(|map| map.put_into_postgres(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement
            .replace("{table}", &format!("{}.{}", self.schema, self.name))
            .replace("{processed}", &format!("{}.\"processed_events\"", self.schema))
            .replace("{views}", &self.schema.to_string())
            .replace("{name}", self.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_its_own_name_and_shape() {
        for layout in RowLayout::ALL {
            assert_eq!(RowLayout::from_name(layout.name()), Some(layout));
            let outbox = &layout.shapes()[0];
            assert_eq!(outbox.table, "{name}");
            assert!(outbox.columns.iter().any(|column| column.name == "status"), "{}", layout.name());
        }
        assert_eq!(RowLayout::from_name("postrider"), None);
    }

    #[test]
    fn a_configuration_may_name_every_layout() {
        for layout in RowLayout::ALL.into_iter().chain([RowLayout::Custom]) {
            // A new layout does not compile here before it is in both lists.
            match layout {
                RowLayout::EventOutbox | RowLayout::Outbox | RowLayout::OutboxEvents | RowLayout::Custom => {}
            }
            assert!(RowLayout::CHOICES.contains(&layout.name()), "{}", layout.name());
        }
        assert_eq!(RowLayout::CHOICES.len(), RowLayout::ALL.len() + 2);
    }
}
