//! The store of a table with a state per row in a SQLite file: `outbox_events`, or anybody's by a map.
//!
//! Lease, fence, pause and threads are those of the default layout; what is particular is how due rows are found,
//! marked, settled and cleaned. What knows no database is shared with the other stores. See
//! adr/0020-row-state-store.md. Postrider's own tables are in the same file.

mod admin;
mod adopt;
mod claim;
mod custom;
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

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::sql::Names;
use super::ledger::Ledger;
use super::worker::{Worker, in_transaction};
use super::{
    SqliteStore, admin as operator, connect, connect_or_create, lease, refuse_missing, relays,
    tally as counted,
};
use crate::layout::{Difference, RowTable};
use crate::ledger::Progress;
use crate::store::row_state::handout::{Purpose, Recall};
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, Which};
use crate::store::row_state::refused::{self, MarkedRows, Marking, Pieces};
use crate::store::row_state::session::RowSession;
use crate::store::row_state::session_rows::{RowId, SessionRows};
use crate::store::{
    Acquired, Budget, Claimer, Epoch, EventFilter, Fetched, LeaseRequest, ListedEvent, Migration, Overview,
    Purge, Purged, RelayReport, Renewed, RowExtras, RowsMigrated, Schema, Settled, Settlement, Start, Store,
    Tally, TallyBy,
};
use crate::{BoxFuture, Code, Ident, Position, Result};

/// An outbox in a table with a state per row, in a SQLite file. Clones share its connections.
#[derive(Clone)]
pub struct SqliteRowStore(Arc<Rows>);

struct Rows {
    names: Arc<Names>,
    reader: Worker,
    writer: Worker,
    session: RowSession,
}

/// The table as it is called here: a file has one schema.
fn here(table: &RowTable) -> Result<RowTable> {
    Ok(table.clone().in_schema(Ident::new("main")?))
}

impl SqliteRowStore {
    /// Makes the file and the table of the layout if there are none, and Postrider's own tables beside it. A table that
    /// is there is compared and never altered; the file is switched to WAL. Safe to run again; all of it happens or none.
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the table cannot be worked on, the file holds another outbox, or
    /// the layout is not for SQLite. Nothing was changed.
    pub fn migrate(path: impl AsRef<Path>, table: &RowTable, extras: RowExtras) -> Result<RowsMigrated> {
        let table = here(table)?;
        if migrate::shape(&table)?.is_none() {
            // Nobody's table is in a file that is not there.
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
    /// What the database says.
    pub fn differences(path: impl AsRef<Path>, table: &RowTable) -> Result<Vec<Difference>> {
        Ok(migrate::differences(&SqliteStore::connect_read_only(path)?, &here(table)?)?)
    }

    /// How many rows somebody else has marked as being published, be it now or before a crash. Changes nothing.
    ///
    /// # Errors
    /// [`SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there.
    pub fn foreign_claims(path: impl AsRef<Path>, table: &RowTable) -> Result<u64> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &here(table)?)?;
        let count = || -> super::failure::Attempt<i64> {
            let Some(marks) = &names.sql.marks else { return Ok(0) };
            Ok(connection.query_row(&names.put_into(marks.foreign), [], |row| row.get(1))?)
        };
        Ok(count()?.unsigned_abs())
    }

    /// The version of Postrider's own tables, and the one this program needs. Changes nothing.
    ///
    /// # Errors
    /// What the database says. A file that is not there has version 0.
    pub fn schema(path: impl AsRef<Path>) -> Result<Schema> {
        let connection = path.as_ref().exists().then(|| SqliteStore::connect_read_only(path)).transpose()?;
        Ok(migrate::schema(connection.as_ref())?)
    }

    /// Every migration, oldest first, for those who run them with a tool of their own.
    ///
    /// # Errors
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the layout is not for SQLite.
    pub fn migrations(table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
        migrate::all(&here(table)?, extras)
    }

