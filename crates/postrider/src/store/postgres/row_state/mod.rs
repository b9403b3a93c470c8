//! The store of a table with a state per row: `event_outbox`, `outbox`, `outbox_events`, or a table with a column map.
//!
//! What it does is written once for all databases, in [`row_state`](crate::store::row_state); here are the statements
//! and the connections. Lease, fence and pause are those of the default layout. See adr/0020-row-state-store.md.

mod connection;
mod custom;
mod list;
mod migrate;
mod read;
mod retention;
mod row_locks;
mod settle;
mod sql;
mod event_states;
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
use crate::store::row_state::store::RowStateStore;
pub use crate::store::row_state::{RowExtras, RowsMigrated};
use crate::store::{CountBy, EventCounts, EventFilter, ListedEvent, Migration, Schema};
use crate::{Ident, Result};

/// An outbox in a table with a state per row, in PostgreSQL. Clones share its connections.
pub type PostgresRowStore = RowStateStore<PostgresRows>;

impl RowStateStore<PostgresRows> {
    /// Makes the table of the layout if there is none, and Postrider's own tables beside it, in the schema of the
    /// config. A table that is there is compared and never altered; `extras` are made where they are missing. Safe to
    /// run again; all of it happens or none.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if a table cannot be worked on, or the schema holds
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
    /// What the database says.
    pub async fn differences(config: &PostgresConfig, table: &RowTable) -> Result<Vec<Difference>> {
        let session = config.connect_unchecked().await?;
        read_transaction(&session.client, migrate::differences(&session.client, table)).await
    }

    /// How many rows another publisher has marked as being published, be it now or before a crash. Changes nothing; 0
    /// where the layout has no such mark.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there.
    pub async fn foreign_claims(config: &PostgresConfig, table: &RowTable) -> Result<u64> {
        let Some(statement) = Sql::of(table.layout).foreign else { return Ok(0) };
        let line = SharedConnection::new(config.with_rows(table.clone()));
        let rows = line.lock().await?.read(statement, &[]).await?;
        rows.first().map_or(Ok(0), |row| get::<i64>(row, 1)).map(i64::unsigned_abs)
    }

    /// The newest rows that pass a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn list(
        config: &PostgresConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<ListedEvent>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, async {
            let table = custom::learnt(&client, table).await?;
            list::list(&client, config.schema_name(), &table, filter).await
        })
        .await
    }

    /// How the database finds those rows, in its own words.
    ///
    /// # Errors
    /// What the database says.
    pub async fn list_plan(
        config: &PostgresConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<String>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, async {
            let table = custom::learnt(&client, table).await?;
            list::plan(&client, config.schema_name(), &table, filter).await
        })
        .await
    }

    /// Rows counted by type, hour or producer: `groups_max` groups at most. Reads the whole table, and changes nothing.
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
            let learnt = migrate::check(&client, config.schema_name(), table).await?;
            let events = event_states::events(config.schema_name(), learnt.as_ref().unwrap_or(table));
            event_counts::count_events(&client, by, groups_max, &events).await
        })
        .await
    }

    /// Unique keys of `processed_events` that let one consumer group only process an event, each with its columns;
    /// `None` if there is no such table. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn inbox_keys_of_one_group(
        config: &PostgresConfig,
        table: &RowTable,
    ) -> Result<Option<Vec<String>>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::keys_of_one_group(&client, table)).await
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn schema(config: &PostgresConfig) -> Result<Schema> {
        let session = config.connect_unchecked().await?;
        read_transaction(&session.client, migrate::schema(&session.client, config.schema_name())).await
    }

    /// Every migration, oldest first, to be run with another tool.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Vec<Migration> {
        migrate::all(schema, table, extras)
    }

    /// Connects to a database that was migrated.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there,
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the table cannot be worked on, and what
    /// [`PostgresStore::connect`](super::PostgresStore::connect) says of a server.
    pub async fn connect(config: &PostgresConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table);
        store.0.dialect.settler.lock().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then.
    pub fn unconnected(config: &PostgresConfig, table: &RowTable) -> Self {
        Self::of(PostgresRows::new(config, table))
    }
}
