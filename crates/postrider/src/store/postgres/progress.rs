//! The progress row of a subscription: read as a whole, written as a whole.

use tokio_postgres::Row;
use uuid::Uuid;

use super::row::{self, get};
use super::session::Tx;
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
    /// Every event that is done was written by a transaction with a lower id; a number of 64 bits as text.
    pub(super) seen_tx: Option<String>,
}

/// A row of `subscriptions` by name. Index: the primary key (name).
macro_rules! subscription {
    () => {
        "SELECT epoch, clean, paused, history, done, highest_position, highest_id, trial, trial_deaths, halted,
                seen_tx::text
         FROM {schema}.subscriptions
         WHERE name = $1"
    };
}

/// The state of a subscription, if there is one of this name.
pub(super) async fn load(tx: &Tx<'_>, name: &str) -> Result<Option<SubscriptionRow>> {
    read(name, tx.query_opt(subscription!(), &[&name]).await?)
}

/// The same, locked until the end of the transaction: a settle in progress is waited for, and none begins
/// before the transaction is over.
pub(super) async fn lock(tx: &Tx<'_>, name: &str) -> Result<Option<SubscriptionRow>> {
    read(name, tx.query_opt(concat!(subscription!(), " FOR UPDATE"), &[&name]).await?)
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
        seen_tx: get(&row, 10)?,
    }))
}

/// The UPDATE that replaces the progress if the epoch `$2` is still the subscription's. Index: the primary
/// key (name).
macro_rules! record {
    () => {
        "UPDATE {schema}.subscriptions
         SET floor = $3, done = $4, highest_position = $5, highest_id = $6,
             trial = $7, trial_deaths = $8, updated_at = clock_timestamp(),
             seen_tx = pg_snapshot_xmax(pg_current_snapshot())
         WHERE name = $1 AND epoch = $2"
    };
}
pub(super) use record;

/// Replaces the progress of a subscription whose row is locked.
pub(super) async fn put(tx: &Tx<'_>, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
    let p = Columns::of(progress);
    tx.execute(
        record!(),
        &[&name, &epoch.0, &p.floor, &p.done, &p.highest_position, &p.highest_id, &p.trial, &p.trial_deaths],
    )
    .await?;
    Ok(())
}

/// A progress as the parameters `$3` to `$8` of [`record!`].
pub(super) struct Columns {
    pub(super) floor: i64,
    pub(super) done: String,
    pub(super) highest_position: Option<i64>,
    pub(super) highest_id: Option<Uuid>,
    pub(super) trial: Option<String>,
    pub(super) trial_deaths: i64,
}

impl Columns {
    pub(super) fn of(progress: &Progress) -> Self {
        Self {
            floor: progress.done.floor().get(),
            done: progress.done.to_string(),
            highest_position: progress.highest.map(|mark| mark.position.get()),
            highest_id: progress.highest.map(|mark| mark.id),
            trial: progress.trial.as_ref().map(Trial::to_string),
            trial_deaths: progress.trial.as_ref().map_or(0, |trial| trial.deaths.into()),
        }
    }
}

fn progress(name: &str, row: &Row) -> Result<Progress> {
    let damaged = |column: &str, text: &str| {
        Error::new(Code::RowDamaged, format!("subscription {name:?} has {column} = {text:?}"))
            .with_hint("repair the row, or restore the subscription's progress from a backup")
    };
    let done: &str = get(row, 4)?;
    let done = done.parse().map_err(|_| damaged("done", done))?;
    let highest = match (get(row, 5)?, get(row, 6)?) {
        (Some(position), Some(id)) => Some(Mark { position: Position::new(position), id }),
        _ => None,
    };
    let trial = match get::<Option<&str>>(row, 7)? {
        Some(text) => Some(Trial::from_words(text, row::count(row, 8)?).map_err(|_| damaged("trial", text))?),
        None => None,
    };
    Ok(Progress { done, highest, trial })
}
