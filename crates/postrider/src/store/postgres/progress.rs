//! The row of a subscription, read as a whole. [`settle`](super::settle) writes it.

use tokio_postgres::Row;

use super::row::{self, get};
use super::session::Tx;
use crate::ledger::{LastSeen, Progress};
use crate::store::Epoch;
use crate::store::subscription::{ProgressColumns, SubscriptionRow};
use crate::{Position, Result};

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

/// The same, locked until the transaction ends: waits for a settle in progress, and none can begin before that.
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

fn progress(name: &str, row: &Row) -> Result<Progress> {
    let highest = match (get(row, 5)?, get(row, 6)?) {
        (Some(position), Some(id)) => Some(LastSeen { position: Position::new(position), id }),
        _ => None,
    };
    let (done, trial, trial_deaths) = (get(row, 4)?, get(row, 7)?, row::count(row, 8)?);
    ProgressColumns { done, highest, trial, trial_deaths }.read(name)
}
