//! Handing rows over to the layout `postrider` in the same database.

use super::super::adopt::write;
use super::super::row::get;
use super::super::time::Time;
use super::{PostgresRowStore, lost, own, settle};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel, taken};
use crate::layout::RowTable;
use crate::store::row_state::plan::SettlePlan;
use crate::{BoxFuture, Result};

impl HandsOver for PostgresRowStore {
    fn table(&self) -> Option<RowTable> {
        Some(self.0.table.clone())
    }

    fn counts(&self, _: &str) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move {
            let mut turn = self.0.reader.lock().await?;
            let snapshot = turn.begin_read().await?;
            let limit = i64::from(self.0.table.max_attempts);
            let row = snapshot.query_opt(self.0.sql.counts, &[&limit]).await?.ok_or_else(lost)?;
            let count = |at| get::<i64>(&row, at).map(i64::unsigned_abs);
            let time = |at| get::<Option<Time>>(&row, at).map(|time| time.map(|time| time.0));
            let (given_up, unrouted) = (count(3)?, count(5)?);
            Ok(Counts {
                pending: count(0)?,
                in_flight: count(1)?,
                retrying: count(2)?,
                unrouted,
                given_up: given_up.saturating_sub(unrouted),
                delivered: count(4)?,
                oldest: time(6)?,
                newest: time(7)?,
            })
        })
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let mut turn = self.0.settler.lock().await?;
            let settlement = &parcel.settlement;
            turn.check_lease(&settlement.subscription)?;
            let (epoch, plan) = self.0.with_rows(|known| (known.epoch, SettlePlan::of(settlement, known)));
            if epoch != settlement.epoch {
                return Ok(HandedOver::Fenced);
            }
            let server = turn.incarnation()?;
            let work = turn.begin().await?;
            match settle::record_in(&self.0, &work, settlement, &plan, &server).await? {
                None => return Ok(HandedOver::Fenced),
                Some(changed) if changed < plan.rows() => return Err(taken(plan.rows() - changed)),
                Some(_) => {
                    own::keep(&work, &plan.done.ids).await?;
                    write(&work, parcel).await?;
                }
            }
            work.commit().await?;
            self.0.with_rows(|known| plan.enter(known));
            Ok(HandedOver::Done)
        })
    }
}
