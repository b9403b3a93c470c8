//! Layouts: existing outbox tables with a state per row, which Postrider can use as they are.
//!
//! A [`RowTable`] is one of the [known layouts](RowLayout), or a user-defined table described by a [`ColumnMap`]. Pass it
//! to the store of the database, for example
//! [`PostgresRowStore`](crate::store::postgres::PostgresRowStore), and to [`Outbox::table`](crate::Outbox::table) to
//! write events. An existing table is compared with its layout, and never altered.
//!
//! For contributors: each layout has one `LayoutSpec` with its tables on every database, its states, its columns and its
//! abilities.

mod compare;
mod custom;
pub(crate) mod derived_id;
mod event_outbox;
mod eventlog;
mod handler;
mod outbox;
mod outbox_events;
mod row_table;
mod shape;
mod spec;

#[doc(hidden)]
pub use compare::{Difference, FoundColumn, FoundIndex, compare};
#[cfg(feature = "_store")]
pub(crate) use custom::TimeColumns;
#[cfg(feature = "mysql")]
pub(crate) use custom::length;
pub use custom::{ColumnMap, ColumnName, MappedField, StateWord, States};
pub use handler::FanOutPolicy;
#[doc(hidden)]
pub use handler::RegisteredHandler;
#[cfg(feature = "_server")]
pub(crate) use handler::like;
pub use row_table::RowTable;
#[doc(hidden)]
pub use shape::{Column, Family, Index, Shape};
#[doc(hidden)]
pub use spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables};

/// Defines [`RowLayout`] from the list of layouts, each with the descriptor in its module.
macro_rules! row_layouts {
    ($($(#[$doc:meta])* $layout:ident = $module:ident;)+) => {
        /// The layout of a table with a state per row.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RowLayout {
            $($(#[$doc])* $layout,)+
            /// `custom`: a user-defined table, described by a column map.
            Custom,
        }

        impl RowLayout {
            /// The layouts with a fixed shape: all except `custom`.
            pub const ALL: &'static [Self] = &[$(Self::$layout),+];

            /// The names that a configuration accepts: the default layout, those with a fixed shape, and `custom`.
            pub const CHOICES: &[&str] = &["postrider", $(Self::$layout.name(),)+ Self::Custom.name()];

            /// Its descriptor.
            #[doc(hidden)]
            pub const fn spec(self) -> &'static LayoutSpec {
                match self {
                    $(Self::$layout => &$module::SPEC,)+
                    Self::Custom => &custom::SPEC,
                }
            }
        }
    };
}

row_layouts! {
    /// `event_outbox`: pending, sent, failed, with the time of the next attempt.
    EventOutbox = event_outbox;
    /// `outbox` and `processed_events`: pending, published, failed, with a topic and a limit of retries per row.
    Outbox = outbox;
    /// `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED, with a count of attempts.
    OutboxEvents = outbox_events;
    /// `eventlog`: a log of events with their actions, and one notification per event and handler.
    Eventlog = eventlog;
}

impl RowLayout {
    /// Its name.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The default name of its table.
    pub const fn table_name(self) -> &'static str {
        match self.spec().default_table {
            Some((_, table)) => table,
            None => self.name(),
        }
    }

    /// The layout with this name, if it has a fixed shape.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|layout| layout.name() == name)
    }

    /// Whether the layout has this ability.
    #[doc(hidden)]
    pub fn has(self, ability: Ability) -> bool {
        self.spec().has(ability)
    }

    /// The shape of its tables on a database, the outbox first. Empty if the layout does not exist there.
    #[doc(hidden)]
    pub const fn shapes_on(self, dialect: Dialect) -> &'static [Shape] {
        self.spec().tables.on(dialect)
    }

    /// The shape of its tables on PostgreSQL, the outbox first.
    #[doc(hidden)]
    pub const fn shapes(self) -> &'static [Shape] {
        self.shapes_on(Dialect::Postgres)
    }
}

/// A database whose types and names differ from those of others.
#[doc(hidden)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_a_unique_name_and_a_shape() {
        for &layout in RowLayout::ALL {
            assert_eq!(RowLayout::from_name(layout.name()), Some(layout));
            let outbox = &layout.shapes()[0];
            assert_eq!(outbox.table, "{name}");
            let with_state = layout
                .shapes()
                .iter()
                .any(|shape| shape.columns.iter().any(|column| matches!(column.name, "status" | "state")));
            assert!(with_state, "{}", layout.name());
        }
        assert_eq!(RowLayout::from_name("postrider"), None);
    }

    #[test]
    fn a_configuration_accepts_every_layout() {
        for layout in RowLayout::ALL.iter().copied().chain([RowLayout::Custom]) {
            assert!(RowLayout::CHOICES.contains(&layout.name()), "{}", layout.name());
        }
        assert_eq!(RowLayout::CHOICES.len(), RowLayout::ALL.len() + 2);
    }
}
