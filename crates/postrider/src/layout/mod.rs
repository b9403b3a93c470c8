//! Layouts of other people: tables in which every row carries its own state.
//!
//! Somebody who already has such a table points Postrider at it and changes nothing. What the tables look like is
//! told here once, column by column; it is what an existing table is compared with, and never altered.

mod compare;
mod event_outbox;
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "mysql_async",
    feature = "sqlx-mysql",
    feature = "rusqlite",
    feature = "sqlx-sqlite"
))]
mod made_id;
mod outbox;
mod outbox_events;
mod shape;

use std::time::Duration;

pub use compare::{Difference, FoundColumn, FoundIndex, compare};
#[cfg(any(
    feature = "tokio-postgres",
    feature = "sqlx-postgres",
    feature = "mysql_async",
    feature = "sqlx-mysql",
    feature = "rusqlite",
    feature = "sqlx-sqlite"
))]
pub(crate) use made_id::made_id;
pub use shape::{Column, Family, Index, Shape};

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
}

impl RowLayout {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::EventOutbox, Self::Outbox, Self::OutboxEvents];

    /// Its name, which is also that of its table unless another is given.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventOutbox => "event_outbox",
            Self::Outbox => "outbox",
            Self::OutboxEvents => "outbox_events",
        }
    }

    /// The layout of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// What its tables look like on PostgreSQL: the outbox first.
    pub const fn shapes(self) -> &'static [Shape] {
        match self {
            Self::EventOutbox => event_outbox::SHAPES,
            Self::Outbox => outbox::SHAPES,
            Self::OutboxEvents => outbox_events::SHAPES,
        }
    }
}

/// One table of a layout, and how it is worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTable {
    pub(crate) layout: RowLayout,
    pub(crate) schema: Ident,
    pub(crate) name: Ident,
    pub(crate) max_attempts: u32,
    pub(crate) is_shared: bool,
    pub(crate) foreign_claim_timeout: Option<Duration>,
}

impl RowTable {
    /// The layout's table under its own name in the schema `public`.
    ///
    /// # Errors
    /// None: every layout's name is a table's name.
    pub fn new(layout: RowLayout) -> Result<Self> {
        Ok(Self {
            layout,
            schema: Ident::new("public")?,
            name: Ident::new(layout.name())?,
            max_attempts: 10,
            is_shared: false,
            foreign_claim_timeout: None,
        })
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
        self
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

    /// After this long the `PUBLISHING` of somebody else counts as abandoned. Without it, never.
    #[must_use]
    pub fn foreign_claim_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.foreign_claim_timeout = timeout;
        self
    }

    /// The statement with the names of the tables put in: `{table}`, `{processed}` and the schema of `{views}`
    /// quoted, `{name}` as part of the name of an index.
    #[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
    pub(crate) fn put_into(&self, statement: &str) -> String {
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
}
