//! The lock of retention: it keeps events from being deleted while a subscription is created or moved.
//!
//! A process that deletes events, or creates or moves a subscription, holds the same lock: so no subscription begins
//! at an event while it is being deleted.

use super::begin::LOCK;
use super::session::Tx;
use crate::Result;

/// The name of the lock is a text of ours, so that it meets no other lock.
macro_rules! lock_of {
    ($lock:literal) => {
        concat!("SELECT ", $lock, "(hashtextextended('postrider retention of {schema}', 0))")
    };
}
pub(super) use lock_of;

/// Keeps events from being deleted, and their table from being rewritten, until the transaction ends; several may do so
/// at once.
pub(super) async fn keep_events(tx: &Tx<'_>) -> Result<()> {
    tx.query(lock_of!("pg_advisory_xact_lock_shared"), &[]).await?;
    tx.execute(LOCK, &[]).await.map(|_| ())
}
