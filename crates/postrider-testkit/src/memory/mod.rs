//! A database in memory with the behaviour of real ones that is difficult for a relay: late commits, rollbacks and
//! restores.
//!
//! [`MemoryOutbox`] is the synchronous core: a [`Log`] whose positions are assigned at the INSERT and become visible
//! at the commit, and one [`MemorySubscription`] each. It has no clock: the caller passes the time. [`MemoryStore`]
//! implements the relay's `Store` with it.

mod database;
mod event_facts;
mod log;
mod maintain;
mod operate;
mod overview;
mod reader;
mod store;
mod subscription;
mod subscriptions;

pub use database::{Found, MemoryOutbox};
pub use log::{Log, TransactionId};
pub use reader::{Reader, Reading};
pub use store::MemoryStore;
pub use subscription::{MemoryLease, MemorySubscription};
