//! The connection to a server that several callers share, and what this process knows of the leases it took over it.
//!
//! Nothing that was learnt over a connection survives it: the server behind the next one may be another, with another
//! history and the same epochs. Leases taken over a lost connection are therefore refused, and the relay loads its
//! subscriptions again.

use std::collections::HashMap;
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::{Mutex, MutexGuard};

use super::takeover::Takeover;
use super::{Acquired, Epoch, Settled, Settlement};
use crate::ledger::{Change, KnownRows};
use crate::{Code, Error, Position, Recovery, Result};

/// Makes connections to one server.
pub(super) trait Connect: Clone + Send + Sync + 'static {
    type Session: ServerSession;

    fn connect(&self) -> impl Future<Output = Result<Self::Session>> + Send;
}

/// One connection to one server.
pub(super) trait ServerSession: Send {
    /// What tells this server from one that took its place.
    type Server: Clone + PartialEq + Send;

    fn server(&self) -> Self::Server;

    /// Whether anything can still be asked on it.
    fn is_usable(&self) -> bool;

    /// Another server has answered: nothing more is asked on this connection.
    fn give_up(&mut self) -> Error;
}

type Server<C> = <<C as Connect>::Session as ServerSession>::Server;

/// One connection for many callers, one after the other. It is made when it is first used, and again when it is lost.
pub(super) struct SharedConnection<C: Connect> {
    config: C,
    slot: Mutex<Slot<C>>,
    /// The server behind the latest connection, for callers that cannot wait for the lock.
    server: StdMutex<Option<Server<C>>>,
}

struct Slot<C: Connect> {
    open: Option<Open<C::Session>>,
    /// The owner of the store has closed it.
    is_closed: bool,
    /// Connections made so far.
    connections: u64,
    /// By subscription.
    memory: HashMap<String, Memory<Server<C>>>,
}

/// The current connection, and its number.
struct Open<S> {
    session: S,
    number: u64,
}

/// What this process knows of a subscription that it owned, or stood by for.
struct Memory<V> {
    /// The number of the connection over which its lease was taken, and the server behind it.
    lease: Option<(u64, V)>,
    /// Outlives connections: a server that was put back to an older state does not know that it was.
    reached: Option<Reached>,
    /// The parked rows, as their owner here knows them.
    known: KnownRows,
}

/// How far a subscription had come when this process last knew of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    pub(super) floor: Position,
}

impl Reached {
    /// What a settlement reaches once it is committed.
    pub(super) fn of(settlement: &Settlement) -> Self {
        Self { epoch: settlement.epoch, floor: settlement.done.floor() }
    }
}

/// What is to be remembered of a settle.
pub(super) struct Settling {
    subscription: String,
    change: Change,
    reached: Reached,
}

/// The right to use the connection.
pub(super) struct Guard<'a, C: Connect>(MutexGuard<'a, Slot<C>>);

impl<C: Connect> SharedConnection<C> {
    /// A connection that is not made yet.
    pub(super) fn new(config: C) -> Self {
        Self { config, slot: Mutex::new(Slot::new(false)), server: StdMutex::new(None) }
    }

    /// The server behind the latest connection.
    pub(super) fn server(&self) -> Option<Server<C>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the connection; makes a new one if it is lost.
    pub(super) async fn lock(&self) -> Result<Guard<'_, C>> {
        let mut slot = self.slot.lock().await;
        slot.refuse_closed()?;
        if slot.open.as_ref().is_none_or(|open| !open.session.is_usable()) {
            slot.open = None;
            let session = self.config.connect().await?;
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.server());
            slot.connections += 1;
            slot.open = Some(Open { session, number: slot.connections });
        }
        Ok(Guard(slot))
    }

    /// Waits for the connection, which has to lead to the same server as another one does: what is read over it belongs
    /// to leases that were taken there.
    pub(super) async fn lock_beside(&self, settler: &Self) -> Result<Guard<'_, C>> {
        let mut guard = self.lock().await?;
        if settler.server().is_some_and(|server| guard.server().ok() != Some(server)) {
            return Err(guard.give_up());
        }
        Ok(guard)
    }

    /// Whether the connection is free, made or not.
    #[cfg(feature = "postgres")]
    pub(super) fn is_idle(&self) -> bool {
        self.slot.try_lock().is_ok()
    }

    /// The connection, if it is made and free.
    #[cfg(feature = "postgres")]
    pub(super) fn ready(&self) -> Option<Guard<'_, C>> {
        let slot = self.slot.try_lock().ok()?;
        slot.open.as_ref().is_some_and(|open| open.session.is_usable()).then(|| Guard(slot))
    }

    /// Refuses whatever is asked after the owner of the store has closed it.
    pub(super) async fn refuse_closed(&self) -> Result<()> {
        self.slot.lock().await.refuse_closed()
    }

    /// Gives the connection back after the callers that wait for it; there is none afterwards.
    pub(super) async fn close(&self) {
        *self.slot.lock().await = Slot::new(true);
    }
}

impl<C: Connect> Slot<C> {
    fn new(is_closed: bool) -> Self {
        Self { open: None, is_closed, connections: 0, memory: HashMap::new() }
    }

    fn refuse_closed(&self) -> Result<()> {
        if self.is_closed { Err(Error::new(Code::StoreFailed, "the store is closed")) } else { Ok(()) }
    }

    fn memory(&mut self, subscription: &str) -> &mut Memory<Server<C>> {
        let nothing = || Memory { lease: None, reached: None, known: KnownRows::default() };
        self.memory.entry(subscription.to_owned()).or_insert_with(nothing)
    }
}

