//! The store on PostgreSQL 14 and later.
//!
//! One connection settles, one reads parked events again, one deletes delivered events, and every claimer has another,
//! so that reading ahead and settling never wait for each other. Creating or moving a subscription may take a while and
//! uses a separate connection. A lost connection is reopened by the next operation; leases taken over the lost one are
//! refused, and the relay loads its subscriptions again. Behind a transaction pooler all of it works without session
//! state; see [`Pooler`].
//!
//! Writers are not slowed down: the table has one index, no lock conflicts with theirs, and an open transaction delays
//! only its own events. Times come from the database's clock.

mod address;
mod admin;
mod audit;
mod adopt;
mod begin;
mod claim;
mod connect;
mod connection;
mod deferred;
mod event_counts;
mod event_facts;
mod failure;
mod history;
mod inbox;
mod lease;
mod list;
mod log_tx;
mod migrate;
mod notify;
mod operate;
mod page;
mod park;
mod pooler;
mod progress;
mod open_transactions;
mod relays;
mod replay;
mod roles;
mod row;
mod row_state;
mod session;
mod settle;
mod shape;
mod statement;
mod takeover;
mod time;
#[cfg(feature = "postgres-tls")]
mod tls;
mod views;
mod wake;
mod writers;

use std::fmt;
use std::sync::Arc;

pub use connect::PostgresConfig;
#[doc(hidden)]
pub use failure::{commit_failed, failed as statement_failed};
pub use notify::PostgresNotifier;
pub use pooler::Pooler;
#[doc(hidden)]
pub use pooler::{BEGIN_GUARDED, GUARD};
pub use row_state::PostgresRowStore;

use self::history::Incarnation;
use self::session::{Access, Sharing, read_transaction};
use self::shape::SHAPE;
use super::audit_tx::NewAudit;
use super::connection::{StoreConnections, again_if_cut};
use super::event_facts::{EVENT_BYTES_MAX, ReadEvent};
use super::log_tx::LogTx as _;
use super::subscription_tx;
use super::takeover::acquire;
use super::{
    Acquired, AsyncStore, Claimer, CountBy, Epoch, EventCounts, EventFilter, Fetched, InboxPurge,
    InboxPurged, LeaseRequest, ListedEvent, Loaded, Migrated, Migration, Overview, Purge, Purged,
    RelayReport, Renewed, Schema, Settled, Settlement, Start, Wakes,
};
use crate::ledger::Progress;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, InboxItem, InboxKind,
    InboxRead, ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch,
    SubscriptionChange, SubscriptionPlan, explain::EventFacts,
};
use crate::{Ident, Inbox, Outbox, Position, Result};

/// An outbox in a PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore(Arc<StoreConnections<PostgresConfig>>);

impl PostgresStore {
    /// Creates the schema if it does not exist, and applies the migrations that it lacks. Safe to run again, and in
    /// several processes at once. One transaction: if the process dies, nothing was changed.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`](crate::Code::SchemaNewer) if a newer Postrider has migrated the database; then
    /// nothing was changed.
    pub async fn migrate(config: &PostgresConfig) -> Result<Migrated> {
        let mut session = config.connect_unchecked().await?;
        migrate::migrate(&mut session, config.schema_name()).await
    }

    /// The schema a database has and the one this program needs. Creates and changes nothing.
    ///
    /// # Errors
    /// The database's error.
    pub async fn schema(config: &PostgresConfig) -> Result<Schema> {
        let session = config.connect_unchecked().await?;
        let client = &session.client;
        read_transaction(client, migrate::schema(client, config.schema_name())).await
    }

    /// Every migration, oldest first, to be run with another tool in a schema of this name.
    pub fn migrations(schema: &Ident) -> impl Iterator<Item = Migration> {
        migrate::all(schema)
    }

    /// The SQL that creates roles with only the rights each needs: `SCHEMA_writer`, `SCHEMA_relay`, `SCHEMA_inbox`,
    /// `SCHEMA_viewer`, `SCHEMA_operator` and `SCHEMA_migrator`. Run it after the migrations; it is safe to run again.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if the schema's name leaves no room for theirs.
    pub fn roles(schema: &Ident) -> Result<String> {
        roles::roles(schema)
    }

