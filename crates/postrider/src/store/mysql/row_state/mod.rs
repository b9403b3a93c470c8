//! The store of a table with a state per row: `event_outbox`, `outbox_events`, or anybody's by a map.
//!
//! Lease, fence, pause and connections are those of the default layout; what is particular is how due rows are
//! found, marked, settled and cleaned. What knows no database is shared with the other stores. See
//! adr/0020-row-state-store.md. Times of the table are UTC: a `DATETIME` that a writer left to its default is in the
//! time zone of the writer's session.

mod admin;
mod adopt;
mod claim;
mod custom;
mod fetch;
mod list;
mod load;
mod maintain;
mod migrate;
mod names;
mod overview;
mod own;
mod read;
mod settle;
mod sql;
mod tally;
mod views;

use std::fmt;
use std::sync::Arc;

pub(super) use migrate::check;
pub(super) use names::Names;

use self::sql::{Marks, Sql};
use super::connect::MySqlConfig;
use super::connection::{Guard, SharedConnection};
use super::row::get;
use super::session::{Access, Params};
use super::{admin as operator, lease, relays, tally as counted};
use crate::layout::{Difference, RowTable};
use crate::ledger::Progress;
use crate::store::row_state::handout::Purpose;
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::session::RowSession;
use crate::store::row_state::session_rows::SessionRows;
use crate::store::{
    Acquired, Claimer, Epoch, EventFilter, Fetched, LeaseRequest, ListedEvent, Migration, Overview, Purge,
    Purged, RelayReport, Renewed, RowExtras, RowsMigrated, Schema, Settled, Settlement, Start, Store, Tally,
    TallyBy,
};
use crate::{BoxFuture, Code, Error, Ident, Position, Recovery, Result};

/// An outbox in a table with a state per row, on MySQL or MariaDB. Clones share its connections.
#[derive(Clone)]
pub struct MySqlRowStore(Arc<Rows>);

struct Rows {
    config: MySqlConfig,
    table: RowTable,
    sql: Sql,
    /// How rows are marked before they are published, if they are.
    marks: Option<Marks>,
    settler: SharedConnection,
    reader: SharedConnection,
    /// Finds and marks rows, so that reading ahead and settling do not wait for each other.
    claimer: SharedConnection,
    cleaner: SharedConnection,
    session: RowSession,
}

impl MySqlRowStore {
    /// Makes the table of the layout if there is none, and Postrider's own tables beside it, in the database of the
    /// config. A table that is there is compared and never altered; `extras` are made where they are missing. Safe to
    /// run again. These servers commit every CREATE at once: what broke off is completed by running it again.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if a table cannot be worked on, the database holds another outbox, or the layout is not for
    /// these servers. Nothing was changed.
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

    /// How many rows somebody else has marked as being published, be it now or before a crash. Changes nothing; 0 where
    /// the layout has no such mark.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`] if Postrider's own tables are not there.
    pub async fn foreign_claims(config: &MySqlConfig, table: &RowTable) -> Result<u64> {
        let Some(marks) = Sql::of(table.layout).and_then(|sql| sql.marks) else { return Ok(0) };
        let line = SharedConnection::new(config.with_rows(table.clone()));
        let mut turn = line.lock().await?;
        let rows = turn.session()?.autocommit(Access::Reads, marks.foreign, Params::new()).await?;
        rows.first().map_or(Ok(0), |row| get::<i64>(row, 1)).map(i64::unsigned_abs)
    }

    /// The newest rows that pass a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout is not for these servers, or what the database says.
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

