//! A table with a state per row, as a user configures it.

use std::sync::Arc;
use std::time::Duration;

use super::{Ability, ColumnMap, FanOutPolicy, RegisteredHandler, RowLayout};
use crate::{Ident, Result};

/// Attempts of a row in a layout that has no limit of attempts. The column is an `int`.
const UNLIMITED: u32 = i32::MAX.unsigned_abs();

/// A table with a state per row, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTable {
    pub(crate) layout: RowLayout,
    pub(crate) schema: Ident,
    /// The schema was set explicitly.
    has_schema: bool,
    pub(crate) name: Ident,
    pub(crate) max_attempts: u32,
    pub(crate) is_shared: bool,
    pub(crate) foreign_claim_timeout: Option<Duration>,
    /// The column map of a user-defined table.
    pub(crate) map: Option<Arc<ColumnMap>>,
    /// How events are fanned out, and how long their notifications may be handled; only layout `eventlog`.
    pub(crate) fan_out: FanOutPolicy,
    /// The handler that a store serves; only layout `eventlog`.
    pub(crate) handler: Option<Arc<RegisteredHandler>>,
}

impl RowTable {
    /// The table of a layout. Its name is that of the layout, in the schema `public`; for layout `eventlog`, it is
    /// `eventlog.events`. On MySQL and MariaDB, set the database with [`in_schema`](Self::in_schema). SQLite has no
    /// schemas.
    pub fn new(layout: RowLayout) -> Self {
        let schema = layout.spec().default_table.map(|(schema, _)| schema);
        Self {
            layout,
            schema: Ident::literal(schema.unwrap_or("public")),
            has_schema: schema.is_some(),
            name: Ident::literal(layout.table_name()),
            max_attempts: if layout.has(Ability::Notifications) { UNLIMITED } else { 10 },
            is_shared: false,
            foreign_claim_timeout: None,
            map: None,
            fan_out: FanOutPolicy::default(),
            handler: None,
        }
    }

    /// A user-defined table in the schema `public`, described by a column map. Postrider never creates such a table.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if the map is incomplete or contradicts itself.
    pub fn custom(name: Ident, map: ColumnMap) -> Result<Self> {
        map.check()?;
        Ok(Self {
            layout: RowLayout::Custom,
            map: Some(Arc::new(map)),
            ..Self::new(RowLayout::Custom).named(name)
        })
    }

    /// The same table, with what was found in the live table added to its map.
    #[cfg(feature = "_store")]
    pub(crate) fn with_inspected_map(&self, inspect: impl FnOnce(ColumnMap) -> ColumnMap) -> Self {
        let map = self.map.as_ref().map(|map| Arc::new(inspect(ColumnMap::clone(map))));
        Self { map, ..self.clone() }
    }

    /// The column map of a user-defined table.
    pub fn columns(&self) -> Option<&ColumnMap> {
        self.map.as_deref()
    }

    /// Whether the table cannot show deliveries, so that only Postrider's notes record them.
    #[cfg(feature = "_store")]
    pub(crate) fn only_notes_deliveries(&self) -> bool {
        self.columns().is_some_and(ColumnMap::only_notes_deliveries)
    }

    /// `schema.name`, or only the name if no schema was set.
    pub fn full_name(&self) -> String {
        match self.has_schema {
            true => format!("{}.{}", self.schema.as_str(), self.name.as_str()),
            false => self.name.as_str().to_owned(),
        }
    }

