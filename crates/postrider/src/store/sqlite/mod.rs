//! The store on a SQLite file.
//!
//! There are two connections, each with a separate thread: one reads ahead, the other settles. In WAL mode neither
//! waits for the other. Applications may write to the file with any driver meanwhile.
//!
//! The settling connection uses `synchronous = FULL`: its commits survive a power failure, because an epoch must never
//! be assigned twice, and a parked row must not be lost. The durability of an event depends on the connection that
//! writes it: with `synchronous = NORMAL`, a power failure may remove an event that was already published.
//!
//! The file must be on a local disk. Its clock is this machine's, with a resolution of milliseconds.

mod admin;
mod audit;
mod adopt;
mod claim;
mod cleanup;
mod event_counts;
mod event_facts;
mod failure;
mod file;
mod history;
mod inbox;
mod lease;
mod ledger;
mod list;
mod lock;
mod log_tx;
mod migrate;
mod operate;
mod park;
mod progress;
mod relays;
mod replay;
mod row;
mod row_state;
mod session_lock;
mod settle;
mod views;
mod worker;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

pub use row_state::SqliteRowStore;

use self::failure::Attempt;
use self::file::Source;
use self::ledger::Ledger;
use self::lock::wait_for_lock;
use self::worker::{Worker, in_transaction};
use super::audit_tx::NewAudit;
use super::{
    Acquired, AsyncStore, Claimer, CountBy, Epoch, EventCounts, EventFilter, Fetched, InboxPurge,
    InboxPurged, LeaseRequest, ListedEvent, Migrated, Migration, Overview, Purge, Purged, RelayReport,
    Renewed, Schema, Settled, Settlement, Start,
};
use crate::ledger::{KnownRows, Progress, SettledChange};
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, InboxItem, InboxRead,
    ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch, SubscriptionChange,
    SubscriptionPlan, explain::EventFacts,
};
use crate::{Code, Error, Inbox, Outbox, Position, Result, StoredEvent};

/// An outbox in a SQLite file. Clones share its connections.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    reader: Worker,
    writer: Worker,
    /// The parked rows of subscriptions whose leases were taken here, by name.
    known: Known,
}

/// The parked rows as their owners know them. Used only by the writing thread, within its transactions.
#[derive(Debug, Clone, Default)]
struct Known(Arc<Mutex<HashMap<String, KnownRows>>>);

impl Known {
    fn of(&self, subscription: &str) -> KnownRows {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(subscription).cloned().unwrap_or_default()
    }

    fn take(&self, subscription: &str) -> Option<KnownRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(subscription)
    }

    fn set(&self, subscription: &str, rows: KnownRows) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(subscription.to_owned(), rows);
    }
}

impl SqliteStore {
    /// Creates the file if it does not exist, and applies the migrations that it lacks, all of them or none. Safe to
    /// run again, and in several processes at once. Blocks the calling thread.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`] if a newer Postrider has migrated the file; then nothing was changed.
    pub fn migrate(path: impl AsRef<Path>) -> Result<Migrated> {
        let mut connection = connect_or_create(path.as_ref())?;
        Ok(migrate::migrate(&mut connection)?)
    }

