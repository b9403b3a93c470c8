//! The connections of a store on a server: shared by several callers, with a memory of the leases taken over them.
//!
//! A lease is not trusted after its connection is lost: the next connection may lead to another server, with another
//! history and the same epochs. Leases taken over a lost connection are therefore refused, and the relay loads its
//! subscriptions again. All of this is in memory and ends with the process.

use std::collections::HashMap;
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::{Mutex, MutexGuard};

use super::takeover::Takeover;
use super::{Acquired, Epoch, Settled, Settlement};
use crate::ledger::{KnownRows, SettledChange};
use crate::{Code, Error, Position, Recovery, Result};

/// Opens connections to one server.
pub(super) trait Connect: Clone + Send + Sync + 'static {
    type Session: ServerSession;

    fn connect(&self) -> impl Future<Output = Result<Self::Session>> + Send;
}

/// One connection to one server.
pub(super) trait ServerSession: Send {
    /// Identifies the server, so that one that replaced it is recognised.
    type Server: Clone + PartialEq + Send;

    fn server(&self) -> Self::Server;

    /// Whether the connection can still be used.
    fn is_usable(&self) -> bool;

    /// Another server has answered: marks the connection as unusable and returns the error for the caller.
    fn give_up(&mut self) -> Error;
}

type Server<C> = <<C as Connect>::Session as ServerSession>::Server;

/// The connections of a store of the default layout. Each claimer opens one more.
pub(super) struct StoreConnections<C: Connect> {
    pub(super) config: C,
    /// Settles, and takes and renews leases.
    pub(super) settler: SharedConnection<C>,
    /// Reads parked events again.
    pub(super) reader: SharedConnection<C>,
    /// Deletes delivered events, so that publishing does not wait for that.
    pub(super) cleaner: SharedConnection<C>,
}

impl<C: Connect> StoreConnections<C> {
    /// Connections that are opened when they are needed.
    pub(super) fn new(config: &C) -> Self {
        let connection = || SharedConnection::new(config.clone());
        Self { config: config.clone(), settler: connection(), reader: connection(), cleaner: connection() }
    }

    /// A connection for one operation that may take long, such as reading the whole outbox: renewals must not wait for
    /// it. It is closed when the value is dropped.
    pub(super) async fn dedicated(&self) -> Result<C::Session> {
        self.settler.refuse_closed().await?;
        self.config.connect().await
    }

    /// Closes all connections after the calls in progress. Later calls fail.
    pub(super) async fn close(&self) {
        _ = tokio::join!(self.settler.close(), self.reader.close(), self.cleaner.close());
    }
}

/// One connection for many callers, one at a time. It is opened at the first use, and reopened after it was lost.
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
    /// Connections opened so far.
    connections: u64,
    /// What is known about each subscription, by name.
    memory: HashMap<String, Memory<Server<C>>>,
}

/// The current connection, and its number.
struct Open<S> {
    session: S,
    number: u64,
}

/// What this process knows about a subscription that it owned, or was on standby for.
struct Memory<V> {
    /// The number of the connection over which its lease was taken, and the server behind it.
    lease: Option<(u64, V)>,
    /// Kept when the connection is lost: a server that was restored to an older state cannot report that itself.
    reached: Option<Reached>,
    /// The parked rows, as the owner in this process knows them.
    known: KnownRows,
}

/// How far a subscription was when this process last read or settled it. Compared by epoch first: an operator who
/// moves a subscription back raises its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    pub(super) floor: Position,
}

impl Reached {
    /// How far the subscription is once this settlement is committed.
    pub(super) fn of(settlement: &Settlement) -> Self {
        Self { epoch: settlement.epoch, floor: settlement.done.floor() }
    }
}

/// What to remember once a settle is committed.
pub(super) struct Settling {
    subscription: String,
    change: SettledChange,
    reached: Reached,
}

/// Exclusive use of the connection, until it is dropped.
pub(super) struct Guard<'a, C: Connect>(MutexGuard<'a, Slot<C>>);

impl<C: Connect> SharedConnection<C> {
    /// A connection that is not open yet.
    pub(super) fn new(config: C) -> Self {
        Self { config, slot: Mutex::new(Slot::new(false)), server: StdMutex::new(None) }
    }

    /// The server behind the latest connection.
    pub(super) fn server(&self) -> Option<Server<C>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the connection; opens a new one if it is lost.
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

