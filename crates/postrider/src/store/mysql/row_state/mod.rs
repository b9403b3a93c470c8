//! The store of a table with a state per row: `event_outbox`, `outbox_events`, or a table with a column map.
//!
//! What it does is written once for all databases, in [`row_state`](crate::store::row_state); here are the statements
//! and the connections. Lease, fence and pause are those of the default layout. See adr/0020-row-state-store.md.
//! Times of the table are UTC: a `DATETIME` that a writer left to its default is in the time zone of the writer's
//! session.

mod connection;
mod custom;
mod list;
mod migrate;
mod names;
mod read;
mod retention;
mod settle;
mod sql;
mod tx;
mod views;

pub(super) use migrate::check;
pub(super) use names::Names;
pub(super) use sql::adopt;

use self::connection::MySqlRows;
use self::sql::Sql;
use super::connect::MySqlConfig;
use super::connection::SharedConnection;
use super::event_counts;
use super::row::get;
use super::session::{Access, Params};
use crate::layout::{Difference, RowTable};
use crate::store::row_state::store::RowStateStore;
use crate::store::{
    CountBy, EventCounts, EventFilter, ListedEvent, Migration, RowExtras, RowsMigrated, Schema,
};
use crate::{Ident, Result};

/// An outbox in a table with a state per row, on MySQL or MariaDB. Clones share its connections.
pub type MySqlRowStore = RowStateStore<MySqlRows>;

impl RowStateStore<MySqlRows> {
    /// Makes the table of the layout if there is none, and Postrider's own tables beside it, in the database of the
    /// config. A table that is there is compared and never altered; `extras` are made where they are missing. Safe to
    /// run again. These servers commit every CREATE at once: what broke off is completed by running it again.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if a table cannot be worked on, the database holds another
    /// outbox, or the layout is not for these servers. Nothing was changed.
    pub async fn migrate(config: &MySqlConfig, table: &RowTable, extras: RowExtras) -> Result<RowsMigrated> {
        migrate::migrate(&mut config.connect_unchecked().await?, table, extras).await
    }

    /// How the table differs from the layout. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn differences(config: &MySqlConfig, table: &RowTable) -> Result<Vec<Difference>> {
        migrate::differences(&mut config.connect_unchecked().await?, table).await
    }

    /// How many rows another publisher has marked as being published, be it now or before a crash. Changes nothing; 0
    /// where the layout has no such mark.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there.
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
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout is not for these servers, or what the
    /// database says.
    pub async fn list(
        config: &MySqlConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<ListedEvent>> {
        list::list(&mut config.client().await?, table, filter).await
    }

    /// How the database finds those rows, in its own words.
    ///
    /// # Errors
    /// As [`MySqlRowStore::list`].
    pub async fn list_plan(
        config: &MySqlConfig,
        table: &RowTable,
        filter: &EventFilter,
    ) -> Result<Vec<String>> {
        list::plan(&mut config.client().await?, table, filter).await
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn schema(config: &MySqlConfig) -> Result<Schema> {
        migrate::schema(&mut config.connect_unchecked().await?).await
    }

    /// Every migration, oldest first, to be run with another tool.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout is not for these servers.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
        migrate::all(schema, table, extras)
    }

    /// Rows counted by type, hour or producer: `groups_max` groups at most. Reads the whole table, and changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn count_events(
        config: &MySqlConfig,
        table: &RowTable,
        by: CountBy,
        groups_max: usize,
    ) -> Result<EventCounts> {
        let sql = Sql::of(table.layout).ok_or_else(|| migrate::not_here(table.layout))?;
        event_counts::count_events(
            &mut config.with_rows(table.clone()).connect().await?,
            by,
            groups_max,
            sql.event_states,
        )
        .await
    }

    /// Connects to a database that was migrated.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there,
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the table cannot be worked on, and what
    /// [`MySqlStore::connect`](super::MySqlStore::connect) says of a server, positions aside.
    pub async fn connect(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table)?;
        store.0.dialect.settler.lock().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`](crate::Code::ForeignPublisher) if the table is shared and its layout has no state
    /// for a row being published, [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the layout is not for these
    /// servers.
    pub fn unconnected(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        MySqlRows::new(config, table).map(Self::of)
    }
}
