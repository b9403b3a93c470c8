//! The row of a subscription, read as a whole. [`settle`](super::settle) writes it.

use rusqlite::{Connection, Row};

use super::failure::Attempt;
use super::ledger::Ledger;
use crate::Position;
use crate::ledger::{LastSeen, Progress};
use crate::store::Epoch;
use crate::store::subscription::{ProgressColumns, SubscriptionRow, damaged_column};

/// The state of a subscription, if there is one of this name.
pub(super) fn load(tx: &Connection, ledger: Ledger, name: &str) -> Attempt<Option<SubscriptionRow>> {
    // Index: the primary key (name).
    let mut statement = tx.prepare_cached(&ledger.put_into(
        "SELECT epoch, clean, paused, halted, done, highest_position, highest_id, trial, trial_deaths
         FROM {subscriptions}
         WHERE name = ?1",
    ))?;
    let mut rows = statement.query([name])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(SubscriptionRow {
        epoch: Epoch(row.get(0)?),
        clean: row.get(1)?,
        paused: row.get(2)?,
        halted: row.get(3)?,
        history: None,
        seen_tx: None,
        progress: progress(name, row)?,
    }))
}

fn progress(name: &str, row: &Row<'_>) -> Attempt<Progress> {
    let highest = match (row.get::<_, Option<i64>>(5)?, row.get::<_, Option<String>>(6)?) {
        (Some(position), Some(id)) => {
            let id = id.parse().map_err(|_| damaged_column(name, "highest_id", &id))?;
            Some(LastSeen { position: Position::new(position), id })
        }
        _ => None,
    };
    let (done, trial): (String, Option<String>) = (row.get(4)?, row.get(7)?);
    let trial_deaths = row.get(8)?;
    Ok(ProgressColumns { done: &done, highest, trial: trial.as_deref(), trial_deaths }.read(name)?)
}
