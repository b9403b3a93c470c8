//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use std::collections::HashSet;

use rusqlite::Connection;

use super::failure::Attempt;
use super::lease::now;
use super::{park, progress};
use crate::Position;
use crate::ledger::{KnownRows, Progress};
use crate::store::{Settled, Settlement};

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) fn settle(tx: &Connection, settlement: Settlement, known: &KnownRows) -> Attempt<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    if !progress::record(tx, &subscription, epoch, &Progress { done, highest, trial })? {
        return Ok(Settled::Fenced);
    }
    let known = |position| known.expected(epoch, position);
    // What is written stays, whether it is also to be removed or not.
    let written: HashSet<Position> = park.iter().map(|row| row.position).collect();
    let removed: Vec<Position> = unpark.into_iter().filter(|position| !written.contains(position)).collect();
    park::remove(tx, &subscription, &removed, known)?;
    park::put(tx, &subscription, &park, now(tx)?, known)?;
    Ok(Settled::Done)
}
