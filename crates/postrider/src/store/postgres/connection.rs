//! A connection that is made again when it is lost, and the transactions on it.

use std::collections::HashMap;
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Row;

use super::connect::PostgresConfig;
use super::history::Incarnation;
use super::session::{Access, Session, Sharing, Tx};
use super::statement::Params;
use crate::ledger::KnownRows;
use crate::store::Epoch;
use crate::{Code, Error, Position, Result};

/// One connection for many callers, one after the other.
///
/// Nothing that was learnt over a connection survives it: the server behind the next one may be another, with
/// another history and the same epochs. Leases taken over a lost connection are therefore refused.
pub(super) struct SharedConnection {
    config: PostgresConfig,
    slot: Mutex<Slot>,
    /// The server behind the latest connection, for callers that cannot wait for the lock.
    server: StdMutex<Option<Incarnation>>,
}

#[derive(Default)]
struct Slot {
    open: Option<Open>,
    /// The owner of the store has given it up.
    is_closed: bool,
    /// Connections made so far.
    connections: u64,
    /// Leases that were taken, by subscription.
    leases: HashMap<String, Taken>,
    /// How far subscriptions had come. Outlives connections: a server that was put back to an older state
    /// does not know that it was.
    reached: HashMap<String, Reached>,
    /// The parked rows of those subscriptions, as their owner here knows them.
    known: HashMap<String, KnownRows>,
}

impl Slot {
    fn refuse_closed(&self) -> Result<()> {
        if self.is_closed { Err(Error::new(Code::StoreFailed, "the store is closed")) } else { Ok(()) }
    }
}

/// How far a subscription had come when this process last knew of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    pub(super) floor: Position,
}

/// The connection of the moment.
struct Open {
    session: Session,
    /// The how manieth.
    number: u64,
}

/// Where a lease was taken.
struct Taken {
    connection: u64,
    server: Incarnation,
}

/// The right to use the connection.
pub(super) struct Guard<'a>(MutexGuard<'a, Slot>);

impl SharedConnection {
    /// A connection that is not made yet.
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, slot: Mutex::default(), server: StdMutex::new(None) }
    }

    /// The server behind the latest connection.
    pub(super) fn server(&self) -> Option<Incarnation> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the connection; makes a new one if it is lost.
    pub(super) async fn lock(&self) -> Result<Guard<'_>> {
        let mut slot = self.slot.lock().await;
        slot.refuse_closed()?;
        if slot.open.as_ref().is_none_or(|open| !open.session.is_usable()) {
            slot.open = None;
            let session = self.config.connect().await?;
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.incarnation.clone());
            slot.connections += 1;
            slot.open = Some(Open { session, number: slot.connections });
        }
        Ok(Guard(slot))
    }

    /// Whether no task uses the connection, whether it exists or not.
    pub(super) fn is_idle(&self) -> bool {
        self.slot.try_lock().is_ok()
    }

    /// The connection, if it is there and no task uses it.
    pub(super) fn ready(&self) -> Option<Guard<'_>> {
        let slot = self.slot.try_lock().ok()?;
        slot.open.as_ref().is_some_and(|open| open.session.is_usable()).then(|| Guard(slot))
    }

    /// Refuses whatever is asked after the owner of the store has given it up.
    pub(super) async fn refuse_closed(&self) -> Result<()> {
        self.slot.lock().await.refuse_closed()
    }

    /// Gives the connection back after the callers that wait for it; there is none afterwards.
    pub(super) async fn close(&self) {
        *self.slot.lock().await = Slot { is_closed: true, ..Slot::default() };
    }
}

impl Guard<'_> {
    fn open(&mut self) -> Result<&mut Open> {
        // `lock` put it there; the type cannot know.
        self.0
            .open
            .as_mut()
            .ok_or_else(|| Error::new(Code::StoreFailed, "the connection to PostgreSQL was lost"))
    }

    /// The connection itself.
    pub(super) fn session(&mut self) -> Result<&Session> {
        Ok(&self.open()?.session)
    }

    /// Which server this is.
    pub(super) fn incarnation(&mut self) -> Result<Incarnation> {
        Ok(self.open()?.session.incarnation.clone())
    }

    /// Who else uses the server process.
    pub(super) fn sharing(&mut self) -> Result<Sharing> {
        Ok(self.open()?.session.sharing)
    }

    /// How far a subscription had come, if this process has ever owned it or stood by.
    pub(super) fn reached(&self, subscription: &str) -> Option<Reached> {
        self.0.reached.get(subscription).copied()
    }

    /// Remembers how far a subscription has come, or forgets it.
    pub(super) fn set_reached(&mut self, subscription: &str, reached: Option<Reached>) {
        match reached {
            Some(reached) => _ = self.0.reached.insert(subscription.to_owned(), reached),
            None => _ = self.0.reached.remove(subscription),
        }
    }

    /// Remembers how far the owner of a subscription has come, unless more was known already.
    pub(super) fn raise_reached(&mut self, subscription: &str, reached: Option<Reached>) {
        let known = self.reached(subscription).map(|known| (known.epoch, known.floor));
        if let Some(reached) = reached.filter(|now| known.is_none_or(|known| known < (now.epoch, now.floor)))
        {
            self.set_reached(subscription, Some(reached));
        }
    }

    /// The parked rows of a subscription as its owner here knows them.
    pub(super) fn known(&mut self, subscription: &str) -> &mut KnownRows {
        self.0.known.entry(subscription.to_owned()).or_default()
    }

    /// Remembers that a lease was taken over this connection.
    pub(super) fn remember_lease(&mut self, subscription: &str) -> Result<()> {
        let open = self.open()?;
        let taken = Taken { connection: open.number, server: open.session.incarnation.clone() };
        self.0.leases.insert(subscription.to_owned(), taken);
        Ok(())
    }

    /// On which server a lease was taken, whatever became of the connection.
    pub(super) fn lease_taken_on(&mut self, subscription: &str) -> Option<Incarnation> {
        self.0.leases.get(subscription).map(|taken| taken.server.clone())
    }

    /// Refuses a lease that was taken over a connection that is lost.
    pub(super) fn check_lease(&mut self, subscription: &str) -> Result<()> {
        let number = self.open()?.number;
        if self.0.leases.get(subscription).is_some_and(|taken| taken.connection == number) {
            return Ok(());
        }
        let what = format!("the connection that held the lease of {subscription:?} was lost");
        Err(Error::new(Code::StoreFailed, what).with_hint("nothing to do: the lease is acquired again"))
    }

    /// Refuses whatever was asked of another server than this connection led to, and gives the connection up.
    pub(super) fn give_up(&mut self) -> Error {
        match self.open() {
            Ok(open) => open.session.give_up(),
            Err(error) => error,
        }
    }

    /// Runs one statement that stands for itself: when it is answered, it is committed.
    pub(super) async fn query(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        self.open()?.session.autocommit(Access::Writes, statement, params).await
    }

    /// Runs one statement that changes nothing.
    pub(super) async fn read(&mut self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        self.open()?.session.autocommit(Access::Reads, statement, params).await
    }

    /// Begins a transaction that sees one snapshot and writes nothing.
    pub(super) async fn begin_read(&mut self) -> Result<Tx<'_>> {
        self.open()?.session.begin(Access::Reads).await
    }

    /// Begins a transaction; dropped without a commit it is rolled back.
    pub(super) async fn begin(&mut self) -> Result<Tx<'_>> {
        self.open()?.session.begin(Access::Writes).await
    }
}
