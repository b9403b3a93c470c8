//! Moves rows to the layout `postrider` in the same database.

use std::sync::Arc;

use super::dialect::{Role, RowConnection, RowCounts, RowDialect, RowTx, TxVerb};
use super::plan::SettlePlan;
use super::store::RowStateStore;
use crate::adopt::{AdoptSource, AdoptionBatch, Counts, Moved, rows_changed};
use crate::layout::RowTable;
use crate::{BoxFuture, Result};

impl<D: RowDialect> AdoptSource for RowStateStore<D> {
    fn table(&self) -> Option<RowTable> {
        Some(RowTable::clone(self.0.dialect.table()))
    }

    fn counts(&self, _: &str) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move { self.0.dialect.connection(Role::Reader).await?.read_snapshot(CountRows).await })
    }

    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>> {
        Box::pin(async move {
            let _handout = self.0.term.handout.lock().await;
            let mut connection = self.0.dialect.connection(Role::Settler).await?;
            connection.leases().check_lease(&batch.settlement.subscription)?;
            let Some(plan) = self.0.plan(&batch.settlement) else { return Ok(Moved::Fenced) };
            let plan = Arc::new(plan);
            let moved = connection.write(MoveBatch { plan: plan.clone(), batch }).await?;
            if moved == Moved::Done {
                self.0.term.with_rows(|known| Arc::unwrap_or_clone(plan).apply(known));
            }
            Ok(moved)
        })
    }
}

/// See [`AdoptSource::counts`].
struct CountRows;

impl TxVerb for CountRows {
    type Output = Counts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Counts> {
        let RowCounts { by_state, undelivered: [oldest, newest] } = tx.counts().await?;
        let [pending, in_flight, retrying, given_up, delivered, unrouted] = by_state;
        let given_up = given_up.saturating_sub(unrouted);
        Ok(Counts { pending, in_flight, retrying, unrouted, given_up, delivered, oldest, newest })
    }
}

/// See [`AdoptSource::move_batch`].
struct MoveBatch {
    plan: Arc<SettlePlan>,
    batch: AdoptionBatch,
}

impl TxVerb for MoveBatch {
    type Output = Moved;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Moved> {
        let Self { plan, batch } = self;
        let Some(changed) = tx.record(&batch.settlement, &plan).await? else {
            return Ok(Moved::Fenced);
        };
        if changed < plan.rows() {
            return Err(rows_changed(plan.rows() - changed));
        }
        tx.exclude_from_retention(&plan.done.ids).await?;
        tx.write(batch).await.map(|()| Moved::Done)
    }
}
