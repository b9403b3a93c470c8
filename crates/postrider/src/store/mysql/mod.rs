//! The store on MySQL 8.0.16 and later and on MariaDB 10.6 and later.
//!
//! One connection settles, one reads parked events again, one deletes delivered events, and every claimer has another,
//! so that reading ahead and settling never wait for each other. Creating or moving a subscription may take a while and
//! uses a separate connection. A lost connection is reopened by the next operation; leases taken over the lost one are
//! refused, and the relay loads its subscriptions again. Do not connect through a transaction pooler, such as ProxySQL
//! with multiplexing: it is not supported, and it is not detected.
//!
//! Writers are not slowed down: the table has one index, no lock conflicts with theirs, and an open transaction delays
//! only its own events. Times come from the database's clock.

mod address;
mod admin;
mod audit;
mod adopt;
mod claim;
mod connect;
mod connection;
mod empty_positions;
mod engine;
mod event_counts;
mod event_facts;
mod explain;
mod failure;
mod history;
mod inbox;
mod lease;
mod list;
mod locks;
mod log_tx;
mod migrate;
mod names;
mod operate;
mod page;
mod park;
mod progress;
mod ranges;
mod open_transactions;
mod relays;
mod replay;
mod roles;
mod row;
mod row_state;
mod server;
mod session;
mod settle;
mod takeover;
#[cfg(feature = "mysql-tls")]
mod tls;
mod views;
mod writers;

use std::fmt;
use std::sync::Arc;

pub use connect::MySqlConfig;
pub use failure::{commit_failed, failed as statement_failed};
pub use row_state::MySqlRowStore;
pub use server::Product;

use super::audit_tx::NewAudit;
use super::connection::{StoreConnections, again_if_cut};
use super::log_tx::LogTx as _;
use super::subscription_tx;
use super::takeover::acquire;
use super::{
    Acquired, AsyncStore, Claimer, CountBy, Epoch, EventCounts, EventFilter, Fetched, InboxPurge,
    InboxPurged, LeaseRequest, ListedEvent, Loaded, Migrated, Migration, Overview, Purge, Purged,
    RelayReport, Renewed, Schema, Settled, Settlement, Start,
};
use crate::ledger::Progress;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, InboxItem, InboxRead,
    ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch, SubscriptionChange,
    SubscriptionPlan, explain::EventFacts,
};
use crate::{Ident, Inbox, Outbox, Position, Result};

/// An outbox in a MySQL or MariaDB database. Clones share its connections.
#[derive(Clone)]
pub struct MySqlStore(Arc<StoreConnections<MySqlConfig>>);

impl MySqlStore {
    /// Creates the database if it does not exist, and applies the migrations that it lacks. Safe to run again, and in
    /// several processes at once. These servers commit every CREATE immediately, so a migration that is interrupted is
    /// completed by running it again.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`](crate::Code::SchemaNewer) if a newer Postrider has migrated the database, `ServerUnfit`
    /// if no relay could work on this server; then nothing was changed.
    pub async fn migrate(config: &MySqlConfig) -> Result<Migrated> {
        let mut session = config.connect_unchecked().await?;
        session.server.refuse_positions()?;
        // If no relay could use this server, report it before the tables are created. Later, the relay reports it.
        if session.server.locks.is_none() && migrate::schema(&mut session).await?.found == 0 {
            engine::check(&mut session).await?;
        }
        migrate::migrate(&mut session).await
    }

    /// The schema a database has and the one this program needs. Creates and changes nothing.
    ///
    /// # Errors
    /// The database's error.
    pub async fn schema(config: &MySqlConfig) -> Result<Schema> {
        migrate::schema(&mut config.connect_unchecked().await?).await
    }

    /// Every migration, oldest first, to be run with another tool in a database of this name.
    pub fn migrations(schema: &Ident) -> impl Iterator<Item = Migration> {
        migrate::all(schema)
    }

    /// The SQL that creates roles with only the rights each needs: `DATABASE_writer`, `DATABASE_inbox`,
    /// `DATABASE_relay`, `DATABASE_viewer`, `DATABASE_operator` and `DATABASE_migrator`. Run it after the migrations; it is safe to run again.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if the database's name leaves no room for theirs.
    pub fn roles(schema: &Ident) -> Result<String> {
        roles::roles(schema)
    }