impl<C: Connect> Guard<'_, C> {
    fn open(&mut self) -> Result<&mut Open<C::Session>> {
        // `lock` put it there; the type cannot know.
        self.0
            .open
            .as_mut()
            .ok_or_else(|| Error::new(Code::StoreFailed, "the connection to the database was lost"))
    }

    /// The connection itself.
    pub(super) fn session(&mut self) -> Result<&mut C::Session> {
        Ok(&mut self.open()?.session)
    }

    /// Which server this is.
    pub(super) fn server(&mut self) -> Result<Server<C>> {
        Ok(self.open()?.session.server())
    }

    /// Refuses whatever was asked of another server than this connection led to, and gives the connection up.
    pub(super) fn give_up(&mut self) -> Error {
        match self.open() {
            Ok(open) => open.session.give_up(),
            Err(error) => error,
        }
    }

    /// How far a subscription had come, if this process has ever owned it or stood by for it.
    pub(super) fn reached(&self, subscription: &str) -> Option<Reached> {
        self.0.memory.get(subscription)?.reached
    }

    /// The parked rows of a subscription as its owner here knows them.
    pub(super) fn known(&mut self, subscription: &str) -> &mut KnownRows {
        &mut self.0.memory(subscription).known
    }

    /// Remembers that a lease was taken over this connection.
    pub(super) fn remember_lease(&mut self, subscription: &str) -> Result<()> {
        let open = self.open()?;
        let lease = (open.number, open.session.server());
        self.0.memory(subscription).lease = Some(lease);
        Ok(())
    }

    /// On which server a lease was taken, whatever became of the connection.
    pub(super) fn lease_taken_on(&mut self, subscription: &str) -> Option<Server<C>> {
        self.0.memory.get(subscription)?.lease.as_ref().map(|(_, server)| server.clone())
    }

    /// Refuses a lease that was taken over a connection that is lost.
    pub(super) fn check_lease(&mut self, subscription: &str) -> Result<()> {
        let number = self.open()?.number;
        let lease = self.0.memory.get(subscription).and_then(|memory| memory.lease.as_ref());
        if lease.is_some_and(|(connection, _)| *connection == number) {
            return Ok(());
        }
        let what = format!("the connection that held the lease of {subscription:?} was lost");
        Err(Error::new(Code::StoreFailed, what).with_hint("nothing to do: the lease is acquired again"))
    }

    /// Remembers what a committed attempt to take a lease brought.
    pub(super) fn remember(&mut self, subscription: &str, takeover: Takeover) -> Result<Acquired> {
        let Takeover { acquired, reached, known } = takeover;
        let memory = self.0.memory(subscription);
        match &acquired {
            Acquired::Granted(_) => {
                (memory.known, memory.reached) = (known, reached);
                self.remember_lease(subscription)?;
            }
            // From here on it is for the operator to know.
            Acquired::Halted(_) => memory.reached = None,
            // The highest that was ever seen counts, or an older copy of the database would go unnoticed.
            Acquired::Held { .. } => memory.reached = memory.reached.max(reached),
        }
        Ok(acquired)
    }

    /// Refuses a settle whose lease was taken over a lost connection. What it returns is remembered once the settle is done.
    pub(super) fn settling(&mut self, settlement: &Settlement) -> Result<Settling> {
        self.check_lease(&settlement.subscription)?;
        Ok(Settling {
            subscription: settlement.subscription.clone(),
            change: Change::of(settlement),
            reached: Reached::of(settlement),
        })
    }

    /// Remembers a settle, if it was recorded.
    pub(super) fn remember_settled(&mut self, settling: Settling, settled: Settled) {
        let Settling { subscription, change, reached } = settling;
        if settled == Settled::Done {
            self.known(&subscription).settle(change);
            self.remember_reached(&subscription, reached);
        }
    }

    /// Remembers how far a subscription has come.
    pub(super) fn remember_reached(&mut self, subscription: &str, reached: Reached) {
        self.0.memory(subscription).reached = Some(reached);
    }
}

/// The answer to a request that may be repeated. A cut connection took the request or its answer with it; over another
/// connection it is asked a second time.
pub(super) async fn again_if_cut<T>(
    first: impl Future<Output = Result<T>>,
    second: impl Future<Output = Result<T>>,
) -> Result<T> {
    match first.await {
        Err(error) if error.code().recovery() == Recovery::Reload => second.await,
        answer => answer,
    }
}

/// A claimer's own connection. Once it is lost the claimer is of no use any more: what it knows may belong to another
/// history.
pub(super) enum Link<S> {
    Unopened,
    Open(Box<S>),
    Lost,
}

impl<S: ServerSession> Link<S> {
    /// Gives up a connection on which nothing can be asked any more.
    pub(super) fn close_if_lost(&mut self) {
        if let Self::Open(session) = self
            && !session.is_usable()
        {
            *self = Self::Lost;
        }
    }

    /// The connection.
    pub(super) fn session(&mut self) -> Result<&mut S> {
        match self {
            Self::Open(session) => Ok(session),
            Self::Unopened | Self::Lost => Err(link_lost()),
        }
    }
}

/// The error of a claimer whose connection is gone, or leads to another server.
pub(super) fn link_lost() -> Error {
    Error::new(Code::StoreFailed, "the connection that events were read from was lost")
        .with_hint("nothing to do: the subscription is loaded again")
}