    /// Every migration, oldest first, for those who run them with a tool of their own.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout is not for these servers.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
        migrate::all(schema, table, extras)
    }

    /// Rows counted by type, hour or producer: `groups_max` groups at most. Reads the whole table, and changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn tally(
        config: &MySqlConfig,
        table: &RowTable,
        by: TallyBy,
        groups_max: usize,
    ) -> Result<Tally> {
        let events = tally::events(table.layout)?;
        counted::tally(&mut config.with_rows(table.clone()).connect().await?, by, groups_max, events).await
    }

    /// Connects to a database that was migrated.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`] if Postrider's own tables are not there, [`Code::LayoutDiffers`] if the table cannot be
    /// worked on, and what [`MySqlStore::connect`](super::MySqlStore::connect) says of a server, positions aside.
    pub async fn connect(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table)?;
        store.0.settler.lock().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`] if the table is shared and its layout has no state for a row being published,
    /// [`Code::LayoutDiffers`] if the layout is not for these servers.
    pub fn unconnected(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let sql = Sql::of(table.layout).ok_or_else(|| migrate::not_here(table.layout))?;
        if table.is_shared && sql.marks.is_none() {
            let what = format!("a table of layout {} cannot be shared yet", table.layout.name());
            return Err(Error::new(Code::ForeignPublisher, what)
                .with_hint("stop the other publisher; only outbox_events has a state for rows in progress"));
        }
        let config = config.with_rows(table.clone());
        let line = || SharedConnection::new(config.clone());
        Ok(Self(Arc::new(Rows {
            settler: line(),
            reader: line(),
            claimer: line(),
            cleaner: line(),
            table: table.clone(),
            marks: sql.marks.filter(|_| table.marks_rows()),
            sql,
            session: RowSession::default(),
            config,
        })))
    }
}

impl Rows {
    /// Refuses a connection that leads to another server than the lease was taken on.
    fn check_server(&self, turn: &mut Guard<'_>) -> Result<()> {
        let here = turn.server()?;
        if self.settler.server().is_some_and(|server| server != here) {
            return Err(turn.give_up());
        }
        Ok(())
    }

    async fn fetch(&self, positions: &[Position], bytes_max: usize, purpose: Purpose) -> Result<Fetched> {
        let _handout = self.session.handout.lock().await;
        let mut turn = self.reader.lock().await?;
        self.check_server(&mut turn)?;
        fetch::fetch(self, turn.session()?, positions, bytes_max, purpose).await
    }

    async fn acquire(
        &self,
        turn: &mut Guard<'_>,
        lease: &LeaseRequest,
        marked: StaleMarks,
    ) -> Result<(Acquired, Option<SessionRows>)> {
        let mut work = turn.begin().await?;
        let acquired = load::acquire(&mut work, lease, &self.sql, &self.table, marked).await;
        work.finish(acquired).await
    }

    async fn release(&self, name: &str, epoch: Epoch, clean: bool) -> Result<()> {
        let mut turn = self.settler.lock().await?;
        let server = turn.server()?;
        // A lease that was not taken here is not ours to give up.
        if turn.lease_taken_on(name) != Some(server) {
            return Ok(());
        }
        let mut work = turn.begin().await?;
        let given_back = load::give_back_as_owner(&mut work, &self.sql, name, epoch).await;
        let is_clean = match work.finish(given_back).await {
            Ok(()) => clean,
            // What the table does not take back is the next owner's.
            Err(error) if error.code() == Code::RowRefused => false,
            Err(error) => return Err(error),
        };
        let mut work = turn.begin().await?;
        let released = lease::release(&mut work, name, epoch, is_clean).await;
        work.finish(released).await
    }
}

impl fmt::Debug for MySqlRowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MySqlRowStore").field(&self.0.config).field(&self.0.table).finish()
    }
}

impl Store for MySqlRowStore {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let mut work = turn.begin().await?;
            let created = admin::subscribe(&mut work, &self.0.sql, &self.0.table, &name, start).await;
            work.finish(created).await
        })
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let mut turn = self.0.settler.lock().await?;
            let (acquired, known) = match self.0.acquire(&mut turn, &lease, StaleMarks::GiveBack).await {
                Ok(answer) => answer,
                Err(error) => {
                    let marked = StaleMarks::after(error, &lease.subscription)?;
                    self.0.acquire(&mut turn, &lease, marked).await?
                }
            };
            if let Some(known) = known {
                turn.remember_lease(&lease.subscription)?;
                self.0.session.begin(lease.subscription, known);
            }
            Ok(acquired)
        })
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            turn.check_lease(&lease.subscription)?;
            lease::renew(&mut turn, &lease, epoch).await
        })
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            match self.0.release(&name, epoch, clean).await {
                // A cut connection took the request or its answer with it. Asked again over another, it does the
                // same once at most; left at that, everybody would wait for the lease to run out.
                Err(error) if error.code().recovery() == Recovery::Reload => {
                    self.0.release(&name, epoch, clean).await
                }
                answer => answer,
            }
        })
    }

    fn claimer(&self, _: &Progress) -> Box<dyn Claimer> {
        Box::new(claim::RowClaimer::new(self.0.clone()))
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(async move { self.0.fetch(&positions, bytes_max, Purpose::HandOut).await })
    }

    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(async move { self.0.fetch(&positions, bytes_max, Purpose::Look).await })
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let mut turn = self.0.settler.lock().await?;
            turn.check_lease(&settlement.subscription)?;
            settle::settle(&self.0, &mut turn, &settlement).await
        })
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let mut work = turn.begin().await?;
            let paused = operator::pause(&mut work, &name, reason.as_deref()).await;
            work.finish(paused).await
        })
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let mut work = turn.begin().await?;
            let paused = operator::pause_as_owner(&mut work, &name, epoch, &reason).await;
            work.finish(paused).await
        })
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let mut work = turn.begin().await?;
            let halted = operator::halt(&mut work, &name, epoch, &reason).await;
            work.finish(halted).await
        })
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let mut work = turn.begin().await?;
            let accepted = admin::accept_history(&mut work, &self.0.sql, &self.0.table, &name, start).await;
            work.finish(accepted).await
        })
    }

    fn purge(&self, trim: Purge) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(async move {
            let mut turn = self.0.cleaner.lock().await?;
            let mut work = turn.begin().await?;
            let trimmed = maintain::trim(&mut work, &self.0.sql, &self.0.table, &trim).await;
            work.finish(trimmed).await
        })
    }

    /// Not over the connection that leases are renewed on: nothing waits for a report.
    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { relays::record(&mut self.0.cleaner.lock().await?, &report).await })
    }

    fn row_table(&self) -> Option<&RowTable> {
        Some(&self.0.table)
    }

    fn trace_deliveries(&self) {
        self.0.session.trace(&self.0.table);
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            let mut turn = self.0.reader.lock().await?;
            let mut work = turn.begin_read().await?;
            let seen = overview::overview(&mut work, &self.0.sql, backlog_max).await;
            work.finish(seen).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Rows { settler, reader, claimer, cleaner, .. } = &*self.0;
            _ = tokio::join!(settler.close(), reader.close(), claimer.close(), cleaner.close());
        })
    }
}
