//! What every [`Store`] must do, whatever its database.
//!
//! Implement [`StoreUnderTest`] and call [`store_conformance!`](crate::store_conformance): each case becomes
//! its own test. A case starts from an empty outbox, so cases run side by side.

pub mod admin;
pub mod claim;
pub mod content;
pub mod history;
pub mod lease;
pub mod maintain;
pub mod overview;
pub mod page;
pub mod settle;
pub mod subscribe;
pub mod visible;

mod cases;
mod erased;
mod stage;

pub use erased::{Backup, Database, Databases};

use std::sync::Arc;

use postrider::store::Store;
use postrider::{BoxFuture, Event, Position, Result};

/// A database to run the suite on, and the things the suite does to it that no store does.
pub trait StoreUnderTest: Sized + Send + Sync {
    /// The state of the outbox at some time, or how to get back to it.
    type Backup: Send;

    /// The column of `docs/src/databases.md` that lists the cases that run on it; `None` if it has none.
    const DATABASE: Option<&'static str> = None;

    /// Whether this machine has what the suite needs; if not, every case passes without running.
    fn is_available() -> bool {
        true
    }

    /// An outbox without events and subscriptions.
    fn fresh() -> impl Future<Output = Result<Self>> + Send;

    /// Opens the database once more, as another process would.
    fn open(&self) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    /// Writes events in one transaction and commits it. Answers their positions.
    fn write(&self, events: Vec<Event>) -> impl Future<Output = Result<Vec<Position>>> + Send;

    /// Writes events in a transaction that stays open.
    fn begin(&self, events: Vec<Event>) -> impl Future<Output = Result<Box<dyn OpenTransaction>>> + Send;

    /// Uses up a position without leaving an event there.
    fn waste_position(&self) -> impl Future<Output = Result<Position>> + Send;

    /// Deletes a committed event.
    fn delete(&self, position: Position) -> impl Future<Output = Result<()>> + Send;

    /// Makes a committed row one that no event can be made of.
    fn damage(&self, position: Position) -> impl Future<Output = Result<()>> + Send;

    /// Remembers the outbox: its events and the position that comes next.
    fn back_up(&self) -> impl Future<Output = Result<Self::Backup>> + Send;

    /// Makes the outbox what it was then. The subscriptions stay as they are.
    fn restore(&self, backup: Self::Backup) -> impl Future<Output = Result<()>> + Send;

    /// Makes the next event take the position after this one.
    fn skip_to(&self, _position: Position) -> impl Future<Output = Result<()>> + Send {
        async { Err(stage::failed("this outbox cannot skip positions")) }
    }

    /// Gives a committed event a header of this many bytes, as a writer with plain SQL can.
    fn widen(&self, _position: Position, _bytes: usize) -> impl Future<Output = Result<()>> + Send {
        async { Err(stage::failed("this outbox cannot widen an event")) }
    }

    /// What an operator does to a parked row with SQL: gives it this state and no attempts, or removes it.
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

/// A transaction of an application that has written and not committed.
pub trait OpenTransaction: Send {
    /// Makes its events real.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Takes them back.
    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}
