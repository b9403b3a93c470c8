//! The commands of an operator: create a subscription, accept a new history.

use std::sync::Arc;

use super::dialect::{RowTx, TxVerb};
use crate::layout::{Ability, RowTable};
use crate::operate::{HandlerEntry, SubscriptionAction, SubscriptionChange};
use crate::store::Start;
use crate::store::audit_tx::NewAudit;
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
    type Output = bool;

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
    type Output = ();

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<()> {
        if !tx.accept_history(&self.name).await? {
            return Err(unknown(&self.name));
        }
        refuse_start(tx, &self.table, self.start).await?;
        tx.delete_lease(&self.name).await
    }
}

/// See [`Store::change_subscription`](crate::store::Store::change_subscription). A row has its own state, so there is no
/// progress to move, and removing the subscription would only forget which rows Postrider has parked.
pub(super) struct ChangeSubscription {
    pub(super) change: SubscriptionChange,
    pub(super) table: Arc<RowTable>,
}

impl TxVerb for ChangeSubscription {
    type Output = bool;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<bool> {
        let Self { change: SubscriptionChange { subscription: name, action, audit, .. }, table } = self;
        let changed = match action {
            SubscriptionAction::Add(_) if table.layout().has(Ability::Notifications) => {
                return Err(not_positioned(&table, "a handler registers itself when its relay starts"));
            }
            SubscriptionAction::Add(start) => Subscribe { name: name.clone(), table, start }.run(tx).await?,
            SubscriptionAction::AcceptHistory(start) => {
                AcceptHistory { name: name.clone(), table, start }.run(tx).await?;
                true
            }
            SubscriptionAction::Move(_) => {
                return Err(not_positioned(&table, "change the state of rows in your table instead"));
            }
            SubscriptionAction::Remove => {
                return Err(not_positioned(&table, "stop its relay; the rows stay as they are"));
            }
        };
        if changed {
            tx.insert_audit(NewAudit::of(&name, &audit)).await?;
        }
        Ok(changed)
    }
}

/// See [`Store::handlers`](crate::store::Store::handlers).
pub(super) struct ReadHandlers;

impl TxVerb for ReadHandlers {
    type Output = Vec<HandlerEntry>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<HandlerEntry>> {
        let mut found = Vec::new();
        for of in tx.registered().await? {
            let aliases = tx.aliases_of(&of.handler).await?;
            found.push(HandlerEntry {
                handler: of.handler,
                aliases,
                event_type: of.pattern,
                since: of.since,
                registered_at: of.registered_at,
                searched_at: of.searched_at,
            });
        }
        Ok(found)
    }
}

/// The error of a layout whose subscriptions have no progress of their own.
pub(super) fn not_positioned(table: &RowTable, hint: &'static str) -> Error {
    let what = format!(
        "subscriptions of layout {} have no progress of their own: each row of {} has its state",
        table.layout().name(),
        table.name
    );
    Error::new(Code::LayoutDiffers, what).with_effect("nothing was changed").with_hint(hint)
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
