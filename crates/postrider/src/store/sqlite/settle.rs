//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};

use super::failure::Attempt;
use super::lease::now;
use super::park;
use crate::Position;
use crate::ledger::{KnownRows, Progress, Trial};
use crate::store::{Epoch, Settled, Settlement};

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) fn settle(tx: &Connection, settlement: Settlement, known: &KnownRows) -> Attempt<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    if !record(tx, &subscription, epoch, &Progress { done, highest, trial })? {
        return Ok(Settled::Fenced);
    }
    let known = |position| known.expected(epoch, position);
    // If a row is both removed and written, it is written.
    let written: HashSet<Position> = park.iter().map(|row| row.position).collect();
    let removed: Vec<Position> = unpark.into_iter().filter(|position| !written.contains(position)).collect();
    park::remove(tx, &subscription, &removed)?;
    let all_written = park::put(tx, &subscription, &park, now(tx)?, known)?;
    Ok(if all_written { Settled::Done } else { Settled::ParkedChanged })
}

/// Replaces the progress if the epoch is still current. Returns whether it was.
pub(super) fn record(tx: &Connection, name: &str, epoch: Epoch, progress: &Progress) -> Attempt<bool> {
    let Progress { done, highest, trial } = progress;
    // Index: the primary key (name).
    let recorded = tx
        .prepare_cached(
            "UPDATE postrider_subscriptions
             SET floor = :floor, done = :done, highest_position = :highest, highest_id = :highest_id,
                 trial = :trial, trial_deaths = :trial_deaths, updated_at = :now
             WHERE name = :name AND epoch = :epoch",
        )?
        .execute(named_params! {
            ":name": name,
            ":epoch": epoch.0,
            ":floor": done.floor().get(),
            ":done": done.to_string(),
            ":highest": highest.map(|mark| mark.position.get()),
            ":highest_id": highest.map(|mark| mark.id.to_string()),
            ":trial": trial.as_ref().map(Trial::to_string),
            ":trial_deaths": trial.as_ref().map_or(0, |trial| trial.deaths),
            ":now": now(tx)?,
        })?;
    Ok(recorded > 0)
}