    /// Creates or replaces the views in a migrated file: `postrider_vw_outbox`, and the same with `_due`, `_metrics`,
    /// `_throughput_hourly` and `_backlog`. All of them or none. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn create_views(path: impl AsRef<Path>) -> Result<()> {
        Ok(views::create(&mut Self::connect(path)?)?)
    }

    /// Events counted by type, hour or producer, per subscription, in at most `groups_max` groups. Reads every event
    /// and changes nothing. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn count_events(path: impl AsRef<Path>, by: CountBy, groups_max: usize) -> Result<EventCounts> {
        let connection = Self::connect_read_only(path)?;
        migrate::check(&connection)?;
        Ok(event_counts::count_events(&connection, by, groups_max, &views::events())?)
    }

    /// Opens a migrated file. Blocks the calling thread while it opens two connections.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`] if the file does not exist or its schema is older than this program's,
    /// [`Code::SchemaNewer`] if it is newer. Nothing was changed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let writer = Worker::start("postrider-settle", Source::new(path, |path| Self::connect(path)))?;
        let reader = Source::new(path, |path| Self::connect_read_only(path));
        Ok(Self { reader: Worker::start("postrider-read", reader)?, writer, known: Known::default() })
    }

    /// A writer for this outbox. It holds no connection. Set options, such as the [`namespace`](Outbox::namespace), on
    /// it.
    pub fn outbox(&self) -> Outbox {
        Outbox::new()
    }

    /// The inbox in the same database as this outbox, for consumers in the same database. It holds no connection. Set the
    /// [`retention`](Inbox::retention) on it.
    pub fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    /// Closes the connections after the calls in progress; later calls fail. Call it after the last relay on the store
    /// has shut down. If the store is dropped without it, the connections are closed a little later.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    /// A connection for the caller to a migrated file, to write events: it waits for locks as the store does, and its
    /// commits survive a power failure.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Connection> {
        refuse_missing(path.as_ref())?;
        let connection = connect(path.as_ref(), OpenFlags::empty())?;
        migrate::check(&connection)?;
        Ok(connection)
    }

    /// The schema a file has and the one this program needs. Creates and changes nothing.
    ///
    /// # Errors
    /// The database's error. A file that does not exist has schema 0.
    pub fn schema(path: impl AsRef<Path>) -> Result<Schema> {
        let connection = path.as_ref().exists().then(|| Self::connect_read_only(path)).transpose()?;
        Ok(migrate::schema(connection.as_ref())?)
    }

    /// The triggers on the tables of the outbox. Blocks the calling thread.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub fn triggers(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Ok(migrate::triggers(&Self::connect_read_only(path)?)?)
    }

    /// Every migration, oldest first, to be run with another tool.
    pub fn migrations() -> impl Iterator<Item = Migration> {
        migrate::all()
    }

    /// A connection that only reads, to a file with or without Postrider's tables. Writers may use the file meanwhile,
    /// and the disk may be read-only. If no other process uses the file, the connection leaves no files next to it.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`] if the file does not exist, or the database's error.
    #[doc(hidden)]
    pub fn connect_read_only(path: impl AsRef<Path>) -> Result<Connection> {
        let path = path.as_ref();
        refuse_missing(path)?;
        // Opened for writing nevertheless: a connection that can only read cannot remove the WAL when it is closed. If
        // the file cannot be written, SQLite opens it for reading.
        let connection = connect(path, OpenFlags::empty()).or_else(|refused| {
            let mut wal = path.as_os_str().to_owned();
            wal.push("-wal");
            // The shared memory of the WAL cannot be created next to the file. If there is no WAL, no process is
            // writing, and none can on such a disk: the file is then read as immutable.
            match refused.code() {
                Code::StoreFailed | Code::StoreReadOnly if !Path::new(&wal).exists() => {
                    connect_immutable(path).map_err(|_| refused)
                }
                _ => Err(refused),
            }
        })?;
        set(&connection, "query_only", "ON")?;
        Ok(connection)
    }

    /// As [`Store::overview`](super::Store::overview), from a file that may be on a read-only disk. Blocks the calling
    /// thread.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn read_overview(path: impl AsRef<Path>, backlog_max: u64) -> Result<Overview> {
        let mut connection = Self::connect_read_only(path)?;
        migrate::check(&connection)?;
        let overview = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            log_tx::overview(snapshot, backlog_max)
        });
        Ok(overview?)
    }

    /// All events that a connection sees, by position, also those that its open transaction has written. Blocks the calling
    /// thread.
    ///
    /// # Errors
    /// Errors of the database, and [`Code::RowDamaged`] if a row cannot be read.
    #[doc(hidden)]
    pub fn read_events(connection: &Connection) -> Result<Vec<StoredEvent>> {
        Ok(claim::read_all(connection)?)
    }

    /// The newest events that match a filter, newest first, from a file that may be on a read-only disk. Blocks the
    /// calling thread.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and [`Code::LayoutDiffers`] if the filter has a state.
    pub fn list(path: impl AsRef<Path>, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        let mut connection = Self::connect_read_only(path)?;
        migrate::check(&connection)?;
        let found = in_transaction(&mut connection, TransactionBehavior::Deferred, |snapshot| {
            list::list(snapshot, filter)
        });
        Ok(found?)
    }

    /// The database's query plan for [`list`](Self::list).
    ///
    /// # Errors
    /// As [`SqliteStore::list`].
    #[doc(hidden)]
    pub fn list_plan(path: impl AsRef<Path>, filter: &EventFilter) -> Result<Vec<String>> {
        let connection = Self::connect_read_only(path)?;
        migrate::check(&connection)?;
        Ok(list::plan(&connection, filter)?)
    }
}

