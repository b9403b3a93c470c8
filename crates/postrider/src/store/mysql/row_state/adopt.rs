//! Handing rows over to the layout `postrider` on the same server.

use super::super::adopt::write;
use super::super::row::{get, get_opt};
use super::super::session::{Params, Tx, params};
use super::settle::outcome;
use super::sql::Sql;
use super::{MySqlRowStore, Rows, own};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel, taken};
use crate::layout::RowTable;
use crate::store::row_state::lost;
use crate::store::row_state::plan::SettlePlan;
use crate::{BoxFuture, Result, Timestamp};

impl HandsOver for MySqlRowStore {
    fn table(&self) -> Option<RowTable> {
        Some(self.0.table.clone())
    }

    fn counts(&self, _: &str) -> BoxFuture<'_, Result<Counts>> {
        Box::pin(async move {
            let mut turn = self.0.reader.lock().await?;
            let mut work = turn.begin_read().await?;
            let counted = counts(&mut work, &self.0.sql).await;
            work.finish(counted).await
        })
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let mut turn = self.0.settler.lock().await?;
            let settlement = &parcel.settlement;
            turn.check_lease(&settlement.subscription)?;
            let (epoch, plan) =
                self.0.session.with_rows(|known| (known.epoch, SettlePlan::of(settlement, known)));
            if epoch != settlement.epoch {
                return Ok(HandedOver::Fenced);
            }
            let mut work = turn.begin().await?;
            let handed_over = hand_over(&self.0, &mut work, &plan, parcel).await;
            let handed_over = work.finish(handed_over).await?;
            if handed_over == HandedOver::Done {
                self.0.session.with_rows(|known| plan.enter(known));
            }
            Ok(handed_over)
        })
    }
}

async fn counts(snapshot: &mut Tx<'_>, sql: &Sql) -> Result<Counts> {
    let row = snapshot.query_opt(sql.counts, Params::new()).await?.ok_or_else(lost)?;
    let count = |at| get::<i64>(&row, at).map(i64::unsigned_abs);
    let time = |at| get_opt::<i64>(&row, at).map(|micros| micros.map(Timestamp::from_micros));
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
}

async fn hand_over(rows: &Rows, work: &mut Tx<'_>, plan: &SettlePlan, parcel: Parcel) -> Result<HandedOver> {
    let settlement = &parcel.settlement;
    // Index: the primary key (name).
    let fence = "UPDATE {schema}.subscriptions
                 SET trial = NULL, trial_deaths = 0, updated_at = UTC_TIMESTAMP(6)
                 WHERE name = ? AND epoch = ?";
    let owner = params![settlement.subscription.as_str(), settlement.epoch.0];
    if work.execute(fence, owner).await? == 0 {
        return Ok(HandedOver::Fenced);
    }
    let remember = "SET @postrider_owns = 1, @postrider_done = ?";
    work.execute(remember, params![outcome(rows.sql.ids, &plan.done)?]).await?;
    let [done, ..] = rows.sql.outcomes;
    let changed = usize::try_from(work.execute(done, Params::new()).await?).unwrap_or(usize::MAX);
    if changed < plan.rows() {
        return Err(taken(plan.rows() - changed));
    }
    if !plan.forgotten.is_empty() {
        // Index: the primary key (row_id).
        let forgotten = rows.sql.ids.listed(plan.forgotten.iter().map(String::as_str));
        for of in ["row_notes", "row_refused"] {
            let sql = format!("DELETE FROM {{schema}}.{of} WHERE row_id IN ({forgotten})");
            work.execute(&sql, Params::new()).await?;
        }
    }
    own::keep(work, &rows.sql, &plan.done.ids).await?;
    write(work, parcel).await.map(|()| HandedOver::Done)
}
