//! The store of a table with a state per row: `event_outbox`, `outbox`, `outbox_events`, or a table with a column map.
//!
//! Its logic is shared by all databases, in [`row_state`](crate::store::row_state); this folder contains the statements
//! and the connections. Lease, fence and pause are those of the default layout. See adr/0020-row-state-store.md.

mod connection;
mod custom;
mod handler_check;
mod list;
mod logged_event;
mod migrate;
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
pub(super) use sql::adopt;

use self::connection::PostgresRows;
use self::sql::Sql;
use super::connect::PostgresConfig;
use super::connection::SharedConnection;
use super::event_counts;
use super::row::get;
use super::session::read_transaction;
use crate::layout::{Difference, RowTable};
use crate::store::row_state::dialect::Role;
use crate::store::row_state::store::RowStateStore;
use crate::store::row_state::{RowExtras, RowsMigrated};
use crate::store::{CountBy, EventCounts, EventFilter, HandlerCheck, ListedEvent, Migration, Schema};
use crate::{Ident, Result};

/// An outbox in a table with a state per row, in PostgreSQL. Clones share its connections.
pub type PostgresRowStore = RowStateStore<PostgresRows>;

impl RowStateStore<PostgresRows> {
    /// Creates the table of the layout if it does not exist, and Postrider's own tables, in the schema of the config.
    /// An existing table is compared and never altered; missing `extras` are created. All of it happens or nothing; it
    /// is safe to run again.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if a table does not match its layout, or the schema contains
    /// another outbox. Nothing was changed.
    pub async fn migrate(
        config: &PostgresConfig,
        table: &RowTable,
        extras: RowExtras,
    ) -> Result<RowsMigrated> {
        let mut session = config.connect_unchecked().await?;
        migrate::migrate(&mut session, config.schema_name(), table, extras).await
    }

    /// How the tables differ from the layout. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn differences(config: &PostgresConfig, table: &RowTable) -> Result<Vec<Difference>> {
        let session = config.connect_unchecked().await?;
        read_transaction(&session.client, migrate::differences(&session.client, table)).await
    }

    /// How many rows other publishers have marked as being published, now or before a crash. 0 if the layout has no
    /// such state. Changes nothing.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables do not exist.
    #[doc(hidden)]
    pub async fn foreign_claims(config: &PostgresConfig, table: &RowTable) -> Result<u64> {
        let Some(statement) = Sql::of(table.layout).foreign_claims else { return Ok(0) };
        let connection = SharedConnection::new(config.with_rows(table.clone()));
        let rows = connection.lock().await?.read(statement, &[]).await?;
        rows.first().map_or(Ok(0), |row| get::<i64>(row, 1)).map(i64::unsigned_abs)
    }

    /// The newest rows that pass a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn list(
        config: &PostgresConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<ListedEvent>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, async {
            let table = custom::inspect(&client, table).await?;
            list::list(&client, config.schema_name(), &table, filter).await
        })
        .await
    }

    /// The query plan of that search, as the database prints it.
    ///
    /// # Errors
    /// Errors of the database.
    #[doc(hidden)]
    pub async fn list_plan(
        config: &PostgresConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<String>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, async {
            let table = custom::inspect(&client, table).await?;
            list::plan(&client, config.schema_name(), &table, filter).await
        })
        .await
    }

    /// Rows counted by type, hour or producer, in at most `groups_max` groups. Reads the whole table; changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn count_events(
        config: &PostgresConfig,
        table: &RowTable,
        by: CountBy,
        groups_max: usize,
    ) -> Result<EventCounts> {
        let client = config.connect_unchecked().await?.client;
        read_transaction(&client, async {
            let inspected = migrate::check(&client, config.schema_name(), table).await?;
            let rows = sql::event_states(config.schema_name(), inspected.as_ref().unwrap_or(table));
            event_counts::count_events(&client, by, groups_max, &rows).await
        })
        .await
    }

    /// Unique keys of `processed_events` without the consumer group, each with its columns: with such a key only one
    /// group can process an event. `None` if there is no such table. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    #[doc(hidden)]
    pub async fn inbox_keys_of_one_group(
        config: &PostgresConfig,
        table: &RowTable,
    ) -> Result<Option<Vec<String>>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::keys_of_one_group(&client, table)).await
    }

    /// What handlers of layout `eventlog` need, and which notifications are open. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    #[doc(hidden)]
    pub async fn handler_check(config: &PostgresConfig, table: &RowTable) -> Result<HandlerCheck> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, handler_check::check(&client, config.schema_name(), table)).await
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn schema(config: &PostgresConfig) -> Result<Schema> {
        let session = config.connect_unchecked().await?;
        read_transaction(&session.client, migrate::schema(&session.client, config.schema_name())).await
    }

    /// Every migration, oldest first, for use with another tool.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Vec<Migration> {
        migrate::all(schema, table, extras)
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
    /// errors of [`PostgresStore::connect`](super::PostgresStore::connect) about a server.
    pub async fn connect(config: &PostgresConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table);
        store.0.dialect.connections.lock(Role::Settler).await?;
        Ok(store)
    }

    /// A store without a connection yet: each connection is opened and checked when it is needed, so the database may
    /// be unavailable now.
    pub fn unconnected(config: &PostgresConfig, table: &RowTable) -> Self {
        Self::of(PostgresRows::new(config, table))
    }
}