fn refuse_missing(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::new(Code::SchemaMissing, format!("there is no file {}", path.display())))
}

fn connect_immutable(path: &Path) -> Result<Connection> {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let url = format!("file:{escaped}?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let open = || -> Attempt<Connection> {
        let connection = Connection::open_with_flags(url, flags)?;
        harden(&connection)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    Ok(open()?)
}

fn connect(path: &Path, extra: OpenFlags) -> Result<Connection> {
    let open = || -> Attempt<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(wait_for_lock))?;
        harden(&connection)?;
        set(&connection, "synchronous", "FULL")?;
        Ok(connection)
    };
    open().map_err(|failure| {
        let cause = Error::from(failure);
        Error::new(cause.code(), format!("cannot open {}", path.display()))
            .with_effect("nothing was read or changed")
            .with_hint("check the file and its folder: SQLite writes to both")
            .with_source(cause)
    })
}

/// Creates the file if it does not exist, with access only for its owner: events may contain anything. SQLite gives its
/// other files the same permissions.
fn connect_or_create(path: &Path) -> Result<Connection> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // If this fails, the call below fails with a better error.
        let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    }
    connect(path, OpenFlags::SQLITE_OPEN_CREATE)
}

/// Hardens a connection against the content of the file: a user who can write to it can add views, triggers and virtual
/// tables. They cannot call functions with side effects, and no statement can corrupt the file.
fn harden(connection: &Connection) -> Attempt<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
}

fn set(connection: &Connection, pragma: &str, value: &str) -> Attempt<()> {
    Ok(connection.pragma_update(None, pragma, value)?)
}

impl AsyncStore for SqliteStore {
    async fn subscribe(&self, name: String, start: Start) -> Result<bool> {
        self.writer.write(move |tx| admin::subscribe(tx, &name, start)).await
    }

    async fn acquire(&self, lease: LeaseRequest) -> Result<Acquired> {
        let known = self.known.clone();
        let operation = move |tx: &mut Connection| {
            let (acquired, rows) = lease::acquire(tx, &lease)?;
            rows.into_iter().for_each(|rows| known.set(&lease.subscription, rows));
            Ok(acquired)
        };
        self.writer.write(operation).await
    }