    /// The newest events that match a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// The database's error.
    pub async fn list(config: &PostgresConfig, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::list(&client, config.schema_name(), filter)).await
    }

    /// The database's query plan for [`list`](Self::list).
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub async fn list_plan(config: &PostgresConfig, filter: &EventFilter) -> Result<Vec<String>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::plan(&client, config.schema_name(), filter)).await
    }

    /// Creates or replaces the views in a migrated database: `vw_outbox`, `vw_outbox_due`,
    /// `vw_outbox_metrics`, `vw_outbox_throughput_hourly` and `vw_outbox_backlog`. All of them or none.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn create_views(config: &PostgresConfig) -> Result<()> {
        views::create(&mut config.connect_unchecked().await?, config.schema_name()).await
    }

    /// Events counted by type, hour or producer, per subscription, in at most `groups_max` groups. Reads every event
    /// and changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn count_events(
        config: &PostgresConfig,
        by: CountBy,
        groups_max: usize,
    ) -> Result<EventCounts> {
        let (client, events) = (config.connect().await?.client, views::events(config.schema_name()));
        read_transaction(&client, event_counts::count_events(&client, by, groups_max, &events)).await
    }

    /// Connects to a migrated database. The other connections are opened when they are needed.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the schema does not exist or is older than this
    /// program's, `SchemaNewer` if it is newer, `SchemaAltered` if positions would not be trustworthy,
    /// `LoginRefused`, `ServerTooOld`, and `StoreReadOnly` on a standby. Nothing was changed.
    pub async fn connect(config: &PostgresConfig) -> Result<Self> {
        let store = Self::unconnected(config);
        store.0.settler.lock().await?;
        Ok(store)
    }

    /// A writer for this outbox, with the schema of the store. It holds no connection. Set other options, such as the
    /// [`namespace`](Outbox::namespace), on it.
    pub fn outbox(&self) -> Outbox {
        Outbox::new().schema(self.0.config.schema_name().clone())
    }

    /// The inbox in the same database as this outbox, for consumers in the same database. It holds no connection. Set the
    /// [`retention`](Inbox::retention) on it.
    pub fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.0.config.schema_name().clone())
    }

    /// Closes the connections after the calls in progress; later calls fail. Call it after the last relay on the store
    /// has shut down. If the store is dropped without it, the connections are closed a little later.
    pub async fn close(&self) {
        self.0.close().await;
    }

    /// A store for a database that may be unreachable now: every connection is opened when it is needed, and checked
    /// then as [`connect`](Self::connect) does. A relay waits for such a database.
    pub fn unconnected(config: &PostgresConfig) -> Self {
        Self(Arc::new(StoreConnections::new(config)))
    }

    /// Reads one event to explain it.
    async fn read_event(&self, position: Position) -> Result<ReadEvent> {
        let fetched = AsyncStore::fetch(self, vec![position], EVENT_BYTES_MAX).await?;
        Ok(ReadEvent::of(position, fetched))
    }

    /// Whether the connection is treated as one through a transaction pooler; see [`Pooler`].
    ///
    /// # Errors
    /// The database's error, if a new connection must be opened.
    #[doc(hidden)]
    pub async fn is_pooled(&self) -> Result<bool> {
        Ok(self.0.settler.lock().await?.sharing()? == Sharing::Pooled)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.0.config).finish()
    }
}

impl AsyncStore for PostgresStore {
    async fn subscribe(&self, name: String, start: Start) -> Result<bool> {
        // A relay calls this at every start, and usually the subscription exists: that needs no extra connection.
        if admin::is_known(&mut self.0.settler.lock().await?, &name).await? {
            return Ok(false);
        }
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin(Access::Writes).await?;
        let created = subscription_tx::subscribe(&mut tx, &name, start).await?;
        tx.commit().await.map(|()| created)
    }

    async fn acquire(&self, lease: LeaseRequest) -> Result<Acquired> {
        let mut conn = self.0.settler.lock().await?;
        let reached = conn.reached(&lease.subscription);
        let mut tx = conn.begin().await?;
        let takeover = acquire(&mut tx, &lease, self.0.config.options().after_failover, reached).await?;
        tx.commit().await?;
        conn.remember(&lease.subscription, takeover)
    }

