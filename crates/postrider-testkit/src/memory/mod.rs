//! A database in memory with the behaviour of real ones that is difficult for a relay: late commits, rollbacks and
//! restores.
//!
//! [`MemoryDatabase`] is the synchronous core: a [`Log`] whose positions are assigned at the INSERT and become visible
//! at the commit, and one [`Subscription`] each. It has no clock: the caller passes the time. [`MemoryStore`]
//! implements the relay's `Store` with it.

mod database;
mod log;
mod maintain;
mod overview;
mod reader;
mod store;
mod subscription;

pub use database::{Found, MemoryDatabase};
pub use log::{Log, TransactionId};
pub use reader::{Reader, Reading};
pub use store::MemoryStore;
pub use subscription::{Lease, Subscription};
