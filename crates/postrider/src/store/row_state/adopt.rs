//! Handing rows over to the layout `postrider` in the same database.

use std::sync::Arc;

use super::dialect::{Role, RowConnection, RowCounts, RowDialect, RowTx, TxVerb};
use super::plan::SettlePlan;
use super::store::RowStateStore;
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel, taken};
use crate::layout::RowTable;
use crate::{BoxFuture, Result};

impl<D: RowDialect> HandsOver for RowStateStore<D> {
    fn table(&self) -> Option<RowTable> {
        Some(RowTable::clone(self.0.dialect.table()))
    }

    fn counts(&self, _: &str) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move { self.0.dialect.connection(Role::Reader).await?.read_snapshot(CountRows).await })
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let mut connection = self.0.dialect.connection(Role::Settler).await?;
            connection.check_lease(&parcel.settlement.subscription)?;
            let Some(plan) = self.0.plan(&parcel.settlement) else { return Ok(HandedOver::Fenced) };
            let plan = Arc::new(plan);
            let handed_over = connection.write(HandOver { plan: plan.clone(), parcel }).await?;
            if handed_over == HandedOver::Done {
                self.0.session.with_rows(|known| Arc::unwrap_or_clone(plan).enter(known));
            }
            Ok(handed_over)
        })
    }
}

/// See [`HandsOver::counts`].
struct CountRows;

impl TxVerb for CountRows {
    type Answer = Counts;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Counts> {
        let RowCounts { by_state, undelivered: [oldest, newest] } = tx.counts().await?;
        let [pending, in_flight, retrying, given_up, delivered, unrouted] = by_state;
        let given_up = given_up.saturating_sub(unrouted);
        Ok(Counts { pending, in_flight, retrying, unrouted, given_up, delivered, oldest, newest })
    }
}

/// See [`HandsOver::hand_over`].
struct HandOver {
    plan: Arc<SettlePlan>,
    parcel: Parcel,
}

impl TxVerb for HandOver {
    type Answer = HandedOver;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<HandedOver> {
        let Self { plan, parcel } = self;
        let Some(changed) = tx.record(&parcel.settlement, &plan).await? else {
            return Ok(HandedOver::Fenced);
        };
        if changed < plan.rows() {
            return Err(taken(plan.rows() - changed));
        }
        tx.keep(&plan.done.ids).await?;
        tx.write(parcel).await.map(|()| HandedOver::Done)
    }
}