    async fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        let mut conn = self.0.settler.lock().await?;
        conn.check_lease(&lease.subscription)?;
        let renewed = lease::renew(&mut conn, &lease, epoch).await?;
        shape::check(&conn.read(SHAPE, &[]).await?)?;
        Ok(renewed)
    }

    async fn release(&self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        let release =
            || async { lease::release(&mut self.0.settler.lock().await?, &name, epoch, clean).await };
        // A second try is harmless: it finds no lease of this epoch. Without it, every relay would wait until the lease
        // expires.
        again_if_cut(release(), release()).await
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        let server = self.0.settler.server();
        Box::new(claim::PostgresClaimer::new(self.0.config.clone(), server, progress))
    }

    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        let server = loaded.origin.clone().map(Incarnation::from);
        Box::new(claim::PostgresClaimer::new(self.0.config.clone(), server, &loaded.progress))
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> Result<Fetched> {
        let mut conn = self.0.reader.lock_beside(&self.0.settler).await?;
        page::fetch(&mut conn, &positions, bytes_max).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let mut conn = self.0.settler.lock().await?;
        let settling = conn.settling(&settlement)?;
        let settled = settle::settle(&mut conn, settlement).await?;
        conn.remember_settled(settling, settled);
        Ok(settled)
    }

    async fn pause(&self, name: String, reason: Option<String>) -> Result<()> {
        admin::pause(&mut self.0.settler.lock().await?, &name, reason.as_deref()).await
    }

    async fn pause_as_owner(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        admin::pause_as_owner(&mut self.0.settler.lock().await?, &name, epoch, &reason).await
    }

    async fn halt(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        admin::halt(&mut self.0.settler.lock().await?, &name, epoch, &reason).await
    }

    async fn accept_history(&self, name: String, start: Start) -> Result<()> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin(Access::Writes).await?;
        subscription_tx::accept_history(&mut tx, &name, start).await?;
        tx.commit().await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged> {
        let mut conn = self.0.cleaner.lock().await?;
        let mut tx = conn.begin().await?;
        let purged = super::log_tx::purge(&mut tx, &purge).await?;
        tx.commit().await.map(|()| purged)
    }

    async fn purge_inbox(&self, purge: InboxPurge) -> Result<InboxPurged> {
        inbox::purge(&mut self.0.cleaner.lock().await?, &purge).await
    }

    /// Not over the connection that renews leases: a slow report must not delay a renewal.
    async fn report(&self, report: RelayReport) -> Result<()> {
        relays::record(&mut self.0.cleaner.lock().await?, &report).await
    }

    async fn overview(&self, backlog_max: u64) -> Result<Overview> {
        let mut conn = self.0.reader.lock().await?;
        super::log_tx::overview(&mut conn.begin_read().await?, backlog_max).await
    }

    async fn subscription_names(&self) -> Result<Vec<String>> {
        self.0.reader.lock().await?.begin_read().await?.subscriptions().await
    }

    async fn list_parked(&self, query: ParkedQuery) -> Result<Vec<ParkedItem>> {
        operate::list(&self.0.reader.lock().await?.begin_read().await?, &query).await
    }

    async fn count_parked(&self, query: ParkedQuery) -> Result<u64> {
        operate::count(&self.0.reader.lock().await?.begin_read().await?, &query).await
    }

    async fn change_parked(&self, change: ParkedChange) -> Result<ParkedChanged> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let changed = super::parked_tx::change(&mut tx, &change).await?;
        tx.commit().await.map(|()| changed)
    }

    async fn clean_up(&self, batch: CleanupBatch) -> Result<Purged> {
        let mut conn = self.0.cleaner.lock().await?;
        let mut tx = conn.begin().await?;
        let purged = super::cleanup_tx::clean_up(&mut tx, &batch).await?;
        tx.commit().await.map(|()| purged)
    }

    async fn replay(&self, batch: ReplayBatch) -> Result<ReplayedBatch> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = if batch.audit.is_some() { conn.begin().await? } else { conn.begin_read().await? };
        let replayed = super::replay_tx::replay(&mut tx, &batch).await?;
        tx.commit().await.map(|()| replayed)
    }

    async fn read_inbox(&self, read: InboxRead) -> Result<Vec<InboxItem>> {
        if read.table != InboxKind::Inbox {
            return Ok(Vec::new());
        }
        inbox::read(&self.0.reader.lock().await?.begin_read().await?, &read).await
    }

    async fn pause_audited(&self, name: String, reason: Option<String>, audit: AuditRecord) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let tx = conn.begin().await?;
        admin::pause_in(&tx, &name, reason.as_deref()).await?;
        audit::insert(&tx, NewAudit::of(&name, &audit)).await?;
        tx.commit().await
    }

    async fn note_audit(&self, name: String, audit: AuditRecord) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let tx = conn.begin().await?;
        audit::insert(&tx, NewAudit::of(&name, &audit)).await?;
        tx.commit().await
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        // A relay asks at its start, when it has only this connection.
        audit::list(&self.0.settler.lock().await?.begin_read().await?, &query).await
    }

    async fn find_audit(&self, search: AuditSearch) -> Result<Vec<AuditEntry>> {
        super::audit_tx::find(&mut self.0.reader.lock().await?.begin_read().await?, &search).await
    }

    async fn plan_subscription(&self, name: String, start: Start) -> Result<SubscriptionPlan> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin(Access::Reads).await?;
        super::subscription_tx::plan(&mut tx, &name, start).await
    }

    async fn change_subscription(&self, change: SubscriptionChange) -> Result<bool> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin(Access::Writes).await?;
        let changed = super::subscription_tx::change(&mut tx, &change).await?;
        tx.commit().await.map(|()| changed)
    }

    async fn event_facts(&self, sought: EventSelector) -> Result<EventFacts> {
        match &sought {
            EventSelector::Event(event) => {
                let position =
                    super::event_facts::find(&mut self.0.reader.lock().await?.begin_read().await?, event)
                        .await?;
                let read = match position {
                    Some(position) => Some(self.read_event(position).await?),
                    None => None,
                };
                let mut conn = self.0.reader.lock().await?;
                super::event_facts::about_event(&mut conn.begin_read().await?, event, read).await
            }
            EventSelector::Key(key) => {
                let found =
                    super::event_facts::of_key(&mut self.0.reader.lock().await?.begin_read().await?, key)
                        .await?;
                let mut events = Vec::new();
                for (name, position) in found {
                    events.push((name, self.read_event(position).await?));
                }
                let mut conn = self.0.reader.lock().await?;
                super::event_facts::about_key(&mut conn.begin_read().await?, events).await
            }
        }
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        self.0.config.listens().then(|| Box::new(wake::Listener::new(self.0.config.clone())) as _)
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}