    /// Waits for the connection and checks that it leads to the same server as the settler's: events may only be read
    /// from the server on which the leases were taken.
    pub(super) async fn lock_beside(&self, settler: &Self) -> Result<Guard<'_, C>> {
        let mut guard = self.lock().await?;
        if settler.server().is_some_and(|server| guard.server().ok() != Some(server)) {
            return Err(guard.give_up());
        }
        Ok(guard)
    }

    /// Whether no caller uses the connection, open or not.
    #[cfg(feature = "postgres")]
    pub(super) fn is_idle(&self) -> bool {
        self.slot.try_lock().is_ok()
    }

    /// The connection, if it is open and no caller uses it.
    #[cfg(feature = "postgres")]
    pub(super) fn ready(&self) -> Option<Guard<'_, C>> {
        let slot = self.slot.try_lock().ok()?;
        slot.open.as_ref().is_some_and(|open| open.session.is_usable()).then(|| Guard(slot))
    }

    /// Returns an error if the owner of the store has closed it.
    pub(super) async fn refuse_closed(&self) -> Result<()> {
        self.slot.lock().await.refuse_closed()
    }

    /// Closes the connection after the callers that already wait for it. Later calls fail.
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
        // `lock` has set it, so this error is not expected; the type cannot express that.
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

    /// Another server has answered: marks the connection as unusable and returns the error for the caller.
    pub(super) fn give_up(&mut self) -> Error {
        match self.open() {
            Ok(open) => open.session.give_up(),
            Err(error) => error,
        }
    }

    /// How far a subscription was, if this process has ever owned it or was on standby for it.
    pub(super) fn reached(&self, subscription: &str) -> Option<Reached> {
        self.0.memory.get(subscription)?.reached
    }

    /// The parked rows of a subscription, as the owner in this process knows them.
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

    /// On which server a lease was taken, even if the connection was lost since.
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

    /// Remembers the result of an attempt to take a lease. Call it only after the attempt is committed.
    pub(super) fn remember(&mut self, subscription: &str, takeover: Takeover) -> Result<Acquired> {
        let Takeover { acquired, reached, known } = takeover;
        let memory = self.0.memory(subscription);
        match &acquired {
            Acquired::Granted(_) => {
                (memory.known, memory.reached) = (known, reached);
                self.remember_lease(subscription)?;
            }
            // The operator decides whether this history is accepted; until then there is nothing to compare with.
            Acquired::Halted(_) => memory.reached = None,
            // Keep the highest ever seen, or an older copy of the database would not be noticed.
            Acquired::Held { .. } => memory.reached = memory.reached.max(reached),
        }
        Ok(acquired)
    }

    /// Refuses a settle whose lease was taken over a lost connection. The result is passed to
    /// [`remember_settled`](Self::remember_settled) once the settle is committed.
    pub(super) fn settling(&mut self, settlement: &Settlement) -> Result<Settling> {
        self.check_lease(&settlement.subscription)?;
        Ok(Settling {
            subscription: settlement.subscription.clone(),
            change: SettledChange::of(settlement),
            reached: Reached::of(settlement),
        })
    }

    /// Remembers a settle, if it was recorded.
    pub(super) fn remember_settled(&mut self, settling: Settling, settled: Settled) {
        let Settling { subscription, change, reached } = settling;
        if settled != Settled::Fenced {
            self.known(&subscription).settle(change);
            self.remember_reached(&subscription, reached);
        }
    }

    /// Remembers how far a subscription is.
    pub(super) fn remember_reached(&mut self, subscription: &str, reached: Reached) {
        self.0.memory(subscription).reached = Some(reached);
    }
}

/// Runs a request that is safe to repeat. If the connection broke, it is not known whether the request was carried
/// out, so it is sent once more over another connection.
pub(super) async fn again_if_cut<T>(
    first: impl Future<Output = Result<T>>,
    second: impl Future<Output = Result<T>>,
) -> Result<T> {
    match first.await {
        Err(error) if error.code().recovery() == Recovery::Reload => second.await,
        answer => answer,
    }
}

/// The connection of one claimer. It is never reopened: what the claimer knows may not fit the history of the next
/// server. The relay loads the subscription again and makes a new claimer.
pub(super) enum Link<S> {
    Unopened,
    Open(Box<S>),
    Lost,
}

impl<S: ServerSession> Link<S> {
    /// Marks the connection as lost if it can no longer be used.
    pub(super) fn close_if_lost(&mut self) {
        if let Self::Open(session) = self
            && !session.is_usable()
        {
            *self = Self::Lost;
        }
    }

    /// The connection.
    #[cfg(feature = "mysql")]
    pub(super) fn session(&mut self) -> Result<&mut S> {
        match self {
            Self::Open(session) => Ok(session),
            Self::Unopened | Self::Lost => Err(link_lost()),
        }
    }
}

/// The error of a claimer whose connection was lost, or leads to another server.
pub(super) fn link_lost() -> Error {
    Error::new(Code::StoreFailed, "the connection that events were read from was lost")
        .with_hint("nothing to do: the subscription is loaded again")
}