    /// Creates or replaces the views in a migrated database: `vw_outbox`, `vw_outbox_due`, `vw_outbox_metrics`,
    /// `vw_outbox_throughput_hourly` and `vw_outbox_backlog`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn create_views(config: &MySqlConfig) -> Result<()> {
        views::create(&mut config.connect_unchecked().await?).await
    }

    /// Events counted by type, hour or producer, per subscription, in at most `groups_max` groups. Reads every event
    /// and changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn count_events(config: &MySqlConfig, by: CountBy, groups_max: usize) -> Result<EventCounts> {
        event_counts::count_events(&mut config.connect_read_only().await?, by, groups_max, &views::events())
            .await
    }

    /// Connects to a migrated database. The other connections are opened when they are needed.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the tables do not exist or are older than this
    /// program's, `SchemaNewer` if they are newer, `SchemaAltered` or `ServerUnfit` if positions would not be
    /// trustworthy, `LoginRefused`, `ServerTooOld`, and `StoreReadOnly` on a replica. Nothing was changed.
    pub async fn connect(config: &MySqlConfig) -> Result<Self> {
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

    /// As [`Store::overview`](super::Store::overview), for a user with only the right to read, and on servers that no
    /// relay can use.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), except `ServerUnfit`.
    pub async fn read_overview(config: &MySqlConfig, backlog_max: u64) -> Result<Overview> {
        let mut session = config.connect_read_only().await?;
        let mut tx = session.begin_read().await?;
        let seen = super::log_tx::overview(&mut tx, backlog_max).await;
        tx.finish(seen).await
    }

    /// The prepared transactions of the server, in the format of `XA COMMIT`. On MariaDB each of them may keep
    /// positions of rolled-back transactions as holes, whatever it has written.
    ///
    /// # Errors
    /// [`Code::PrivilegeMissing`](crate::Code::PrivilegeMissing) if the user has no right to list them.
    #[doc(hidden)]
    pub async fn prepared(config: &MySqlConfig) -> Result<Vec<String>> {
        locks::prepared_names(&mut config.client().await?).await
    }

    /// The triggers on the tables of the outbox that are visible to this user.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub async fn triggers(config: &MySqlConfig) -> Result<Vec<String>> {
        locks::triggers(&mut config.client().await?, config.schema_name()).await
    }

    /// The number of sessions and prepared transactions that have the outbox open for writing now, as the proof of
    /// holes counts them; `None` if the server does not report all of them. Reads no table of the outbox.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub async fn writers(config: &MySqlConfig) -> Result<Option<usize>> {
        writers::count(&mut config.connect_unchecked().await?).await
    }

    /// Rows at positions that a subscription has settled as empty and has not parked, by subscription: their writers
    /// chose the positions. A running relay parks them as dead within seconds. Changes nothing.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub async fn late_rows(config: &MySqlConfig) -> Result<Vec<(String, Vec<Position>)>> {
        empty_positions::late_rows(&mut config.connect_unchecked().await?).await
    }

    /// The last position that the counter has assigned, whether or not its event was committed. Changes nothing.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    pub async fn last_position(config: &MySqlConfig) -> Result<Position> {
        let mut session = config.connect_unchecked().await?;
        let mut tx = session.begin_read().await?;
        let last = history::last_position(&mut tx).await;
        tx.finish(last).await
    }

    /// The newest events that match a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the filter has a state, or the database's error.
    pub async fn list(config: &MySqlConfig, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        list::list(&mut config.client().await?, config.schema_name(), filter).await
    }

    /// The database's query plan for [`list`](Self::list).
    ///
    /// # Errors
    /// As [`MySqlStore::list`].
    #[doc(hidden)]
    pub async fn list_plan(config: &MySqlConfig, filter: &EventFilter) -> Result<Vec<String>> {
        list::plan(&mut config.client().await?, config.schema_name(), filter).await
    }

    /// A store for a database that may be unreachable now: every connection is opened when it is needed, and checked
    /// then as [`connect`](Self::connect) does. A relay waits for such a database.
    pub fn unconnected(config: &MySqlConfig) -> Self {
        Self(Arc::new(StoreConnections::new(config)))
    }

    async fn release_lease(&self, name: &str, epoch: Epoch, clean: bool) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let server = conn.server()?;
        // A lease that was taken on another server cannot be released here.
        if conn.lease_taken_on(name) != Some(server) {
            return Ok(());
        }
        let mut tx = conn.begin().await?;
        let released = lease::release(&mut tx, name, epoch, clean).await;
        tx.finish(released).await
    }
}

impl fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MySqlStore").field(&self.0.config).finish()
    }
}

impl AsyncStore for MySqlStore {
    async fn subscribe(&self, name: String, start: Start) -> Result<bool> {
        // A relay calls this at every start, and usually the subscription exists: that needs no extra connection.
        if admin::is_known(self.0.settler.lock().await?.session()?, &name).await? {
            return Ok(false);
        }
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin().await?;
        let created = subscription_tx::subscribe(&mut tx, &name, start).await;
        tx.finish(created).await
    }

    async fn acquire(&self, lease: LeaseRequest) -> Result<Acquired> {
        let mut conn = self.0.settler.lock().await?;
        let reached = conn.reached(&lease.subscription);
        let after_failover = self.0.config.options().after_failover;
        let mut tx = conn.begin().await?;
        let takeover = acquire(&mut tx, &lease, after_failover, reached).await;
        let takeover = tx.finish(takeover).await?;
        conn.remember(&lease.subscription, takeover)
    }

