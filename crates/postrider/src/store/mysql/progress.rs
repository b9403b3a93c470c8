//! The row of a subscription, read as a whole. [`settle`](super::settle) writes it.

use mysql_async::Row;

use super::row::{self, get, get_opt};
use super::session::{Tx, params};
use crate::ledger::{LastSeen, Progress};
use crate::store::Epoch;
use crate::store::subscription::{ProgressColumns, SubscriptionRow};
use crate::{Position, Result};

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

/// The same, locked until the transaction ends: waits for a settle in progress, and none can begin before that.
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
        seen_tx: None,
    }))
}

fn progress(name: &str, row: &Row) -> Result<Progress> {
    let highest = match (get_opt(row, 5)?, row::uuid_opt(row, 6)?) {
        (Some(position), Some(id)) => Some(LastSeen { position: Position::new(position), id }),
        _ => None,
    };
    let (done, trial): (String, Option<String>) = (get(row, 4)?, get_opt(row, 7)?);
    let trial_deaths = row::count(row, 8)?;
    ProgressColumns { done: &done, highest, trial: trial.as_deref(), trial_deaths }.read(name)
}
