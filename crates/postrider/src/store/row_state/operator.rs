//! The commands of an operator: create a subscription, accept a new history.

use std::sync::Arc;

use super::dialect::{RowTx, TxVerb};
use crate::layout::{Ability, RowTable};
use crate::store::Start;
use crate::store::subscription::unknown;
use crate::{Code, Error, Result};

/// See [`Store::subscribe`](crate::store::Store::subscribe). One subscription per table, because a row has one state;
/// with notifications, one per handler.
pub(super) struct Subscribe {
    pub(super) name: String,
    pub(super) table: Arc<RowTable>,
    pub(super) start: Start,
}

impl TxVerb for Subscribe {
    type Answer = bool;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<bool> {
        if tx.create_subscription(&self.name).await? {
            refuse_start(tx, &self.table, self.start).await?;
            return Ok(true);
        }
        if self.table.layout().has(Ability::Notifications) {
            return Ok(false);
        }
        match tx.subscriptions().await?.into_iter().find(|other| other.name != self.name) {
            Some(other) => Err(second_subscription(&self.table, &other.name)),
            None => Ok(false),
        }
    }
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Rows that are not due are not read again.
pub(super) struct AcceptHistory {
    pub(super) name: String,
    pub(super) table: Arc<RowTable>,
    pub(super) start: Start,
}

impl TxVerb for AcceptHistory {
    type Answer = ();

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<()> {
        if !tx.accept_history(&self.name).await? {
            return Err(unknown(&self.name));
        }
        refuse_start(tx, &self.table, self.start).await?;
        tx.delete_lease(&self.name).await
    }
}

/// Refuses a start that would skip due rows.
async fn refuse_start<T: RowTx>(tx: &mut T, table: &RowTable, start: Start) -> Result<()> {
    if start == Start::Beginning {
        return Ok(());
    }
    let what = match start {
        Start::Now => {
            if !tx.has_due_row().await? {
                return Ok(());
            }
            format!("{} has undelivered rows that a start at \"now\" would skip", table.name)
        }
        _ => format!(
            "{} always starts with its first undelivered row; a position or time is not supported",
            table.name
        ),
    };
    Err(Error::new(Code::StartRefused, what))
}

/// The error of a second subscription: a row has one state.
fn second_subscription(table: &RowTable, other: &str) -> Error {
    let what = format!(
        "{} already has the subscription {other:?}, and a table with a state per row supports only one",
        table.name
    );
    Error::new(Code::SecondSubscription, what)
}
