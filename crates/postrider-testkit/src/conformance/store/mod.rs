//! What every [`Store`] must support, on every database.
//!
//! Implement [`StoreUnderTest`] and call [`store_conformance!`](crate::store_conformance): each case becomes a separate
//! test. A case starts with an empty outbox, so cases run in parallel.

pub mod admin;
pub mod claim;
pub mod content;
pub mod explain;
pub mod history;
pub mod lease;
pub mod maintain;
pub mod operate;
pub mod overview;
pub mod page;
pub mod replay;
pub mod settle;
pub mod subscribe;
pub mod subscriptions;
pub mod visible;

mod cases;
mod erased;
mod stage;

pub use erased::{Backup, Database, Databases};

use std::sync::Arc;

use postrider::store::Store;
use postrider::{BoxFuture, Event, Position, Result};

/// A database to run the suite on, and the operations of the suite that a store does not have.
pub trait StoreUnderTest: Sized + Send + Sync {
    /// A backup of the outbox.
    type Backup: Send;

    /// The column of `docs/src/databases.md` that lists the cases that run on it; `None` if it has none.
    const DATABASE: Option<&'static str> = None;

    /// Whether the database shows which transactions are open.
    const SHOWS_WRITERS: bool = true;

    /// Whether other processes see that the connection of a lease is closed, and take the lease over at once.
    const ENDS_LEASES_WITH_SESSIONS: bool = false;

    /// Whether this machine has what the suite needs; if not, every case passes without running.
    fn is_available() -> bool {
        true
    }

    /// An outbox without events and without subscriptions.
    fn fresh() -> impl Future<Output = Result<Self>> + Send;

    /// Opens the database again, as another process would.
    fn open(&self) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    /// Writes events in one transaction and commits it. Returns their positions.
    fn write(&self, events: Vec<Event>) -> impl Future<Output = Result<Vec<Position>>> + Send;

    /// Writes events in a transaction that stays open.
    fn begin(&self, events: Vec<Event>) -> impl Future<Output = Result<Box<dyn OpenTransaction>>> + Send;

    /// Uses a position without writing an event.
    fn waste_position(&self) -> impl Future<Output = Result<Position>> + Send;

    /// Deletes a committed event.
    fn delete(&self, position: Position) -> impl Future<Output = Result<()>> + Send;

    /// Damages a committed row, so that it cannot be converted to an event.
    fn damage(&self, position: Position) -> impl Future<Output = Result<()>> + Send;

    /// Backs up the events and the next position.
    fn back_up(&self) -> impl Future<Output = Result<Self::Backup>> + Send;

    /// Restores the backup. The subscriptions stay as they are.
    fn restore(&self, backup: Self::Backup) -> impl Future<Output = Result<()>> + Send;

    /// Moves the sequence, so that the next event has the position after this one.
    fn skip_to(&self, _position: Position) -> impl Future<Output = Result<()>> + Send {
        async { Err(stage::failed("this outbox cannot skip positions")) }
    }

    /// Adds a header of this many bytes to a committed event, as a writer with plain SQL can.
    fn widen(&self, _position: Position, _bytes: usize) -> impl Future<Output = Result<()>> + Send {
        async { Err(stage::failed("this outbox cannot widen an event")) }
    }

    /// Changes a parked row as an operator would with SQL: sets this state and no attempts, or deletes it.
    fn revise_parked(
        &self,
        _subscription: &str,
        _position: Position,
        _state: Option<&str>,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Err(stage::failed("this outbox has no parked rows")) }
    }

    /// Makes the lease expire.
    fn expire_lease(&self, subscription: &str) -> impl Future<Output = Result<()>> + Send;
}

/// An open transaction of an application that has written events.
pub trait OpenTransaction: Send {
    /// Commits the events.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Rolls them back.
    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}