    async fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        let mut conn = self.0.settler.lock().await?;
        conn.check_lease(&lease.subscription)?;
        lease::renew(&mut conn, &lease, epoch).await
    }

    async fn release(&self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        let release = || self.release_lease(&name, epoch, clean);
        // A second try is harmless: it finds no lease of this epoch. Without it, every relay would wait until the lease
        // expires.
        again_if_cut(release(), release()).await
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        let server = self.0.settler.server();
        Box::new(claim::MySqlClaimer::new(self.0.config.clone(), server, progress))
    }

    fn claimer_of(&self, subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        let server = loaded.origin.as_ref().map(|origin| origin.history.clone());
        Box::new(claim::MySqlClaimer::of(self.0.config.clone(), server, subscription, loaded))
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> Result<Fetched> {
        let mut conn = self.0.reader.lock_beside(&self.0.settler).await?;
        page::fetch(conn.session()?, &positions, bytes_max).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let mut conn = self.0.settler.lock().await?;
        let settling = conn.settling(&settlement)?;
        let settled = settle::settle(&mut conn, settlement).await?;
        conn.remember_settled(settling, settled);
        Ok(settled)
    }

    async fn pause(&self, name: String, reason: Option<String>) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let paused = admin::pause(&mut tx, &name, reason.as_deref()).await;
        tx.finish(paused).await
    }

    async fn pause_as_owner(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let paused = admin::pause_as_owner(&mut tx, &name, epoch, &reason).await;
        tx.finish(paused).await
    }

    async fn halt(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let halted = admin::halt(&mut tx, &name, epoch, &reason).await;
        tx.finish(halted).await
    }

    async fn accept_history(&self, name: String, start: Start) -> Result<()> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin().await?;
        let accepted = subscription_tx::accept_history(&mut tx, &name, start).await;
        tx.finish(accepted).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged> {
        let mut conn = self.0.cleaner.lock().await?;
        let mut tx = conn.begin().await?;
        let purged = super::log_tx::purge(&mut tx, &purge).await;
        tx.finish(purged).await
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
        let mut tx = conn.begin_read().await?;
        let seen = super::log_tx::overview(&mut tx, backlog_max).await;
        tx.finish(seen).await
    }

    async fn subscription_names(&self) -> Result<Vec<String>> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let names = tx.subscriptions().await;
        tx.finish(names).await
    }

    async fn list_parked(&self, query: ParkedQuery) -> Result<Vec<ParkedItem>> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let found = operate::list(&mut tx, &query).await;
        tx.finish(found).await
    }

    async fn count_parked(&self, query: ParkedQuery) -> Result<u64> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let counted = operate::count(&mut tx, &query).await;
        tx.finish(counted).await
    }

    async fn change_parked(&self, change: ParkedChange) -> Result<ParkedChanged> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let changed = super::parked_tx::change(&mut tx, &change).await;
        tx.finish(changed).await
    }

    async fn clean_up(&self, batch: CleanupBatch) -> Result<Purged> {
        let mut conn = self.0.cleaner.lock().await?;
        let mut tx = conn.begin().await?;
        let purged = super::cleanup_tx::clean_up(&mut tx, &batch).await;
        tx.finish(purged).await
    }

    async fn replay(&self, batch: ReplayBatch) -> Result<ReplayedBatch> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = if batch.audit.is_some() { conn.begin().await? } else { conn.begin_read().await? };
        let replayed = super::replay_tx::replay(&mut tx, &batch).await;
        tx.finish(replayed).await
    }

    async fn read_inbox(&self, read: InboxRead) -> Result<Vec<InboxItem>> {
        inbox::read(&mut self.0.reader.lock().await?, &read).await
    }

    async fn pause_audited(&self, name: String, reason: Option<String>, audit: AuditRecord) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let paused = match admin::pause(&mut tx, &name, reason.as_deref()).await {
            Ok(()) => audit::insert(&mut tx, NewAudit::of(&name, &audit)).await,
            failed => failed,
        };
        tx.finish(paused).await
    }

    async fn note_audit(&self, name: String, audit: AuditRecord) -> Result<()> {
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin().await?;
        let noted = audit::insert(&mut tx, NewAudit::of(&name, &audit)).await;
        tx.finish(noted).await
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        // A relay asks at its start, when it has only this connection.
        let mut conn = self.0.settler.lock().await?;
        let mut tx = conn.begin_read().await?;
        let found = audit::list(&mut tx, &query).await;
        tx.finish(found).await
    }

    async fn find_audit(&self, search: AuditSearch) -> Result<Vec<AuditEntry>> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let found = super::audit_tx::find(&mut tx, &search).await;
        tx.finish(found).await
    }

    async fn plan_subscription(&self, name: String, start: Start) -> Result<SubscriptionPlan> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin_read().await?;
        let planned = super::subscription_tx::plan(&mut tx, &name, start).await;
        tx.finish(planned).await
    }

    async fn change_subscription(&self, change: SubscriptionChange) -> Result<bool> {
        let mut session = self.0.dedicated().await?;
        let mut tx = session.begin().await?;
        let changed = super::subscription_tx::change(&mut tx, &change).await;
        tx.finish(changed).await
    }

    async fn event_facts(&self, sought: EventSelector) -> Result<EventFacts> {
        match &sought {
            EventSelector::Event(event) => self.about_event(event).await,
            EventSelector::Key(key) => self.about_key(key).await,
        }
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}
