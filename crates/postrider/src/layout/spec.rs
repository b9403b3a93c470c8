//! One descriptor per layout: all that is particular to it and needs no statement of a store.

use super::Dialect;
use super::shape::Shape;

/// What is particular to a layout. A layout is added by writing one; see CONTRIBUTING.md.
#[derive(Debug, Clone, Copy)]
pub struct LayoutSpec {
    /// Its name, which is also that of its table unless another is given.
    pub name: &'static str,
    /// What its tables look like on each database.
    pub tables: Tables,
    /// The words for the states of a row, the first ones first.
    pub states: &'static [&'static str],
    /// What of an event has a column, and how many characters fit where that is limited. Only that may be written.
    pub columns: &'static [(EventField, Option<usize>)],
    /// What it can do that not every layout can.
    pub abilities: &'static [Ability],
    /// The INSERT of events on each database; `None` where Postrider does not write the table.
    pub inserts: Inserts,
}

/// The tables of a layout, the outbox first. None where the layout does not exist.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// On PostgreSQL.
    pub postgres: &'static [Shape],
    /// On MySQL.
    pub mysql: &'static [Shape],
    /// On MariaDB, where JSON is a text.
    pub mariadb: &'static [Shape],
    /// On SQLite.
    pub sqlite: &'static [Shape],
}

impl Tables {
    /// On no database: a table by a map looks as its map says.
    pub(super) const NONE: Self = Self { postgres: &[], mysql: &[], mariadb: &[], sqlite: &[] };

    /// Those on one database.
    pub const fn on(&self, dialect: Dialect) -> &'static [Shape] {
        match dialect {
            Dialect::Postgres => self.postgres,
            Dialect::MySql => self.mysql,
            Dialect::MariaDb => self.mariadb,
            Dialect::Sqlite => self.sqlite,
        }
    }
}

/// A part of an event that a table may have a column for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventField {
    /// The id.
    Id,
    /// The type.
    EventType,
    /// The type of the aggregate.
    AggregateType,
    /// The id of the aggregate.
    AggregateId,
    /// The key.
    Key,
    /// The payload.
    Payload,
    /// The headers.
    Headers,
    /// The topic.
    Topic,
    /// The limit of attempts.
    MaxAttempts,
    /// The producer.
    Producer,
}

/// What a layout can do that not every layout can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Views that come with the table.
    Views,
    /// An optional index over aggregate type and id.
    AggregateIndex,
    /// A state that says that a row is being published, so that other publishers leave it alone.
    PublishingState,
    /// An inbox beside the outbox, whose rows expire.
    Inbox,
    /// A column that says when a published row is deleted.
    Expiry,
    /// A column that says when a row was delivered.
    DeliveryTime,
    /// A limit of attempts in every row.
    RowLimit,
    /// A column `max_attempts`, if the owner of the table added one.
    RowLimitColumn,
    /// Rows are numbered by UUIDs, and so are aggregates.
    Uuids,
}

/// The INSERT of events on each database.
#[derive(Debug, Clone, Copy)]
pub struct Inserts {
    /// One array of texts per field, see `write/rows_postgres.rs`.
    pub postgres: Option<&'static str>,
    /// Any number of rows.
    pub mysql: Option<RowInsert>,
    /// One row: aggregate type, aggregate id, type, payload. Answers its number and the microsecond of its creation.
    pub sqlite: Option<&'static str>,
}

/// An INSERT of any number of rows.
#[derive(Debug, Clone, Copy)]
pub struct RowInsert {
    /// What stands before the rows.
    pub before: &'static str,
    /// One row.
    pub row: &'static str,
    /// The fields of a row, in the order of its columns.
    pub fields: &'static [EventField],
}

impl Inserts {
    /// Only the owner's program writes the table.
    pub(super) const NONE: Self = Self { postgres: None, mysql: None, sqlite: None };
}

impl LayoutSpec {
    /// Whether it can do this.
    pub fn has(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }

    /// Whether there is a column for a part of an event.
    pub fn has_column(&self, field: EventField) -> bool {
        self.columns.iter().any(|(column, _)| *column == field)
    }

    /// How many characters fit, if that is limited.
    pub fn chars_max(&self, field: EventField) -> Option<usize> {
        self.columns.iter().find(|(column, _)| *column == field)?.1
    }
}

/// The INSERT of a batch on PostgreSQL: every value as text, one array per field, so that all drivers send the same. The
/// creation is the time of the INSERT, not of the transaction's begin: written under the lock of the key's row, it keeps the
/// key's order. Uses no index except to maintain them.
macro_rules! insert_postgres {
    ($columns:literal, $values:literal) => {
        concat!(
            "INSERT INTO {table} (",
            $columns,
            ", created_at) SELECT ",
            $values,
            ", pg_catalog.clock_timestamp()
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[])
                  WITH ORDINALITY AS e (id, type, aggregate_type, aggregate_id, key, payload, headers, topic,
                                        max_attempts, producer, place)
             ORDER BY place
             RETURNING id::text, (extract(epoch FROM created_at) OPERATOR(pg_catalog.*) 1000000)::bigint"
        )
    };
}
pub(super) use insert_postgres;
