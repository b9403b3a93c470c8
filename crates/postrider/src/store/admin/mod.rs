//! Operating an outbox on any database and with any layout: [`Admin`].
//!
//! The command line and other tools for operators use this trait. One file per database implements it.

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

use crate::adopt::AdoptSource;
use crate::layout::{Difference, RowLayout, RowTable};
use crate::store::{
    CountBy, EventCounts, EventFilter, HandlerCheck, ListedEvent, Migration, Overview, RowExtras, Schema,
    Store,
};
use crate::{BoxFuture, Code, Error, Outbox, Result};

/// One outbox, as an operator sees it. Each operation opens the connections that it needs and closes them. Errors name
/// the database.
pub trait Admin: fmt::Debug + Send + Sync {
    /// The table with a state per row; `None` for the layout `postrider`.
    fn row_table(&self) -> Option<&RowTable>;

    /// The layout of that table.
    fn layout(&self) -> Option<RowLayout> {
        self.row_table().map(RowTable::layout)
    }

    /// The same handle, writing to the schema and table of this outbox.
    fn outbox(&self, outbox: Outbox) -> Outbox;

    /// Opens the store that a relay works on. Its tables must exist. Close it after use.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`], `SchemaNewer`, or the database's error.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>>;

    /// Opens the store to move its events to another outbox. No other publisher may use the table meanwhile, even if it
    /// is configured as shared.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn open_exclusive(&self) -> BoxFuture<'_, Result<Arc<dyn AdoptSource>>>;

    /// Opens a connection that writes events through this handle.
    ///
    /// # Errors
    /// The database's error.
    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>>;

    /// The state of every subscription. Backlogs are counted up to `backlog_max` events. Needs only the right to read.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// Events counted by type, hour or producer, in at most `groups_max` groups. Needs only the right to read.
    ///
    /// # Errors
    /// As [`Admin::open`].
    fn count_events(&self, by: CountBy, groups_max: usize) -> BoxFuture<'_, Result<EventCounts>>;

    /// The newest events that match a filter, newest first. Needs only the right to read.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the filter has a state or an action and the layout has
    /// none, or the database's error.
    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>>;

    /// The database's query plan for [`list`](Self::list).
    ///
    /// # Errors
    /// As [`Admin::list`].
    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Prepared transactions that are neither committed nor rolled back, on servers where they can delay events.
    ///
    /// # Errors
    /// The database's error.
    fn prepared_transactions(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The schema of the database, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// The database's error.
    fn schema(&self) -> BoxFuture<'_, Result<Schema>>;

    /// Creates or updates the tables: those of `layout` if it is given, else of the configured one. Safe to run again.
    /// An existing table of a layout with a state per row is compared with it and never altered.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`], [`Code::LayoutDiffers`] if this
    /// outbox has another layout, or the database's error.
    fn migrate(&self, layout: Option<RowLayout>, extras: RowExtras)
    -> BoxFuture<'_, Result<MigrationReport>>;

    /// The SQL that creates the tables in an empty database.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if the layout does not have one of the optional parts.
    fn migration_sql(&self, extras: RowExtras) -> Result<String>;

    /// The SQL that creates roles with only the rights each needs.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if there are none for this layout, or
    /// [`Code::ConfigValue`] if this database has no roles.
    fn roles_sql(&self) -> Result<String>;

    /// How the table with a state per row differs from its layout; empty for the layout `postrider`.
    ///
    /// # Errors
    /// The database's error.
    fn differences(&self) -> BoxFuture<'_, Result<Vec<Difference>>>;

    /// What handlers of layout `eventlog` need, and which notifications are open. Empty for other layouts.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    fn handler_check(&self) -> BoxFuture<'_, Result<HandlerCheck>> {
        Box::pin(std::future::ready(Ok(HandlerCheck::default())))
    }

    /// Rows that another publisher has marked as being published; 0 where the layout has no such mark.
    ///
    /// # Errors
    /// The database's error.
    fn foreign_claims(&self) -> BoxFuture<'_, Result<u64>>;
}

/// The table while its rows move to another outbox: no other publisher works on it.
fn exclusive(table: &RowTable) -> RowTable {
    table.clone().shared(false).foreign_claim_timeout(None)
}

/// Adds the database's name to an error.
#[cfg(feature = "_server")]
async fn named<T>(name: &str, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
    answer.await.map_err(|error| error.within(name))
}

/// The writer for a table with a state per row, or for the outbox in this schema.
#[cfg(feature = "_server")]
fn outbox_for(outbox: Outbox, table: Option<&RowTable>, schema: &crate::Ident) -> Outbox {
    match table {
        Some(table) => outbox.table(table.clone()),
        None => outbox.schema(schema.clone()),
    }
}

/// See [`Admin::overview`]: opens the store, reads the overview, closes the store.
#[cfg(feature = "_server")]
async fn overview_of(admin: &dyn Admin, name: &str, backlog_max: u64) -> Result<Overview> {
    let store = admin.open().await?;
    let overview = named(name, store.overview(backlog_max)).await;
    store.close().await;
    overview
}

/// Refuses optional parts that a printed script cannot contain.
fn check_printed(table: Option<&RowTable>, extras: RowExtras) -> Result<()> {
    match table {
        Some(table) => extras.check(table.layout()),
        None if extras == RowExtras::default() => Ok(()),
        None => {
            let what = "the script of layout postrider has no optional parts";
            Err(Error::new(Code::NameInvalid, what).with_hint("use `postrider migrate up --with views`"))
        }
    }
}

/// Migrations as one script; `wrap` renders the SQL of one migration.
fn script(migrations: Vec<Migration>, wrap: impl Fn(&str) -> String) -> String {
    let steps = migrations.iter().map(|step| format!("-- Schema {}\n{}", step.version, wrap(&step.sql)));
    steps.collect::<Vec<_>>().join("\n")
}

/// The error of a layout without roles.
#[cfg(feature = "_server")]
fn no_roles(table: &RowTable) -> crate::Error {
    let what = format!("roles for layout {} are not supported yet", table.layout().name());
    crate::Error::new(crate::Code::LayoutDiffers, what).with_hint(
        "grant the relay SELECT, UPDATE and DELETE on the table, and all on Postrider's own schema",
    )
}
