//! Handing events over to a table with a state per row on the same server.

use mysql_async::Value;

use super::ranges::listed;
use super::row::get;
use super::session::{Params, Tx, params};
use super::settle::{RECORD, recorded};
use super::{MySqlStore, row_state};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel};
use crate::layout::RowTable;
use crate::ledger::Progress;
use crate::store::connection::Reached;
use crate::store::log_tx;
use crate::{BoxFuture, Result, Written};

impl HandsOver for MySqlStore {
    fn table(&self) -> Option<RowTable> {
        None
    }

    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            let mut tx = conn.begin_read().await?;
            let counted = counts(&mut tx, &name).await;
            tx.finish(counted).await
        })
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            let name = parcel.settlement.subscription.clone();
            conn.check_lease(&name)?;
            let reached = Reached::of(&parcel.settlement);
            let mut tx = conn.begin().await?;
            let handed_over = hand_over(&mut tx, parcel).await;
            let handed_over = tx.finish(handed_over).await?;
            if handed_over == HandedOver::Done {
                conn.remember_reached(&name, reached);
            }
            Ok(handed_over)
        })
    }
}

async fn counts(snapshot: &mut Tx<'_>, name: &str) -> Result<Counts> {
    // Index: the smallest there is, all of it.
    let total = snapshot.query_opt("SELECT COUNT(*) FROM {schema}.events", Params::new()).await?;
    let total = total.map_or(Ok(0), |row| get::<i64>(&row, 0))?;
    let overview = log_tx::overview(snapshot, Counts::BACKLOG_MAX).await?;
    Counts::of(&overview, name, total.unsigned_abs())
}

async fn hand_over(tx: &mut Tx<'_>, parcel: Parcel) -> Result<HandedOver> {
    let settlement = parcel.settlement.clone();
    let (name, unpark) = (settlement.subscription, settlement.unpark);
    let progress = Progress { done: settlement.done, highest: settlement.highest, trial: settlement.trial };
    if tx.execute(RECORD, recorded(&name, settlement.epoch, &progress)).await? == 0 {
        return Ok(HandedOver::Fenced);
    }
    if !unpark.is_empty() {
        // Index: the primary key (subscription, position).
        let sql = format!(
            "DELETE FROM {{schema}}.parked WHERE subscription = ? AND position IN ({})",
            listed(unpark)
        );
        tx.execute(&sql, params![name]).await?;
    }
    write(tx, parcel).await.map(|()| HandedOver::Done)
}

/// Writes the events of a parcel, in the transaction that settles them.
pub(super) async fn write(tx: &mut Tx<'_>, mut parcel: Parcel) -> Result<()> {
    let table = parcel.to.table().cloned();
    let needs = table.as_ref().and_then(|table| row_state::adopt(table.layout()));
    if let (Some(table), Some(statement)) = (&table, needs.and_then(|needs| needs.make_way)) {
        make_way(tx, table, statement, &parcel).await?;
    }
    let mut written: Vec<Written> = Vec::with_capacity(parcel.events.len());
    for call in parcel.calls() {
        written.extend(tx.write(&parcel.to, call).await?);
    }
    let (Some(table), Some(needs)) = (table, needs) else { return Ok(()) };
    let sql = table.put_into_mysql(needs.tried);
    let tried = written.iter().zip(&parcel.attempts).filter(|(_, attempts)| **attempts > 0);
    for (written, attempts) in tried {
        let most = table.max_attempts.saturating_sub(1);
        tx.execute(&sql, params![*attempts, most, written.position.get()]).await?;
    }
    Ok(())
}

/// Makes way for events that come back to the table they were handed over from.
async fn make_way(tx: &mut Tx<'_>, table: &RowTable, statement: &str, parcel: &Parcel) -> Result<()> {
    let ids: Vec<Value> = parcel.events.iter().map(|event| Value::from(event.id.to_string())).collect();
    let places = vec!["?"; ids.len()].join(", ");
    let sql = statement.replace("{ids}", &places);
    tx.execute(&table.put_into_mysql(&sql), ids).await.map(|_| ())
}
