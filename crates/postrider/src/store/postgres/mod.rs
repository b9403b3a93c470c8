//! The store on PostgreSQL 14 and later.
//!
//! One connection settles, one reads parked events again, and every claimer has one of its own, so that
//! reading ahead and settling never wait for each other. A lost connection is made anew by the next verb;
//! leases taken over the lost one are refused and the relay loads its subscriptions again.
//!
//! Writers are not slowed: the table has one index, nothing is locked that they need, and an open transaction
//! delays only its own events. Times are the database's clock.

mod admin;
mod claim;
mod connect;
mod failure;
mod history;
mod lease;
mod line;
mod migrate;
mod overview;
mod page;
mod park;
mod progress;
mod row;
mod settle;
mod time;

use std::fmt;
use std::sync::Arc;

pub use connect::PostgresConfig;

use self::line::{Line, Reached};
use super::{
    Acquired, Claimer, Epoch, Fetched, LeaseRequest, Migrated, Migration, Overview, Renewed, Schema, Settled,
    Settlement, Start, Store,
};
use crate::ledger::Progress;
use crate::{BoxFuture, Ident, Position, Result};

/// An outbox in a PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore(Arc<Lines>);

struct Lines {
    config: PostgresConfig,
    settler: Line,
    reader: Line,
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
        migrate::schema(&session.client, config.schema_name()).await
    }

    /// Every migration, oldest first, for those who run them with a tool of their own in a schema of this name.
    pub fn migrations(schema: &Ident) -> impl Iterator<Item = Migration> {
        migrate::all(schema)
    }

    /// Connects to a database that was migrated. The other connections are made when they are needed.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the schema is not there or older than this
    /// program's, `SchemaNewer` if it is newer, `SchemaAltered` if positions would not be trustworthy,
    /// `LoginRefused`, `ServerTooOld`, and `StoreReadOnly` on a standby. Nothing was changed.
    pub async fn connect(config: &PostgresConfig) -> Result<Self> {
        let store = Self::unconnected(config);
        store.0.settler.turn().await?;
        Ok(store)
    }

    /// A database that may be away: every connection is made when it is needed, and checked then as
    /// [`connect`](Self::connect) does. A relay waits for such a database.
    pub fn unconnected(config: &PostgresConfig) -> Self {
        let line = || Line::new(config.clone());
        Self(Arc::new(Lines { config: config.clone(), settler: line(), reader: line() }))
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
            let mut turn = self.0.settler.turn().await?;
            let server = turn.incarnation()?;
            let work = turn.begin().await?;
            let created = admin::subscribe(&work, &name, start, &server).await?;
            work.commit().await.map(|()| created)
        })
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            let mut turn = self.0.settler.turn().await?;
            let (server, reached) = (turn.incarnation()?, turn.reached(&lease.subscription));
            let work = turn.begin().await?;
            let acquired = lease::acquire(&work, &lease, &server, reached).await?;
            work.commit().await?;
            match &acquired {
                Acquired::Granted(loaded) => {
                    let (epoch, floor) = (loaded.epoch, loaded.progress.done.floor());
                    turn.set_reached(&lease.subscription, Some(Reached { epoch, floor }));
                    turn.remember_lease(&lease.subscription)?;
                }
                // From here on it is for the operator to know.
                Acquired::Halted(_) => turn.set_reached(&lease.subscription, None),
                Acquired::Held { .. } => {}
            }
            Ok(acquired)
        })
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(async move {
            let mut turn = self.0.settler.turn().await?;
            turn.check_lease(&lease.subscription)?;
            lease::renew(&mut turn, &lease, epoch).await
        })
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move { lease::release(&mut self.0.settler.turn().await?, &name, epoch, clean).await })
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        let server = self.0.settler.server();
        Box::new(claim::PostgresClaimer::new(self.0.config.clone(), server, progress))
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(async move { page::fetch(&mut self.0.reader.turn().await?, &positions, bytes_max).await })
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(async move {
            let mut turn = self.0.settler.turn().await?;
            turn.check_lease(&settlement.subscription)?;
            let name = settlement.subscription.clone();
            let reached = Reached { epoch: settlement.epoch, floor: settlement.done.floor() };
            let settled = settle::settle(&mut turn, settlement).await?;
            if settled == Settled::Done {
                turn.set_reached(&name, Some(reached));
            }
            Ok(settled)
        })
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(
            async move { admin::pause(&mut self.0.settler.turn().await?, &name, reason.as_deref()).await },
        )
    }

    fn halt(&self, subscription: &str, reason: &str) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move { admin::halt(&mut self.0.settler.turn().await?, &name, &reason).await })
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut turn = self.0.settler.turn().await?;
            let server = turn.incarnation()?;
            let work = turn.begin().await?;
            admin::accept_history(&work, &name, start, &server).await?;
            work.commit().await
        })
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            let mut turn = self.0.reader.turn().await?;
            overview::overview(&turn.look().await?, backlog_max).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { _ = tokio::join!(self.0.settler.close(), self.0.reader.close()) })
    }
}