    /// Rows counted by type, hour or producer: `groups_max` groups at most. Reads the whole table, and changes nothing.
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn tally(path: impl AsRef<Path>, table: &RowTable, by: TallyBy, groups_max: usize) -> Result<Tally> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &here(table)?)?;
        Ok(counted::tally(&connection, by, groups_max, &names.put_into(tally::events(names.table.layout)))?)
    }

    /// Opens a file that was migrated. Blocks the calling thread for the time of two opens.
    ///
    /// # Errors
    /// [`SchemaMissing`](crate::Code::SchemaMissing) if Postrider's own tables are not there,
    /// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the table cannot be worked on.
    pub fn open(path: impl AsRef<Path>, table: &RowTable) -> Result<Self> {
        let (writer, names) = open(path.as_ref(), table)?;
        let reader = SqliteStore::connect_read_only(path)?;
        Ok(Self(Arc::new(Rows {
            names: Arc::new(names),
            reader: Worker::start("postrider-read", reader)?,
            writer: Worker::start("postrider-settle", writer)?,
            session: RowSession::default(),
        })))
    }

    /// A connection of the caller's own to a file that was migrated, to write events with: it waits for locks as the store
    /// does and keeps what it committed through a power failure.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn connect(path: impl AsRef<Path>, table: &RowTable) -> Result<Connection> {
        open(path.as_ref(), table).map(|(connection, _)| connection)
    }

    /// As [`Store::overview`], from a file that may be on a disk one can only read. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn read_overview(path: impl AsRef<Path>, table: &RowTable, backlog_max: u64) -> Result<Overview> {
        let mut connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &here(table)?)?;
        let overview = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            overview::overview(snapshot, &names, backlog_max)
        });
        Ok(overview?)
    }

    /// The newest rows that pass a filter, newest first, from a file that may be on a disk one can only read. Blocks the
    /// calling thread.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn list(path: impl AsRef<Path>, table: &RowTable, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        let mut connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &here(table)?)?;
        let found = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            list::list(snapshot, &names, filter)
        });
        Ok(found?)
    }

    /// How the database finds those rows, in its own words.
    ///
    /// # Errors
    /// As [`SqliteRowStore::open`].
    pub fn list_plan(path: impl AsRef<Path>, table: &RowTable, filter: &EventFilter) -> Result<Vec<String>> {
        let connection = SqliteStore::connect_read_only(path)?;
        let names = migrate::check(&connection, &here(table)?)?;
        Ok(list::plan(&connection, &names, filter)?)
    }
}

/// A connection that may write, and what statements have to know of the table.
fn open(path: &Path, table: &RowTable) -> Result<(Connection, Names)> {
    let table = here(table)?;
    migrate::shape(&table)?;
    refuse_missing(path)?;
    let connection = connect(path, OpenFlags::empty())?;
    let names = migrate::check(&connection, &table)?;
    Ok((connection, names))
}

impl Rows {
    /// Marks rows as being published. Answers which were won, and which their table refuses to mark.
    async fn claim(&self, epoch: Epoch, due: Vec<(RowId, i64)>) -> Result<MarkedRows> {
        let Some(marks) = self.names.sql.marks else { return Ok(MarkedRows::default()) };
        let mut marking = Marking::of(due);
        while let Some(rows) = marking.next() {
            let (names, name, due) = (self.names.clone(), self.session.subscription(), rows.clone());
            let mark = move |tx: &Connection| read::claim(tx, &names, &marks, &name, epoch, &due);
            marking.heard(rows, self.writer.write(mark).await)?;
        }
        Ok(marking.marked())
    }

