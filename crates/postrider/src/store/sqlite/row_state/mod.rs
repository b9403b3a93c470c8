//! The store of a table with a state per row in a SQLite file: `outbox_events`, or a table with a column map.
//!
//! Its logic is shared by all databases, in [`row_state`](crate::store::row_state); this folder contains the statements
//! and the threads they run on. Lease, fence and pause are those of the default layout. See
//! adr/0020-row-state-store.md. Postrider's own tables are in the same file.

mod connection;
mod custom;
mod list;
mod migrate;
mod read;
mod retention;
mod settle;
mod sql;
mod tx;

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::connection::SqliteRows;
use self::sql::Names;
use super::file::Source;
use super::worker::in_transaction;
use super::{SqliteStore, connect, connect_or_create, event_counts, refuse_missing};
use crate::layout::{Difference, RowTable};
use crate::store::row_state::overview::ReadOverview;
use crate::store::row_state::store::RowStateStore;
use crate::store::{
    CountBy, EventCounts, EventFilter, ListedEvent, Migration, Overview, RowExtras, RowsMigrated, Schema,
};
use crate::{Ident, Result};

/// An outbox in a table with a state per row, in a SQLite file. Clones share its connections.
pub type SqliteRowStore = RowStateStore<SqliteRows>;

/// The table in the schema of the file.
fn in_file(table: &RowTable) -> Result<RowTable> {
    Ok(table.clone().in_schema(Ident::new("main")?))
}

impl RowStateStore<SqliteRows> {
    /// Creates the file and the table of the layout if they do not exist, and Postrider's own tables. An existing table
    /// is compared and never altered; the file is switched to WAL. All of it happens or nothing; it is safe to run
    /// again. Blocks the calling thread.
    ///
    /// # Errors
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the table does not match its layout, the file contains another
    /// outbox, or the layout does not exist on SQLite. Nothing was changed.
    pub fn migrate(path: impl AsRef<Path>, table: &RowTable, extras: RowExtras) -> Result<RowsMigrated> {
        let table = in_file(table)?;
        if migrate::shape(&table)?.is_none() {
            // A table of layout custom belongs to the application, so a missing file cannot contain it.
            refuse_missing(path.as_ref()).map_err(|error| {
                error.with_hint(
                    "create the file and your table first: Postrider does not create tables of layout custom",
                )
            })?;
        }
        let mut connection = connect_or_create(path.as_ref())?;
        Ok(migrate::migrate(&mut connection, &table, extras)?)
    }

    /// How the table differs from the layout. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn differences(path: impl AsRef<Path>, table: &RowTable) -> Result<Vec<Difference>> {
        Ok(migrate::differences(&SqliteStore::connect_read_only(path)?, &in_file(table)?)?)
    }

    /// How many rows other publishers have marked as being published, now or before a crash. Changes nothing.
    ///
    /// # Errors
    /// [`SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables do not exist.
    #[doc(hidden)]
    pub fn foreign_claims(path: impl AsRef<Path>, table: &RowTable) -> Result<u64> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &in_file(table)?)?;
        let count = || -> super::failure::Attempt<i64> {
            let Some(marks) = &names.sql.marks else { return Ok(0) };
            Ok(connection.query_row(&names.put_into(marks.foreign), [], |row| row.get(1))?)
        };
        Ok(count()?.unsigned_abs())
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database. A file that does not exist has version 0.
    pub fn schema(path: impl AsRef<Path>) -> Result<Schema> {
        let connection = path.as_ref().exists().then(|| SqliteStore::connect_read_only(path)).transpose()?;
        Ok(migrate::schema(connection.as_ref())?)
    }

    /// Every migration, oldest first, for use with another tool.
    ///
    /// # Errors
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the layout does not exist on SQLite.
    pub fn migrations(table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
        migrate::all(&in_file(table)?, extras)
    }

    /// Rows counted by type, hour or producer, in at most `groups_max` groups. Reads the whole table; changes nothing.
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn count_events(
        path: impl AsRef<Path>,
        table: &RowTable,
        by: CountBy,
        groups_max: usize,
    ) -> Result<EventCounts> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &in_file(table)?)?;
        Ok(event_counts::count_events(&connection, by, groups_max, &names.put_into(names.sql.event_states))?)
    }

    /// Opens a file that was migrated. Blocks the calling thread while two connections are opened.
    ///
    /// # Errors
    /// [`SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables do not exist,
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the table does not match its layout.
    pub fn open(path: impl AsRef<Path>, table: &RowTable) -> Result<Self> {
        let (path, of) = (path.as_ref(), table.clone());
        let (_, names) = open(path, table)?;
        let writer = Source::new(path, move |path| open(path, &of).map(|(connection, _)| connection));
        let reader = Source::new(path, |path| SqliteStore::connect_read_only(path));
        SqliteRows::start(names, reader, writer).map(Self::of)
    }

    /// A separate connection to a file that was migrated, for writing events. It waits for locks as the store does, and
    /// its commits survive a power failure.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn connect(path: impl AsRef<Path>, table: &RowTable) -> Result<Connection> {
        open(path.as_ref(), table).map(|(connection, _)| connection)
    }

    /// As [`Store::overview`](crate::store::Store::overview), from a file that may be on a disk one can only read. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn read_overview(path: impl AsRef<Path>, table: &RowTable, backlog_max: u64) -> Result<Overview> {
        let mut connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &in_file(table)?)?;
        let overview = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            connection::run(snapshot, &names, ReadOverview { backlog_max })
        });
        Ok(overview?)
    }

    /// The newest rows that pass a filter, newest first, from a file that may be on a disk one can only read. Blocks
    /// the calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn list(path: impl AsRef<Path>, table: &RowTable, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        let mut connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &in_file(table)?)?;
        let found = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            list::list(snapshot, &names, filter)
        });
        Ok(found?)
    }

    /// The query plan of that search, as the database prints it.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    #[doc(hidden)]
    pub fn list_plan(path: impl AsRef<Path>, table: &RowTable, filter: &EventFilter) -> Result<Vec<String>> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &in_file(table)?)?;
        Ok(list::plan(&connection, &names, filter)?)
    }
}

/// A connection that may write, and the table with its statements.
fn open(path: &Path, table: &RowTable) -> Result<(Connection, Names)> {
    let table = in_file(table)?;
    migrate::shape(&table)?;
    refuse_missing(path)?;
    let connection = connect(path, OpenFlags::empty())?;
    let names = migrate::check(&connection, &table)?;
    Ok((connection, names))
}
