//! Handing rows over to the layout `postrider` in the same file.

use rusqlite::Connection;

use super::super::adopt::write;
use super::super::failure::{Attempt, Failure};
use super::sql::Names;
use super::{SqliteRowStore, own, settle};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel, taken};
use crate::layout::RowTable;
use crate::store::row_state::plan::SettlePlan;
use crate::{BoxFuture, Result, Timestamp};

impl HandsOver for SqliteRowStore {
    fn table(&self) -> Option<RowTable> {
        Some(self.0.names.table.clone())
    }

    fn counts(&self, _: &str) -> BoxFuture<'_, Result<Counts>> {
        let names = self.0.names.clone();
        Box::pin(self.0.reader.read(move |snapshot| counts(snapshot, &names)))
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let _handout = self.0.session.handout.lock().await;
            let settlement = &parcel.settlement;
            let (epoch, plan) =
                self.0.session.with_rows(|known| (known.epoch, SettlePlan::of(settlement, known)));
            if epoch != settlement.epoch {
                return Ok(HandedOver::Fenced);
            }
            let (names, name) = (self.0.names.clone(), settlement.subscription.clone());
            let act = move |tx: &Connection| {
                match settle::record(tx, &names, &name, epoch, &plan)? {
                    None => return Ok(None),
                    Some(changed) if changed < plan.rows() => {
                        return Err(Failure::from(taken(plan.rows() - changed)));
                    }
                    Some(_) => {
                        own::keep(tx, &plan.done.ids)?;
                        write(tx, parcel)?;
                    }
                }
                Ok(Some(plan))
            };
            let Some(plan) = self.0.writer.write(act).await? else { return Ok(HandedOver::Fenced) };
            self.0.session.with_rows(|known| plan.enter(known));
            Ok(HandedOver::Done)
        })
    }
}

fn counts(snapshot: &Connection, names: &Names) -> Attempt<Counts> {
    let counts = snapshot.query_row(&names.put_into(names.sql.counts), [], |row| {
        let count = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
        let time = |at| row.get::<_, Option<i64>>(at).map(|micros| micros.map(Timestamp::from_micros));
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
    });
    Ok(counts?)
}
