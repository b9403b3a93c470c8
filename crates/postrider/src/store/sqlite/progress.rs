//! The progress row of a subscription: read as a whole, written as a whole.

use rusqlite::{Connection, Row, params};

use super::failure::Attempt;
use super::lease::now;
use super::ledger::Ledger;
use crate::ledger::{Mark, Progress, Trial};
use crate::store::Epoch;
use crate::{Code, Error, Position};

/// A row of `postrider_subscriptions`.
#[derive(Debug)]
pub(super) struct SubscriptionRow {
    pub(super) epoch: i64,
    pub(super) progress: Progress,
    pub(super) clean: bool,
    pub(super) paused: Option<String>,
    pub(super) halted: Option<String>,
}

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
        epoch: row.get(0)?,
        clean: row.get(1)?,
        paused: row.get(2)?,
        halted: row.get(3)?,
        progress: progress(name, row)?,
    }))
}

/// Replaces the progress if the epoch is still the subscription's; answers whether it was.
pub(super) fn record(tx: &Connection, name: &str, epoch: Epoch, progress: &Progress) -> Attempt<bool> {
    let (trial, deaths) =
        progress.trial.as_ref().map_or((None, 0), |trial| (Some(trial.to_string()), trial.deaths));
    // Index: the primary key (name).
    let recorded = tx
        .prepare_cached(
            "UPDATE postrider_subscriptions
             SET floor = ?3, done = ?4, highest_position = ?5, highest_id = ?6,
                 trial = ?7, trial_deaths = ?8, updated_at = ?9
             WHERE name = ?1 AND epoch = ?2",
        )?
        .execute(params![
            name,
            epoch.0,
            progress.done.floor().get(),
            progress.done.to_string(),
            progress.highest.map(|mark| mark.position.get()),
            progress.highest.map(|mark| mark.id.to_string()),
            trial,
            deaths,
            now(tx)?,
        ])?;
    Ok(recorded > 0)
}

fn progress(name: &str, row: &Row<'_>) -> Attempt<Progress> {
    let damaged = |column: &str, text: &str| {
        Error::new(Code::RowDamaged, format!("subscription {name:?} has {column} = {text:?}"))
            .with_hint("repair the row, or restore the subscription's progress from a backup")
    };
    let done: String = row.get(4)?;
    let done = done.parse().map_err(|_| damaged("done", &done))?;
    let highest = match (row.get::<_, Option<i64>>(5)?, row.get::<_, Option<String>>(6)?) {
        (Some(position), Some(id)) => {
            let id = id.parse().map_err(|_| damaged("highest_id", &id))?;
            Some(Mark { position: Position::new(position), id })
        }
        _ => None,
    };
    let trial = match row.get::<_, Option<String>>(7)? {
        Some(text) => Some(Trial::from_words(&text, row.get(8)?).map_err(|_| damaged("trial", &text))?),
        None => None,
    };
    Ok(Progress { done, highest, trial })
}
