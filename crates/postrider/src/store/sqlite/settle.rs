//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use rusqlite::Connection;

use super::failure::Attempt;
use super::lease::now;
use super::{park, progress};
use crate::ledger::Progress;
use crate::store::{Settled, Settlement};

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) fn settle(tx: &Connection, settlement: Settlement) -> Attempt<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    if !progress::record(tx, &subscription, epoch, &Progress { done, highest, trial })? {
        return Ok(Settled::Fenced);
    }
    park::remove(tx, &subscription, &unpark)?;
    park::put(tx, &subscription, &park, now(tx)?)?;
    Ok(Settled::Done)
}
