//! Takes the lease and loads the state, in one transaction: if the process dies before its commit, nothing has changed.

use std::sync::Arc;

use super::columns::with_refused;
use super::dialect::{RowTx, TxVerb};
use super::load::{ParkedRows, StaleMarks, log_recovered, refuse_foreign_publisher};
use super::term_rows::TermRows;
use crate::Result;
use crate::layout::RowTable;
use crate::store::lease_tx::{Locked, lock_if_free};
use crate::store::{Acquired, Epoch, LeaseRequest};

/// See [`Store::acquire`](crate::store::Store::acquire). Returns the rows of the term with the lease.
pub(super) struct TakeOver {
    pub(super) lease: LeaseRequest,
    pub(super) table: Arc<RowTable>,
    /// What to do with rows that the last owner had marked.
    pub(super) stale_marks: StaleMarks,
}

impl TxVerb for TakeOver {
    type Output = (Acquired, Option<TermRows>);

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Self::Output> {
        let Self { lease, table, stale_marks } = self;
        let subscription = match lock_if_free(tx, &lease).await? {
            Locked::Free(subscription) => subscription,
            Locked::Refused(refused) => return Ok((refused, None)),
        };
        let epoch = Epoch(subscription.epoch.0 + 1);
        let previous = tx.lease(&lease.subscription).await?;
        tx.take(&lease, epoch).await?;
        let still_marked = match stale_marks {
            StaleMarks::Keep => tx.marked_rows().await?,
            StaleMarks::Remove => {
                let name = &lease.subscription;
                log_recovered(name, tx.remove_marks(name, epoch).await?);
                Vec::new()
            }
        };
        if let Some((recent, all)) = tx.foreign_claims().await? {
            refuse_foreign_publisher(&table, recent, all)?;
        }
        let scheduled = tx.scheduled_rows(&lease.subscription).await?;
        let notes = with_refused(tx.notes(&lease.subscription).await?, tx.refused_rows().await?);
        let parked = ParkedRows::of(notes, scheduled, &table)?.with_marked(still_marked);
        if !parked.obsolete_notes.is_empty() {
            tx.delete_notes(&parked.obsolete_notes).await?;
        }
        let (mut loaded, mut rows) = parked.load(epoch, subscription, &table);
        loaded.previous = previous;
        rows.changes = tx.changes(&lease.subscription).await?;
        Ok((Acquired::Granted(Box::new(loaded)), Some(rows)))
    }
}

/// Removes the marks from rows that are not settled, before the lease is released.
pub(super) struct RemoveMarks {
    pub(super) name: String,
    pub(super) epoch: Epoch,
}

impl TxVerb for RemoveMarks {
    type Output = u64;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<u64> {
        tx.remove_marks(&self.name, self.epoch).await
    }
}
