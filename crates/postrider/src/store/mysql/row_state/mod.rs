//! The store of a table with a state per row: `event_outbox`, `outbox_events`, or a table with a column map.
//!
//! Its logic is shared by all databases, in [`row_state`](crate::store::row_state); this folder contains the statements
//! and the connections. Lease, fence and pause are those of the default layout. See adr/0020-row-state-store.md. Times
//! in the table must be UTC; the default of a `DATETIME` column uses the time zone of the writer's session.

mod connection;
mod custom;
mod handler_check;
mod list;
mod logged_event;
mod migrate;
mod matching;
mod notifications;
mod read;
mod retention;
mod roles;
mod row_locks;
mod settle;
mod sql;
mod tx;
mod views;

pub(super) use migrate::check;
pub(super) use sql::{Names, adopt};

use self::connection::MySqlRows;
use self::sql::Sql;
use super::connect::MySqlConfig;
use super::connection::SharedConnection;
use super::event_counts;
use super::row::get;
use super::session::{Access, Params};
use crate::layout::{Difference, RowTable};
use crate::store::row_state::dialect::Role;
use crate::store::row_state::store::RowStateStore;
use crate::store::{
    CountBy, EventCounts, EventFilter, HandlerCheck, ListedEvent, Migration, RowExtras, RowsMigrated, Schema,
};
use crate::{Ident, Result};

/// An outbox in a table with a state per row, on MySQL or MariaDB. Clones share its connections.
pub type MySqlRowStore = RowStateStore<MySqlRows>;

impl RowStateStore<MySqlRows> {
    /// Creates the table of the layout if it does not exist, and Postrider's own tables, in the database of the config.
    /// An existing table is compared and never altered; missing `extras` are created. It is safe to run again. These
    /// servers commit every CREATE at once, so an interrupted migration is completed by running it again.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if a table does not match its layout, the database contains
    /// another outbox, or the layout does not exist on these servers. Nothing was changed.
    pub async fn migrate(config: &MySqlConfig, table: &RowTable, extras: RowExtras) -> Result<RowsMigrated> {
        migrate::migrate(&mut config.connect_unchecked().await?, table, extras).await
    }

    /// How the table differs from the layout. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn differences(config: &MySqlConfig, table: &RowTable) -> Result<Vec<Difference>> {
        migrate::differences(&mut config.connect_unchecked().await?, table).await
    }

    /// How many rows other publishers have marked as being published, now or before a crash. 0 if the layout has no
    /// such state. Changes nothing.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables do not exist.
    #[doc(hidden)]
    pub async fn foreign_claims(config: &MySqlConfig, table: &RowTable) -> Result<u64> {
        let Some(marks) = Sql::of(table.layout).and_then(|sql| sql.marks) else { return Ok(0) };
        let connection = SharedConnection::new(config.with_rows(table.clone()));
        let mut conn = connection.lock().await?;
        let rows = conn.session()?.autocommit(Access::Reads, marks.foreign, Params::new()).await?;
        rows.first().map_or(Ok(0), |row| get::<i64>(row, 1)).map(i64::unsigned_abs)
    }

    /// The newest rows that pass a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout does not exist on these servers, and errors
    /// of the database.
    pub async fn list(
        config: &MySqlConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<ListedEvent>> {
        list::list(&mut config.client().await?, table, filter).await
    }

    /// The query plan of that search, as the database prints it.
    ///
    /// # Errors
    /// As [`MySqlRowStore::list`].
    #[doc(hidden)]
    pub async fn list_plan(
        config: &MySqlConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<String>> {
        list::plan(&mut config.client().await?, table, filter).await
    }

    /// What handlers of layout `eventlog` need, and which notifications are open. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    #[doc(hidden)]
    pub async fn handler_check(config: &MySqlConfig, table: &RowTable) -> Result<HandlerCheck> {
        handler_check::check(&mut config.connect_unchecked().await?, table).await
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn schema(config: &MySqlConfig) -> Result<Schema> {
        migrate::schema(&mut config.connect_unchecked().await?).await
    }

    /// Every migration, oldest first, for use with another tool.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout does not exist on these servers.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
        migrate::all(schema, table, extras)
    }

    /// Rows counted by type, hour or producer, in at most `groups_max` groups. Reads the whole table; changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn count_events(
        config: &MySqlConfig,
        table: &RowTable,
        by: CountBy,
        groups_max: usize,
    ) -> Result<EventCounts> {
        let sql = Sql::of(table.layout).ok_or_else(|| migrate::layout_unsupported(table.layout))?;
        event_counts::count_events(
            &mut config.with_rows(table.clone()).connect().await?,
            by,
            groups_max,
            sql.event_states,
        )
        .await
    }

    /// The SQL that creates roles with only the rights that each needs, for layout `eventlog`.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if a role's name would be too long.
    #[doc(hidden)]
    pub fn roles(schema: &Ident, table: &RowTable) -> Result<String> {
        roles::roles(schema, table)
    }

    /// Connects to a database that was migrated.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables do not exist,
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the table does not match its layout, and the
    /// errors of [`MySqlStore::connect`](super::MySqlStore::connect) about a server, except those about positions.
    pub async fn connect(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table)?;
        store.0.dialect.connections.lock(Role::Settler).await?;
        Ok(store)
    }

    /// A store without a connection yet: each connection is opened and checked when it is needed, so the database may
    /// be unavailable now.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`](crate::Code::ForeignPublisher) if the table is shared and its layout is custom or
    /// eventlog, [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout does not exist on these
    /// servers.
    pub fn unconnected(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        MySqlRows::new(config, table).map(Self::of)
    }
}
