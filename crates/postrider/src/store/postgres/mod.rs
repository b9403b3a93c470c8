//! The store on PostgreSQL 14 and later.
//!
//! One connection settles, one reads parked events again, one deletes what is delivered, and every claimer has
//! one of its own, so that reading ahead and settling never wait for each other. One more is made for as long as
//! a subscription is created or moved, which may take a while. A lost connection is made again
//! by the next verb; leases taken over the lost one are refused and the relay loads its subscriptions again.
//! Behind a transaction pooler all of it works without the state of a session; see [`Pooler`].
//!
//! Writers are not slowed: the table has one index, nothing is locked that they need, and an open transaction
//! delays only its own events. Times are the database's clock.

mod address;
mod admin;
mod adopt;
mod begin;
mod claim;
mod connect;
mod failover;
mod failure;
mod history;
mod lease;
mod connection;
mod list;
mod maintain;
mod migrate;
mod notify;
mod overview;
mod page;
mod park;
mod pooler;
mod progress;
mod relays;
mod rest;
mod roles;
mod row;
mod row_state;
mod session;
mod settle;
mod shape;
mod statement;
mod tally;
mod time;
#[cfg(feature = "postgres-tls")]
mod tls;
mod views;
mod wake;
mod writers;

use std::fmt;
use std::sync::Arc;

pub use connect::PostgresConfig;
pub use failure::{commit_failed, failed as statement_failed};
pub use notify::PostgresNotifier;
pub use pooler::{BEGIN_GUARDED, GUARD, Pooler};
pub use row_state::{PostgresRowStore, RowExtras, RowsMigrated};

use self::connection::{Reached, SharedConnection};
use self::history::Incarnation;
use self::lease::Tried;
use self::session::{Access, Session, Sharing, read_transaction};
use self::shape::SHAPE;
use super::{
    Acquired, Claimer, Epoch, EventFilter, Fetched, LeaseRequest, ListedEvent, Loaded, Migrated, Migration,
    Overview, Purge, Purged, RelayReport, Renewed, Schema, Settled, Settlement, Start, Store, Tally, TallyBy,
    Wakes,
};
use crate::ledger::{Change, Progress};
use crate::{BoxFuture, Ident, Position, Recovery, Result};

/// An outbox in a PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore(Arc<Connections>);

struct Connections {
    config: PostgresConfig,
    settler: SharedConnection,
    reader: SharedConnection,
    /// Deletes what is delivered, so that publishing does not wait for that.
    cleaner: SharedConnection,
}

impl Connections {
    /// A connection for one verb that may take long, such as reading the whole outbox: renewals must not wait for
    /// it. It ends with the value.
    async fn apart(&self) -> Result<Session> {
        self.settler.refuse_closed().await?;
        self.config.connect().await
    }
}

impl PostgresStore {
    /// Creates the schema if there is none and brings its tables to what this program knows. Safe to run
    /// again, and in several processes at once; all of it happens or none.
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
    /// What the database says.
    pub async fn schema(config: &PostgresConfig) -> Result<Schema> {
        let session = config.connect_unchecked().await?;
        let client = &session.client;
        read_transaction(client, migrate::schema(client, config.schema_name())).await
    }

    /// Every migration, oldest first, for those who run them with a tool of their own in a schema of this name.
    pub fn migrations(schema: &Ident) -> impl Iterator<Item = Migration> {
        migrate::all(schema)
    }

    /// The SQL that makes roles with no more rights than each needs: `SCHEMA_writer`, `SCHEMA_relay`,
    /// `SCHEMA_inbox`, `SCHEMA_viewer` and `SCHEMA_migrator`. To be run after the migrations, as often as one likes.
    ///
    /// # Errors
    /// [`Code::NameInvalid`](crate::Code::NameInvalid) if the schema's name leaves no room for theirs.
    pub fn roles(schema: &Ident) -> Result<String> {
        roles::roles(schema)
    }

    /// The newest events that pass a filter, newest first. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn list(config: &PostgresConfig, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::list(&client, config.schema_name(), filter)).await
    }

    /// How the database finds those events, in its own words.
    ///
    /// # Errors
    /// What the database says.
    pub async fn list_plan(config: &PostgresConfig, filter: &EventFilter) -> Result<Vec<String>> {
        let (client, _) = config.guarded_client().await?;
        read_transaction(&client, list::plan(&client, config.schema_name(), filter)).await
    }

    /// Makes the views over a database that was migrated, or makes them again: `vw_outbox`, `vw_outbox_due`,
    /// `vw_outbox_metrics`, `vw_outbox_throughput_hourly` and `vw_outbox_backlog`. All of them or none.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn make_views(config: &PostgresConfig) -> Result<()> {
        views::make(&mut config.connect_unchecked().await?, config.schema_name()).await
    }

    /// Events counted by type, hour or producer, per subscription: `groups_max` groups at most. Reads every event, and
    /// changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn tally(config: &PostgresConfig, by: TallyBy, groups_max: usize) -> Result<Tally> {
        let (client, events) = (config.connect().await?.client, views::events(config.schema_name()));
        read_transaction(&client, tally::tally(&client, by, groups_max, &events)).await
    }

    /// Connects to a database that was migrated. The other connections are made when they are needed.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the schema is not there or older than this
    /// program's, `SchemaNewer` if it is newer, `SchemaAltered` if positions would not be trustworthy,
    /// `LoginRefused`, `ServerTooOld`, and `StoreReadOnly` on a standby. Nothing was changed.
    pub async fn connect(config: &PostgresConfig) -> Result<Self> {
        let store = Self::unconnected(config);
        store.0.settler.lock().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then as
    /// [`connect`](Self::connect) does. A relay waits for such a database.
    pub fn unconnected(config: &PostgresConfig) -> Self {
        let connection = || SharedConnection::new(config.clone());
        let connections = Connections {
            config: config.clone(),
            settler: connection(),
            reader: connection(),
            cleaner: connection(),
        };
        Self(Arc::new(connections))
    }

    /// Whether the connection is taken for one through a transaction pooler; see [`Pooler`].
    ///
    /// # Errors
    /// What the database says, if a new connection has to be made.
    pub async fn is_pooled(&self) -> Result<bool> {
        Ok(self.0.settler.lock().await?.sharing()? == Sharing::Pooled)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.0.config).finish()
    }
}