    async fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        let known = self.known.clone();
        let operation = move |tx: &mut Connection| {
            let known = known.of(&lease.subscription);
            let renewed = lease::renew(tx, Ledger::Log, &lease, epoch)?;
            let Renewed::Held { paused, .. } = renewed else { return Ok(renewed) };
            let parked_changed = match known.rows_to_compare(epoch) {
                Some(rows_max) => known.differ(epoch, &park::seals(tx, &lease.subscription, rows_max)?),
                None => false,
            };
            Ok(Renewed::Held { paused, parked_changed })
        };
        self.writer.write(operation).await
    }

    async fn release(&self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        self.writer.write(move |tx| lease::release(tx, Ledger::Log, &name, epoch, clean)).await
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        Box::new(claim::SqliteClaimer::new(self.reader.clone(), progress))
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> Result<Fetched> {
        self.reader.read(move |snapshot| claim::fetch(snapshot, &positions, bytes_max)).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let (known, name) = (self.known.clone(), settlement.subscription.clone());
        let before = Known::default();
        let undo = before.clone();
        let operation = move |tx: &mut Connection| {
            let (mut rows, change) = (known.of(&settlement.subscription), SettledChange::of(&settlement));
            let name = settlement.subscription.clone();
            let settled = settle::settle(tx, settlement, &rows)?;
            if settled != Settled::Fenced {
                undo.set(&name, rows.clone());
                rows.settle(change);
                known.set(&name, rows);
            }
            Ok(settled)
        };
        let settled = self.writer.write(operation).await;
        if settled.is_err() {
            // The settle was not committed.
            before.take(&name).into_iter().for_each(|rows| self.known.set(&name, rows));
        }
        settled
    }

    async fn pause(&self, name: String, reason: Option<String>) -> Result<()> {
        self.writer.write(move |tx| admin::pause(tx, Ledger::Log, &name, reason.as_deref())).await
    }

    async fn pause_as_owner(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.writer.write(move |tx| admin::pause_as_owner(tx, Ledger::Log, &name, epoch, &reason)).await
    }

    async fn halt(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.writer.write(move |tx| admin::halt(tx, Ledger::Log, &name, epoch, &reason)).await
    }

    async fn accept_history(&self, name: String, start: Start) -> Result<()> {
        self.writer.write(move |tx| admin::accept_history(tx, &name, start)).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged> {
        self.writer.write(move |tx| log_tx::purge(tx, &purge)).await
    }

    async fn purge_inbox(&self, purge: InboxPurge) -> Result<InboxPurged> {
        self.writer.write(move |tx| inbox::purge(tx, &purge)).await
    }

    async fn report(&self, report: RelayReport) -> Result<()> {
        self.writer.write(move |tx| relays::record(tx, Ledger::Log, &report)).await
    }

    async fn overview(&self, backlog_max: u64) -> Result<Overview> {
        self.reader.read(move |snapshot| log_tx::overview(snapshot, backlog_max)).await
    }

    async fn subscription_names(&self) -> Result<Vec<String>> {
        self.reader.read(log_tx::subscriptions).await
    }

    async fn list_parked(&self, query: ParkedQuery) -> Result<Vec<ParkedItem>> {
        self.reader.read(move |snapshot| operate::list(snapshot, &query)).await
    }

    async fn count_parked(&self, query: ParkedQuery) -> Result<u64> {
        self.reader.read(move |snapshot| operate::count(snapshot, &query)).await
    }

    async fn change_parked(&self, change: ParkedChange) -> Result<ParkedChanged> {
        self.writer.write(move |tx| operate::change_parked(tx, &change)).await
    }

    async fn clean_up(&self, batch: CleanupBatch) -> Result<Purged> {
        cleanup::run(self, batch).await
    }

    async fn replay(&self, batch: ReplayBatch) -> Result<ReplayedBatch> {
        replay::run(self, batch).await
    }

    async fn read_inbox(&self, read: InboxRead) -> Result<Vec<InboxItem>> {
        self.reader.read(move |snapshot| inbox::read(snapshot, &read)).await
    }

    async fn pause_audited(&self, name: String, reason: Option<String>, audit: AuditRecord) -> Result<()> {
        let operation = move |tx: &mut Connection| {
            admin::pause(tx, Ledger::Log, &name, reason.as_deref())?;
            audit::insert(tx, NewAudit::of(&name, &audit))
        };
        self.writer.write(operation).await
    }

    async fn note_audit(&self, name: String, audit: AuditRecord) -> Result<()> {
        self.writer.write(move |tx| audit::insert(tx, NewAudit::of(&name, &audit))).await
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        self.reader.read(move |snapshot| audit::list(snapshot, &query)).await
    }

    async fn find_audit(&self, search: AuditSearch) -> Result<Vec<AuditEntry>> {
        self.reader.read(move |snapshot| event_facts::find_audit(snapshot, &search)).await
    }

    async fn plan_subscription(&self, name: String, start: Start) -> Result<SubscriptionPlan> {
        self.reader.read(move |snapshot| admin::plan(snapshot, &name, start)).await
    }

    async fn change_subscription(&self, change: SubscriptionChange) -> Result<bool> {
        self.writer.write(move |tx| admin::change(tx, &change)).await
    }

    async fn event_facts(&self, sought: EventSelector) -> Result<EventFacts> {
        self.reader.read(move |snapshot| event_facts::facts(snapshot, &sought)).await
    }

    /// If no other process uses the file, the WAL is checkpointed and removed.
    async fn close(&self) {
        Self::close(self).await;
    }
}