    /// Whether the table defines the order of rows with the same key. Known only after a store has inspected the table.
    #[cfg(feature = "relay")]
    pub(crate) fn defines_order(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.defines_order())
    }

    /// Its layout.
    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// Sets the name of the table.
    #[must_use]
    pub fn named(mut self, name: Ident) -> Self {
        self.name = name;
        self
    }

    /// Sets the schema of the table.
    #[must_use]
    pub fn in_schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self.has_schema = true;
        self
    }

    /// Sets the schema of the table, unless it was set before.
    #[must_use]
    pub fn or_in_schema(self, schema: Ident) -> Self {
        if self.has_schema { self } else { self.in_schema(schema) }
    }

    /// Whether a schema was set.
    pub fn has_schema(&self) -> bool {
        self.has_schema
    }

    /// Attempts before a row is given up, unless the row has its own limit. Default: 10, and for layout `eventlog` no
    /// limit except [`FanOutPolicy::handle_within`]; at least 1.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts.max(1);
        self
    }

    /// Whether a row is given up after a number of attempts.
    #[cfg(feature = "_store")]
    pub(crate) fn limits_attempts(&self) -> bool {
        self.max_attempts < UNLIMITED
    }

    /// Whether other publishers work on the table at the same time. Order across publishers is not guaranteed then, and
    /// Postrider does not change rows that they have settled. Default: no.
    #[must_use]
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// The time after which a row that another publisher marked as `PUBLISHING` is considered abandoned. Default:
    /// never.
    #[must_use]
    pub fn foreign_claim_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.foreign_claim_timeout = timeout;
        self
    }

    /// How events of layout `eventlog` are fanned out to handlers.
    #[must_use]
    pub fn fan_out(mut self, fan_out: FanOutPolicy) -> Self {
        self.fan_out = fan_out;
        self
    }

    /// The same table for one handler.
    #[cfg(feature = "_store")]
    pub(crate) fn for_handler(&self, handler: RegisteredHandler) -> Self {
        Self { handler: Some(Arc::new(handler)), ..self.clone() }
    }

    /// The names whose notifications a store handles: the handler's name and its aliases. Empty if it serves none.
    #[cfg(feature = "_server")]
    pub(crate) fn handler_names(&self) -> Vec<String> {
        self.handler.as_ref().map_or_else(Vec::new, |handler| handler.names())
    }

    /// The event types that the handler knows, as patterns of SQL's LIKE; `None` if it takes all.
    #[cfg(feature = "_server")]
    pub(crate) fn handler_like_patterns(&self) -> Option<Vec<String>> {
        self.handler.as_ref().and_then(|handler| handler.like_patterns())
    }

    /// Whether rows are marked before they are published: the layout has a state for it, and other publishers use the
    /// table.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn marks_rows(&self) -> bool {
        self.layout.has(Ability::PublishingState) && (self.is_shared || self.foreign_claim_timeout.is_some())
    }

    /// Attempts after which a row is given up, as an SQL expression that uses the row's own limit if the table has one.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn limit_of_row(&self, has_own_limit: bool) -> String {
        match has_own_limit {
            true => format!("COALESCE(t.max_attempts, {})", self.max_attempts),
            false => self.max_attempts.to_string(),
        }
    }

    /// The statement with its placeholders replaced: `{table}` and `{table_schema}` (the database), quoted; `{name}`, for the
    /// names of indexes; `{check}`, the name of the layout's CHECK. The name of a CHECK is unique in its database, so a
    /// table with another name needs another one.
    #[cfg(feature = "_mysql_driver")]
    #[doc(hidden)]
    pub fn put_into_mysql(&self, statement: &str) -> String {
        let (schema, name) = (self.schema.as_str(), self.name.as_str());
        let own_check = format!("chk_{name}_status");
        let check = if name == self.layout.name() { "chk_status" } else { &own_check };
        let mapped = self.map.as_ref().map(|map| map.put_into_mysql(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement
            .replace("{table}", &format!("`{schema}`.`{name}`"))
            .replace("{notifications}", &format!("`{schema}`.`event_notifications`"))
            .replace("{table_schema}", &format!("`{schema}`"))
            .replace("{name}", name)
            .replace("{check}", check)
    }

    /// The statement with its placeholders replaced: `{table}`, quoted, and `{name}`, for the names of indexes.
    #[cfg(feature = "_sqlite_driver")]
    pub(crate) fn put_into_sqlite(&self, statement: &str) -> String {
        let mapped = self.map.as_ref().map(|map| map.put_into_sqlite(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement.replace("{table}", &self.name.to_string()).replace("{name}", self.name.as_str())
    }

    /// The statement with its placeholders replaced: `{table}`, `{processed}` and `{table_schema}` (the schema), quoted;
    /// `{name}`, for the names of indexes.
    #[cfg(feature = "_postgres")]
    #[doc(hidden)]
    pub fn put_into(&self, statement: &str) -> String {
        let mapped = self.map.as_ref().map(|map| map.put_into_postgres(statement));
        let statement = mapped.as_deref().unwrap_or(statement);
        statement
            .replace("{table}", &format!("{}.{}", self.schema, self.name))
            .replace("{processed}", &format!("{}.\"processed_events\"", self.schema))
            .replace("{notifications}", &format!("{}.\"event_notifications\"", self.schema))
            .replace("{table_schema}", &self.schema.to_string())
            .replace("{name}", self.name.as_str())
    }
}
