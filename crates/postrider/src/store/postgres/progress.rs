//! The row of a subscription, read as a whole. [`settle`](super::settle) writes it.

use tokio_postgres::Row;

use super::session::Tx;
use crate::Result;
use crate::store::subscription::SubscriptionRow;

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
    row.map(|row| SubscriptionRow::read(name, &row, true)).transpose()
}
