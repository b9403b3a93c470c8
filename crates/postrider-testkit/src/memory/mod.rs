//! A database in memory that misbehaves the way real ones do.
//!
//! [`MemoryDatabase`] is the synchronous core: a [`Log`] whose positions are taken at the insert and become
//! visible at the commit, and one [`Subscription`] row each. It has no clock: the caller passes
//! the time. [`MemoryStore`] puts the core behind the relay's `Store`.

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