    async fn acquire(
        &self,
        lease: &LeaseRequest,
        marked: StaleMarks,
    ) -> Result<(Acquired, Option<SessionRows>)> {
        let (names, lease) = (self.names.clone(), lease.clone());
        self.writer.write(move |tx| load::acquire(tx, &names, &lease, marked)).await
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize, purpose: Purpose) -> Result<Fetched> {
        let _handout = self.session.handout.lock().await;
        let (mut recall, epoch) =
            self.session.with_rows(|known| (Recall::of(known, &positions), known.epoch));
        let (ids, names) = (recall.ids(), self.names.clone());
        let budget = Budget { events_max: ids.len(), bytes_max };
        let found: Read =
            self.reader.read(move |snapshot| read::read(snapshot, &names, &ids, budget, Which::Any)).await?;
        let unclaimed = recall.cut(&found);
        let must_mark = self.names.table.marks_rows() && purpose == Purpose::HandOut;
        let won = match must_mark {
            true if unclaimed.is_empty() => Some(HashMap::new()),
            true => Some(self.claim(epoch, unclaimed).await?.claims),
            false => None,
        };
        Ok(self.session.with_rows(|known| recall.finish(known, found, won.as_ref(), purpose)))
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let _handout = self.session.handout.lock().await;
        let (epoch, plan) = self.session.with_rows(|known| (known.epoch, SettlePlan::of(&settlement, known)));
        if epoch != settlement.epoch {
            return Ok(Settled::Fenced);
        }
        let pieces = Pieces::of(&settlement.subscription, plan);
        let mut recording = settle::Recording { rows: self, settlement: &settlement };
        refused::settle(&mut recording, &self.session, pieces).await
    }
}

impl fmt::Debug for SqliteRowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteRowStore").field(&self.0.names).finish()
    }
}

impl Store for SqliteRowStore {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let (names, name) = (self.0.names.clone(), subscription.to_owned());
        Box::pin(self.0.writer.write(move |tx| admin::subscribe(tx, &names, &name, start)))
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let (acquired, known) = match self.0.acquire(&lease, StaleMarks::GiveBack).await {
                Ok(answer) => answer,
                Err(error) => {
                    let marked = StaleMarks::after(error, &lease.subscription)?;
                    self.0.acquire(&lease, marked).await?
                }
            };
            if let Some(known) = known {
                self.0.session.begin(lease.subscription, known);
            }
            Ok(acquired)
        })
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(self.0.writer.write(move |tx| lease::renew(tx, Ledger::Rows, &lease, epoch)))
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let (names, of) = (self.0.names.clone(), name.clone());
            let give_back = move |tx: &Connection| load::give_back_as_owner(tx, &names, &of, epoch);
            let is_clean = match self.0.writer.write(give_back).await {
                Ok(()) => clean,
                // What the table does not take back is the next owner's.
                Err(error) if error.code() == Code::RowRefused => false,
                Err(error) => return Err(error),
            };
            let release = move |tx: &Connection| lease::release(tx, Ledger::Rows, &name, epoch, is_clean);
            self.0.writer.write(release).await
        })
    }

    fn claimer(&self, _: &Progress) -> Box<dyn Claimer> {
        Box::new(claim::RowClaimer::new(self.0.clone()))
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(self.0.fetch(positions, bytes_max, Purpose::HandOut))
    }

    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(self.0.fetch(positions, bytes_max, Purpose::Look))
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(self.0.settle(settlement))
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(self.0.writer.write(move |tx| operator::pause(tx, Ledger::Rows, &name, reason.as_deref())))
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(
            self.0.writer.write(move |tx| operator::pause_as_owner(tx, Ledger::Rows, &name, epoch, &reason)),
        )
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(self.0.writer.write(move |tx| operator::halt(tx, Ledger::Rows, &name, epoch, &reason)))
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let (names, name) = (self.0.names.clone(), subscription.to_owned());
        Box::pin(self.0.writer.write(move |tx| admin::accept_history(tx, &names, &name, start)))
    }

    fn purge(&self, trim: Purge) -> BoxFuture<'_, Result<Purged>> {
        let names = self.0.names.clone();
        Box::pin(self.0.writer.write(move |tx| maintain::trim(tx, &names, &trim)))
    }

    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.writer.write(move |tx| relays::record(tx, Ledger::Rows, &report)))
    }

    fn row_table(&self) -> Option<&RowTable> {
        Some(&self.0.names.table)
    }

    fn trace_deliveries(&self) {
        self.0.session.trace(&self.0.names.table);
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        let names = self.0.names.clone();
        Box::pin(self.0.reader.read(move |snapshot| overview::overview(snapshot, &names, backlog_max)))
    }

    /// Leaves a file at rest behind, if nobody else uses it: the WAL is emptied and removed.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.reader.close().await;
            self.0.writer.close().await;
        })
    }
}
