//! The progress row of a subscription: read as a whole, written as a whole.

use mysql_async::{Row, Value};

use super::row::{self, get, get_opt};
use super::session::{Params, Tx, params};
use crate::ledger::{Mark, Progress, Trial};
use crate::store::Epoch;
use crate::{Code, Error, Position, Result};

/// A row of `subscriptions`.
#[derive(Debug)]
pub(super) struct SubscriptionRow {
    pub(super) epoch: Epoch,
    pub(super) progress: Progress,
    pub(super) clean: bool,
    pub(super) paused: Option<String>,
    pub(super) history: Option<String>,
    pub(super) halted: Option<String>,
}

/// A row of `subscriptions` by name. Index: the primary key (name).
macro_rules! subscription {
    () => {
        "SELECT epoch, clean, paused, history, done, highest_position, highest_id, trial, trial_deaths, halted
         FROM {schema}.subscriptions
         WHERE name = ?"
    };
}

/// The state of a subscription, if there is one of this name.
pub(super) async fn load(tx: &mut Tx<'_>, name: &str) -> Result<Option<SubscriptionRow>> {
    read(name, tx.query_opt(subscription!(), params![name]).await?)
}

/// The same, locked until the end of the transaction: a settle in progress is waited for, and none begins
/// before the transaction is over.
pub(super) async fn lock(tx: &mut Tx<'_>, name: &str) -> Result<Option<SubscriptionRow>> {
    read(name, tx.query_opt(concat!(subscription!(), " FOR UPDATE"), params![name]).await?)
}

fn read(name: &str, row: Option<Row>) -> Result<Option<SubscriptionRow>> {
    let Some(row) = row else { return Ok(None) };
    Ok(Some(SubscriptionRow {
        epoch: Epoch(get(&row, 0)?),
        clean: get(&row, 1)?,
        paused: get(&row, 2)?,
        history: get(&row, 3)?,
        progress: progress(name, &row)?,
        halted: get(&row, 9)?,
    }))
}

/// The UPDATE that replaces the progress if the epoch is still the subscription's, with the parameters of
/// [`recorded`]. Index: the primary key (name).
pub(super) const RECORD: &str = "
    UPDATE {schema}.subscriptions
    SET floor = ?, done = ?, highest_position = ?, highest_id = ?, trial = ?, trial_deaths = ?,
        updated_at = UTC_TIMESTAMP(6)
    WHERE name = ? AND epoch = ?";

/// The parameters of [`RECORD`].
pub(super) fn recorded(name: &str, epoch: Epoch, progress: &Progress) -> Params {
    params![
        progress.done.floor().get(),
        progress.done.to_string(),
        progress.highest.map(|mark| mark.position.get()),
        progress.highest.map(|mark| mark.id.as_bytes().to_vec()),
        progress.trial.as_ref().map(Trial::to_string),
        progress.trial.as_ref().map_or(0, |trial| trial.deaths),
        name,
        epoch.0,
    ]
}

/// Replaces the progress of a subscription whose row is locked.
pub(super) async fn put(tx: &mut Tx<'_>, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
    tx.execute(RECORD, recorded(name, epoch, progress)).await?;
    Ok(())
}

fn progress(name: &str, row: &Row) -> Result<Progress> {
    let damaged = |column: &str, text: &str| {
        Error::new(Code::RowDamaged, format!("subscription {name:?} has {column} = {text:?}"))
            .with_hint("repair the row, or restore the subscription's progress from a backup")
    };
    let done: String = get(row, 4)?;
    let done = done.parse().map_err(|_| damaged("done", &done))?;
    let highest = match (get_opt(row, 5)?, row.as_ref(6)) {
        (Some(position), Some(value)) if *value != Value::NULL => {
            Some(Mark { position: Position::new(position), id: row::uuid(row, 6)? })
        }
        _ => None,
    };
    let trial = match get_opt::<String>(row, 7)? {
        Some(text) => {
            Some(Trial::from_words(&text, row::count(row, 8)?).map_err(|_| damaged("trial", &text))?)
        }
        None => None,
    };
    Ok(Progress { done, highest, trial })
}
