//! One descriptor per layout: everything about it except the statements of the stores.

use super::Dialect;
use super::shape::Shape;

/// The descriptor of a layout. See "Add a layout" in CONTRIBUTING.md.
#[derive(Debug, Clone, Copy)]
pub struct LayoutSpec {
    /// Its name.
    pub name: &'static str,
    /// The schema (on MySQL and MariaDB the database) and the name of its table, where they differ from the default: the
    /// layout's name, in no schema of its own.
    pub default_table: Option<(&'static str, &'static str)>,
    /// The shape of its tables on each database.
    pub tables: Tables,
    /// The states of a row: pending first, then being published if the layout has it, delivered, and failed last.
    pub states: &'static [&'static str],
    /// The column with the number of failed attempts.
    pub attempts: &'static str,
    /// The fields of an event that have a column, and the most characters of each, if limited. An event with other
    /// fields cannot be written.
    pub columns: &'static [(EventField, Option<usize>)],
    /// Its optional abilities.
    pub abilities: &'static [Ability],
    /// The INSERT of events on each database; `None` if Postrider does not write to the table.
    pub inserts: Inserts,
}

/// The tables of a layout, the outbox first. Empty if the layout does not exist on a database.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// On PostgreSQL.
    pub postgres: &'static [Shape],
    /// On MySQL and MariaDB.
    pub mysql: &'static [Shape],
    /// On SQLite.
    pub sqlite: &'static [Shape],
}

impl Tables {
    /// On no database.
    pub(super) const NONE: Self = Self { postgres: &[], mysql: &[], sqlite: &[] };

    /// The tables on one database.
    pub const fn on(&self, dialect: Dialect) -> &'static [Shape] {
        match dialect {
            Dialect::Postgres => self.postgres,
            Dialect::MySql | Dialect::MariaDb => self.mysql,
            Dialect::Sqlite => self.sqlite,
        }
    }
}

/// A field of an event that a table may have a column for.
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
    /// The namespace.
    Namespace,
    /// The name of the action.
    Action,
    /// The id of the action.
    ActionId,
    /// The parameters of the action.
    ActionParams,
    /// When the action started.
    ActionStarted,
    /// When the action completed.
    ActionCompleted,
}

/// An ability that some layouts have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// Views that are created with the table.
    Views,
    /// An optional index over aggregate type and id.
    AggregateIndex,
    /// A state for rows that are being published, so that other publishers skip them.
    PublishingState,
    /// An inbox table whose rows expire.
    Inbox,
    /// A column with the time at which a published row may be deleted.
    Expiry,
    /// A column with the time at which a row was delivered.
    DeliveryTime,
    /// A column with the limit of attempts of each row.
    RowLimit,
    /// An optional column `max_attempts`, which the owner of the table may add.
    RowLimitColumn,
    /// Ids of rows and aggregates are UUIDs.
    Uuids,
    /// A table of notifications: each event is fanned out to several handlers, and each delivery has its own row.
    Notifications,
}

/// The INSERT of events on each database.
#[derive(Debug, Clone, Copy)]
pub struct Inserts {
    /// Takes one array of texts per field; see `write/rows_postgres.rs`.
    pub postgres: Option<&'static str>,
    /// Inserts any number of rows.
    pub mysql: Option<RowInsert>,
    /// Inserts one row: aggregate type, aggregate id, type, payload. Returns its number and its creation time in
    /// microseconds.
    pub sqlite: Option<&'static str>,
}

/// An INSERT of any number of rows.
#[derive(Debug, Clone, Copy)]
pub struct RowInsert {
    /// The statement up to the rows.
    pub before: &'static str,
    /// One row.
    pub row: &'static str,
    /// The fields of a row, in the order of its columns.
    pub fields: &'static [EventField],
}

impl Inserts {
    /// Only the application writes to the table.
    pub(super) const NONE: Self = Self { postgres: None, mysql: None, sqlite: None };
}

impl LayoutSpec {
    /// Whether the layout has this ability.
    pub fn has(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }

    /// Whether there is a column for this field.
    pub fn has_column(&self, field: EventField) -> bool {
        self.columns.iter().any(|(column, _)| *column == field)
    }

    /// The most characters of this field, if limited.
    pub fn chars_max(&self, field: EventField) -> Option<usize> {
        self.columns.iter().find(|(column, _)| *column == field)?.1
    }
}

/// The INSERT of a batch on PostgreSQL. Every value is a text, in one array per field, so that all drivers send the
/// same. The creation time is that of the INSERT, not of the beginning of the transaction: applications that lock a row
/// per key before they write keep the order of the key.
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
                                        max_attempts, producer, ordinal)
             ORDER BY ordinal
             RETURNING id::text, (extract(epoch FROM created_at) OPERATOR(pg_catalog.*) 1000000)::bigint"
        )
    };
}
pub(super) use insert_postgres;
