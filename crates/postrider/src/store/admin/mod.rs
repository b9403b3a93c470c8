//! What an operator does with one outbox, whatever its database and layout: [`Admin`].
//!
//! The command line and every other tool for operators work on this trait. One file per database implements it with the
//! verbs of that database's stores.

mod by_layout;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod writer;

pub use migrate::MigrationReport;
#[cfg(feature = "mysql")]
pub use mysql::MySqlAdmin;
#[cfg(feature = "postgres")]
pub use postgres::PostgresAdmin;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteAdmin;
pub use writer::EventWriter;

use std::fmt;
use std::sync::Arc;

use crate::adopt::HandsOver;
use crate::layout::{Difference, RowLayout, RowTable};
use crate::store::{CountBy, EventCounts, EventFilter, ListedEvent, Overview, RowExtras, Schema, Store};
use crate::{BoxFuture, Outbox, Result};

/// One outbox, as an operator sees it. Each verb opens the connection it needs and closes it; nothing is open between
/// two verbs. Errors say which database they are about.
pub trait Admin: fmt::Debug + Send + Sync {
    /// The table with a state per row; `None` for the layout `postrider`.
    fn row_table(&self) -> Option<&RowTable>;

    /// The layout of that table.
    fn layout(&self) -> Option<RowLayout> {
        self.row_table().map(RowTable::layout)
    }

    /// The same handle, writing to the schema and table of this outbox.
    fn outbox(&self, outbox: Outbox) -> Outbox;

    /// Opens the store that a relay works on. The schema must be there. Close it after use.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing), `SchemaNewer`, or what the database says.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>>;

    /// Opens the store for moving its events to another outbox. No other publisher may work on it meanwhile, even if the
    /// table is configured as shared.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn open_exclusive(&self) -> BoxFuture<'_, Result<Arc<dyn HandsOver>>>;

    /// Opens a connection that writes events through this handle.
    ///
    /// # Errors
    /// What the database says.
    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>>;

    /// The state of every subscription. Backlogs are counted up to `backlog_max` events. Writes nothing and needs no right
    /// to write.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// Events counted by type, hour or producer, `groups_max` groups at most. Writes nothing and needs no right to write.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn count_events(&self, by: CountBy, groups_max: usize) -> BoxFuture<'_, Result<EventCounts>>;

    /// The newest events that pass a filter, newest first. Writes nothing and needs no right to write.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the filter asks for a state and the layout has none, or what the database says.
    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>>;

    /// The database's plan for that list, in its own words.
    ///
    /// # Errors
    /// As [`Admin::list`].
    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Prepared transactions that are neither committed nor rolled back, on servers where they can delay an outbox.
    ///
    /// # Errors
    /// What the database says.
    fn prepared_transactions(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The schema that is there, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    fn schema(&self) -> BoxFuture<'_, Result<Schema>>;

    /// Brings the tables up to date: those of `layout` if it is given, else of the configured one. Safe to run again. A
    /// table that exists is compared with its layout and never altered.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`](crate::Code::SchemaNewer), [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if this outbox has another layout, or what the database says.
    fn migrate(&self, layout: Option<RowLayout>, extras: RowExtras)
    -> BoxFuture<'_, Result<MigrationReport>>;

    /// The SQL that brings an empty database up to date.
    fn migration_sql(&self) -> String;

    /// The SQL that creates roles with the rights each needs and no others.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if there are none for this layout, or [`Code::ConfigValue`](crate::Code::ConfigValue) if this database has no roles.
    fn roles_sql(&self) -> Result<String>;

    /// How the table with a state per row differs from its layout; empty for the layout `postrider`.
    ///
    /// # Errors
    /// What the database says.
    fn differences(&self) -> BoxFuture<'_, Result<Vec<Difference>>>;

    /// Rows that another publisher has marked as being published; 0 where the layout has no such mark.
    ///
    /// # Errors
    /// What the database says.
    fn foreign_claims(&self) -> BoxFuture<'_, Result<u64>>;
}

/// The table while its rows move to another outbox: no other publisher works on it.
fn exclusive(table: &RowTable) -> RowTable {
    table.clone().shared(false).foreign_claim_timeout(None)
}

/// The error of a layout without roles.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn no_roles(table: &RowTable) -> crate::Error {
    let what = format!("roles for layout {} are not supported yet", table.layout().name());
    crate::Error::new(crate::Code::LayoutDiffers, what).with_hint(
        "grant the relay SELECT, UPDATE and DELETE on the table, and all on Postrider's own schema",
    )
}
