//! The store of a table with a state per row: `event_outbox`, `outbox`, `outbox_events`.
//!
//! Lease, fence, pause and connections are those of the default layout; what is particular is how due rows are
//! found, marked, settled and cleaned. See adr/0020-row-state-store.md.

mod admin;
mod adopt;
mod claim;
mod custom;
mod deliver;
mod event;
mod fetch;
mod hold;
mod list;
mod load;
mod maintain;
mod migrate;
mod overview;
mod own;
mod read;
mod settle;
mod sql;
mod tally;
mod views;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub(super) use migrate::check;

use self::hold::{Holders, Won};
use self::sql::Sql;
use super::connect::PostgresConfig;
use super::connection::{Guard, SharedConnection};
use super::row::get;
use super::session::read_transaction;
use super::{admin as operator, lease, relays, tally as counted, wake};
use crate::layout::{Difference, RowTable};
use crate::ledger::Progress;
use crate::store::row_state::handout::Purpose;
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::lost;
use crate::store::row_state::refused::{MarkedRows, Marking};
use crate::store::row_state::session::RowSession;
use crate::store::row_state::session_rows::{RowId, SessionRows};
pub use crate::store::row_state::{RowExtras, RowsMigrated};
use crate::store::{
    Acquired, Claimer, Epoch, EventFilter, Fetched, LeaseRequest, ListedEvent, Migration, Overview, Purge,
    Purged, RelayReport, Renewed, Schema, Settled, Settlement, Start, Store, Tally, TallyBy, Wakes,
};
use crate::{BoxFuture, Code, Ident, Position, Result};

/// An outbox in a table with a state per row. Clones share its connections.
#[derive(Clone)]
pub struct PostgresRowStore(Arc<Rows>);

struct Rows {
    config: PostgresConfig,
    table: RowTable,
    sql: Sql,
    settler: SharedConnection,
    reader: SharedConnection,
    /// Finds and marks rows, so that reading ahead and settling do not wait for each other.
    claimer: SharedConnection,
    /// Marks half of what was delivered, beside the settler.
    marker: SharedConnection,
    /// How many pages are to be read before that connection is tried again.
    marker_pause: AtomicU32,
    cleaner: SharedConnection,
    session: RowSession,
    /// Locks on rows that are handed out, where that is how others are kept away.
    holders: Holders,
}

impl PostgresRowStore {
    /// Makes the table of the layout if there is none, and Postrider's own tables beside it, in the schema of the
    /// config. A table that is there is compared and never altered; `extras` are made where they are missing. Safe to
    /// run again; all of it happens or none.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if a table cannot be worked on, or the schema holds another outbox. Nothing was changed.
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

