//! The lock of retention: it keeps events from being deleted while a subscription is created or moved.
//!
//! A process that deletes events, or creates or moves a subscription, locks the same row, that of the first migration:
//! so no subscription begins at an event while it is being deleted.

use super::row::{self, micros};
use super::session::{Params, Tx};
use crate::{Result, Timestamp};

/// The lock of retention. Index: the primary key (version).
macro_rules! lock_for {
    ($kind:literal) => {
        concat!("SELECT version FROM {schema}.migrations WHERE version = 1 ", $kind)
    };
}
pub(super) use lock_for;

/// Keeps events from being deleted until the transaction ends, and subscriptions from being created or moved.
pub(super) async fn keep_events(tx: &mut Tx<'_>) -> Result<()> {
    tx.query(lock_for!("FOR UPDATE"), Params::new()).await.map(|_| ())
}

/// The database's clock.
pub(super) async fn clock(tx: &mut Tx<'_>) -> Result<Timestamp> {
    let row = tx.query_opt(concat!("SELECT ", micros!("UTC_TIMESTAMP(6)")), Params::new()).await?;
    // Without an answer nothing is old.
    row.map_or(Ok(Timestamp::from_micros(i64::MIN)), |row| row::time(&row, 0))
}
