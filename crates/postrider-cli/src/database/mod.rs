//! What the commands ask of a database: one file per dialect, one line per question here.

mod sqlite;

use std::fmt;
use std::sync::Arc;

use postrider::store::{Overview, Store};
use postrider::{Event, Outbox, Result, Written};
use serde::Serialize;

use crate::config::settings::{Database, OutboxSettings};

/// Which schema a database has, and which this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version found; 0 if there is none.
    pub found: i64,
    /// The version of this program.
    pub needed: i64,
}

/// Writes events, each call in one transaction.
pub trait EventWriter {
    /// Writes all and commits, or nothing.
    ///
    /// # Errors
    /// A refused event, or what the database says. Unless the code is
    /// [`OutcomeUnknown`](postrider::Code::OutcomeUnknown), nothing was written.
    fn write(&mut self, events: Vec<Event>) -> Result<Vec<Written>>;
}

impl Database {
    /// The store a relay works on. The schema must be there.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](postrider::Code::SchemaMissing), `SchemaNewer`, or what the database says.
    pub fn store(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Sqlite(path) => sqlite::store(path),
        }
    }

    /// How all subscriptions are doing. Writes nothing, and needs no right to.
    ///
    /// # Errors
    /// As [`Database::store`].
    pub fn overview(&self, backlog_max: u64) -> Result<Overview> {
        match self {
            Self::Sqlite(path) => sqlite::overview(path, backlog_max),
        }
    }

    /// Which schema there is. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub fn schema(&self) -> Result<Schema> {
        match self {
            Self::Sqlite(path) => sqlite::schema(path),
        }
    }

    /// Brings the tables up to date, all or nothing, and says which schema was there before.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`](postrider::Code::SchemaNewer), or what the database says.
    pub fn migrate(&self) -> Result<Schema> {
        match self {
            Self::Sqlite(path) => sqlite::migrate(path),
        }
    }

    /// The SQL that brings an empty database up to date.
    pub fn migrations(&self) -> String {
        match self {
            Self::Sqlite(_) => sqlite::migrations(),
        }
    }
}

impl OutboxSettings {
    /// Writes events to this outbox, within its limits.
    ///
    /// # Errors
    /// As [`Database::store`].
    pub fn writer(&self) -> Result<Box<dyn EventWriter>> {
        match &self.database {
            Database::Sqlite(path) => sqlite::writer(path, self.outbox()),
        }
    }

    /// The library's handle, with the limits of this outbox.
    pub fn outbox(&self) -> Outbox {
        Outbox::new().limits(self.limits.clone())
    }
}

impl fmt::Display for Database {
    /// For people: which database, without a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}