    /// How many rows somebody else has marked as being published, be it now or before a crash. Changes nothing; 0 where
    /// the layout has no such mark.
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
    pub async fn tally(
        config: &PostgresConfig,
        table: &RowTable,
        by: TallyBy,
        groups_max: usize,
    ) -> Result<Tally> {
        let client = config.connect_unchecked().await?.client;
        read_transaction(&client, async {
            let learnt = migrate::check(&client, config.schema_name(), table).await?;
            let events = tally::events(config.schema_name(), learnt.as_ref().unwrap_or(table));
            counted::tally(&client, by, groups_max, &events).await
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

    /// Every migration, oldest first, for those who run them with a tool of their own.
    pub fn migrations(schema: &Ident, table: &RowTable, extras: RowExtras) -> Vec<Migration> {
        migrate::all(schema, table, extras)
    }

    /// Connects to a database that was migrated.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there, [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the table cannot be
    /// worked on, and what [`PostgresStore::connect`](super::PostgresStore::connect) says of a server.
    pub async fn connect(config: &PostgresConfig, table: &RowTable) -> Result<Self> {
        let store = Self::unconnected(config, table);
        store.0.settler.lock().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then.
    pub fn unconnected(config: &PostgresConfig, table: &RowTable) -> Self {
        let mut sql = Sql::of(table.layout);
        // The lease alone keeps other relays away; see adr/0030-marks-only-beside-others.md.
        sql.claim = sql.claim.filter(|_| table.is_shared || table.foreign_claim_timeout.is_some());
        sql.lock = sql.lock.filter(|_| table.is_shared);
        let config = config.with_rows(table.clone());
        let line = || SharedConnection::new(config.clone());
        Self(Arc::new(Rows {
            settler: line(),
            reader: line(),
            claimer: line(),
            marker: line(),
            marker_pause: AtomicU32::new(0),
            cleaner: line(),
            table: table.clone(),
            sql,
            session: RowSession::default(),
            holders: Holders::new(config.clone()),
            config,
        }))
    }
}

impl Rows {
    fn with_rows<T>(&self, act: impl FnOnce(&mut SessionRows) -> T) -> T {
        self.session.with_rows(act)
    }

    fn subscription(&self) -> String {
        self.session.subscription()
    }

    /// Refuses a connection that leads to another server than the lease was taken on.
    fn check_server(&self, turn: &mut Guard<'_>) -> Result<()> {
        let here = turn.incarnation()?;
        if self.settler.server().is_some_and(|server| server != here) {
            return Err(turn.give_up());
        }
        Ok(())
    }

    /// Makes rows ours where others could take them: by their mark or by a lock. `None` where nobody else is to be
    /// feared.
    async fn win(&self, turn: &mut Guard<'_>, epoch: Epoch, due: &[(RowId, i64)]) -> Result<Option<Won<'_>>> {
        let Sql { claim, lock, .. } = self.sql;
        match (claim, lock) {
            (None, None) => Ok(None),
            _ if due.is_empty() => Ok(Some(MarkedRows::default().into())),
            (Some(claim), _) => {
                let (mut marking, name) = (Marking::of(due.to_vec()), self.subscription());
                while let Some(rows) = marking.next() {
                    let answer = read::claim(turn, claim, &self.table, &name, epoch, &rows).await;
                    marking.heard(rows, answer)?;
                }
                Ok(Some(marking.marked().into()))
            }
            (_, Some(lock)) => self.holders.lock(lock, &self.subscription(), epoch, due).await.map(Some),
        }
    }

    async fn acquire(
        &self,
        turn: &mut Guard<'_>,
        lease: &LeaseRequest,
        marked: StaleMarks,
    ) -> Result<(Acquired, Option<SessionRows>)> {
        let work = turn.begin().await?;
        let answer = load::acquire(&work, lease, &self.table, marked).await?;
        work.commit().await.map(|()| answer)
    }

    /// Gives back what was marked and not settled. Answers whether the table takes it back; if not, it is the next
    /// owner's.
    async fn give_back(&self, turn: &mut Guard<'_>, name: &str, epoch: Epoch) -> Result<bool> {
        let work = turn.begin().await?;
        match load::give_back(&work, &self.sql, name, epoch).await {
            Err(error) if error.code() == Code::RowRefused => Ok(false),
            given_back => {
                given_back?;
                work.commit().await.map(|()| true)
            }
        }
    }

    /// Releases the locks of rows that are not in the session any more.
    async fn let_go(&self) {
        if self.sql.lock.is_some() {
            self.holders.let_go(|| self.with_rows(|known| known.claims())).await;
        }
    }

    async fn fetch(&self, positions: &[Position], bytes_max: usize, purpose: Purpose) -> Result<Fetched> {
        let _handout = self.session.handout.lock().await;
        let mut turn = self.reader.lock().await?;
        self.check_server(&mut turn)?;
        fetch::fetch(self, &mut turn, positions, bytes_max, purpose).await
    }
}

impl fmt::Debug for PostgresRowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresRowStore").field(&self.0.config).field(&self.0.table).finish()
    }
}

impl Store for PostgresRowStore {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let server = turn.incarnation()?;
            let work = turn.begin().await?;
            let created = admin::subscribe(&work, &self.0, &name, start, &server).await?;
            work.commit().await.map(|()| created)
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
                self.0.holders.clear().await;
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
            self.0.holders.clear().await;
            let mut turn = self.0.settler.lock().await?;
            let mut is_clean = clean;
            if turn.lease_taken_on(&name) == Some(turn.incarnation()?) {
                is_clean &= self.0.give_back(&mut turn, &name, epoch).await?;
            }
            lease::release(&mut turn, &name, epoch, is_clean).await
        })
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        Box::new(claim::RowClaimer::new(self.0.clone(), progress))
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
            let settled = settle::settle(&self.0, &mut turn, &settlement).await;
            // A renewal of the lease must not wait for the locks to be let go.
            drop(turn);
            self.0.let_go().await;
            settled
        })
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(
            async move { operator::pause(&mut self.0.settler.lock().await?, &name, reason.as_deref()).await },
        )
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move {
            operator::pause_as_owner(&mut self.0.settler.lock().await?, &name, epoch, &reason).await
        })
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(
            async move { operator::halt(&mut self.0.settler.lock().await?, &name, epoch, &reason).await },
        )
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut turn = self.0.settler.lock().await?;
            let server = turn.incarnation()?;
            let work = turn.begin().await?;
            admin::accept_history(&work, &self.0, &name, start, &server).await?;
            work.commit().await
        })
    }

    fn purge(&self, trim: Purge) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(async move {
            let mut turn = self.0.cleaner.lock().await?;
            maintain::trim(&mut turn, &self.0.sql, &self.0.table, &trim).await
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
            overview::overview(&turn.begin_read().await?, &self.0, backlog_max).await
        })
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        self.0.config.listens().then(|| Box::new(wake::Listener::new(self.0.config.clone())) as _)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Rows { settler, reader, claimer, marker, cleaner, .. } = &*self.0;
            _ = tokio::join!(
                settler.close(),
                reader.close(),
                claimer.close(),
                marker.close(),
                cleaner.close(),
                self.0.holders.clear()
            );
        })
    }
}