impl Store for PostgresStore {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            if admin::is_known(&mut self.0.settler.lock().await?, &name).await? {
                return Ok(false);
            }
            let mut apart = self.0.apart().await?;
            let server = apart.incarnation.clone();
            let tx = apart.begin(Access::Writes).await?;
            let created = admin::subscribe(&tx, &name, start, &server).await?;
            tx.commit().await.map(|()| created)
        })
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            let (server, reached) = (conn.incarnation()?, conn.reached(&lease.subscription));
            let tx = conn.begin().await?;
            let choice = self.0.config.failover_choice();
            let Tried { acquired, reached, known } =
                lease::acquire(&tx, &lease, &server, choice, reached).await?;
            tx.commit().await?;
            match &acquired {
                Acquired::Granted(_) => {
                    *conn.known(&lease.subscription) = known.unwrap_or_default();
                    conn.set_reached(&lease.subscription, reached);
                    conn.remember_lease(&lease.subscription)?;
                }
                // From here on it is for the operator to know.
                Acquired::Halted(_) => conn.set_reached(&lease.subscription, None),
                Acquired::Held { .. } => conn.raise_reached(&lease.subscription, reached),
            }
            Ok(acquired)
        })
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            conn.check_lease(&lease.subscription)?;
            let renewed = lease::renew(&mut conn, &lease, epoch).await?;
            shape::check(&conn.read(SHAPE, &[]).await?)?;
            Ok(renewed)
        })
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let release =
                async || lease::release(&mut self.0.settler.lock().await?, &name, epoch, clean).await;
            match release().await {
                // A cut connection took the request or its answer with it. Asked again over another, it does the
                // same once at most; left at that, everybody would wait for the lease to run out.
                Err(error) if error.code().recovery() == Recovery::Reload => release().await,
                answer => answer,
            }
        })
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        let server = self.0.settler.server();
        Box::new(claim::PostgresClaimer::new(self.0.config.clone(), server, progress))
    }

    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        let server = loaded.origin.clone().map(Incarnation::from);
        Box::new(claim::PostgresClaimer::new(self.0.config.clone(), server, &loaded.progress))
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            // What is fetched belongs to leases that were taken on the settler's server.
            if self.0.settler.server().is_some_and(|server| conn.incarnation().ok() != Some(server)) {
                return Err(conn.give_up());
            }
            page::fetch(&mut conn, &positions, bytes_max).await
        })
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            conn.check_lease(&settlement.subscription)?;
            let name = settlement.subscription.clone();
            let reached = Reached { epoch: settlement.epoch, floor: settlement.done.floor() };
            let change = Change::of(&settlement);
            let settled = settle::settle(&mut conn, settlement).await?;
            if settled == Settled::Done {
                conn.known(&name).settle(change);
                conn.set_reached(&name, Some(reached));
            }
            Ok(settled)
        })
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(
            async move { admin::pause(&mut self.0.settler.lock().await?, &name, reason.as_deref()).await },
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
            admin::pause_as_owner(&mut self.0.settler.lock().await?, &name, epoch, &reason).await
        })
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move { admin::halt(&mut self.0.settler.lock().await?, &name, epoch, &reason).await })
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut apart = self.0.apart().await?;
            let server = apart.incarnation.clone();
            let tx = apart.begin(Access::Writes).await?;
            admin::accept_history(&tx, &name, start, &server).await?;
            tx.commit().await
        })
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(async move {
            let mut conn = self.0.cleaner.lock().await?;
            let tx = conn.begin().await?;
            let purged = maintain::purge(&tx, &purge).await?;
            tx.commit().await.map(|()| purged)
        })
    }

    /// Not over the connection that leases are renewed on: nothing waits for a report.
    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { relays::record(&mut self.0.cleaner.lock().await?, &report).await })
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            overview::overview(&conn.begin_read().await?, backlog_max).await
        })
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        self.0.config.listens().then(|| Box::new(wake::Listener::new(self.0.config.clone())) as _)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            _ = tokio::join!(self.0.settler.close(), self.0.reader.close(), self.0.cleaner.close());
        })
    }
}
