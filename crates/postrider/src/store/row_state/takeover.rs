//! Takes the lease and loads the state, in one transaction: if the process dies before its commit, nothing has changed.

use std::sync::Arc;

use super::dialect::{RowTx, TxVerb};
use super::load::{SetAside, StaleMarks, log_recovered, refuse_foreign_publisher};
use super::session_rows::SessionRows;
use crate::layout::RowTable;
use crate::store::{Acquired, Epoch, LeaseRequest};
use crate::{Code, Error, Result};

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease come the rows of the session.
pub(super) struct TakeOver {
    pub(super) lease: LeaseRequest,
    pub(super) table: Arc<RowTable>,
    /// What to do with rows that the last owner had marked.
    pub(super) stale_marks: StaleMarks,
}

impl TxVerb for TakeOver {
    type Answer = (Acquired, Option<SessionRows>);

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Self::Answer> {
        let Self { lease, table, stale_marks } = self;
        let name = lease.subscription.as_str();
        // Relays on standby ask often; they must not lock the row that the owner settles on. After the lock the
        // answer may have changed, so it is asked again.
        if let Some(refused) = tx.refusal(&lease).await? {
            return Ok((refused, None));
        }
        let (last, row) = tx.lock_subscription(name).await?.ok_or_else(|| unknown(name))?;
        if let Some(refused) = tx.refusal(&lease).await? {
            return Ok((refused, None));
        }
        let epoch = Epoch(last.0 + 1);
        tx.take_lease(&lease, epoch).await?;
        let kept = match stale_marks {
            StaleMarks::Keep => tx.marked_rows().await?,
            StaleMarks::GiveBack => {
                log_recovered(name, tx.give_back(name, epoch).await?);
                Vec::new()
            }
        };
        if let Some((recent, all)) = tx.foreign_marks().await? {
            refuse_foreign_publisher(&table, recent, all)?;
        }
        let waiting = tx.waiting().await?;
        let aside = SetAside::of(tx.notes().await?, waiting, &table)?.keeping(kept);
        // Notes that no longer match their rows.
        if !aside.stale.is_empty() {
            tx.forget(&aside.stale).await?;
        }
        let (loaded, known) = aside.load(epoch, row, &table);
        Ok((Acquired::Granted(Box::new(loaded)), Some(known)))
    }
}

/// Takes the marks off rows that are not settled, before the lease is released.
pub(super) struct GiveBack {
    pub(super) name: String,
    pub(super) epoch: Epoch,
}

impl TxVerb for GiveBack {
    type Answer = u64;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<u64> {
        tx.give_back(&self.name, self.epoch).await
    }
}

/// The error for a subscription that does not exist.
pub(super) fn unknown(subscription: &str) -> Error {
    Error::new(Code::SubscriptionUnknown, format!("there is no subscription {subscription:?}"))
}
