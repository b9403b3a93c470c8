//! Moves events between the default layout and a table with a state per row on the same server.

use mysql_async::Value;

use super::ranges::listed;
use super::row::get;
use super::session::{Params, Tx, params};
use super::settle::{RECORD, recorded};
use super::{MySqlStore, row_state};
use crate::adopt::{AdoptSource, AdoptionBatch, BatchTx, Counts, Moved, write_batch};
use crate::layout::RowTable;
use crate::ledger::Progress;
use crate::store::connection::Reached;
use crate::store::log_tx;
use crate::{BoxFuture, Event, Outbox, Result, Written};

impl AdoptSource for MySqlStore {
    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            let mut tx = conn.begin_read().await?;
            let counted = counts(&mut tx, &name).await;
            tx.finish(counted).await
        })
    }

    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            let name = batch.settlement.subscription.clone();
            conn.check_lease(&name)?;
            let reached = Reached::of(&batch.settlement);
            let mut tx = conn.begin().await?;
            let moved = settle_and_write(&mut tx, batch).await;
            let moved = tx.finish(moved).await?;
            if moved == Moved::Done {
                conn.remember_reached(&name, reached);
            }
            Ok(moved)
        })
    }
}

async fn counts(snapshot: &mut Tx<'_>, name: &str) -> Result<Counts> {
    // Index: the smallest one, all of it.
    let total = snapshot.query_opt("SELECT COUNT(*) FROM {schema}.events", Params::new()).await?;
    let total = total.map_or(Ok(0), |row| get::<i64>(&row, 0))?;
    let overview = log_tx::overview(snapshot, Counts::BACKLOG_MAX).await?;
    Counts::of(&overview, name, total.unsigned_abs())
}

async fn settle_and_write(tx: &mut Tx<'_>, batch: AdoptionBatch) -> Result<Moved> {
    let settlement = batch.settlement.clone();
    let (name, unpark) = (settlement.subscription, settlement.unpark);
    let progress = Progress { done: settlement.done, highest: settlement.highest, trial: settlement.trial };
    if tx.execute(RECORD, recorded(&name, settlement.epoch, &progress)).await? == 0 {
        return Ok(Moved::Fenced);
    }
    if !unpark.is_empty() {
        // Index: the primary key (subscription, position).
        let sql = format!(
            "DELETE FROM {{schema}}.parked WHERE subscription = ? AND position IN ({})",
            listed(unpark)
        );
        tx.execute(&sql, params![name]).await?;
    }
    write(tx, batch).await.map(|()| Moved::Done)
}

/// Writes the events of a batch, in the transaction that settles them.
pub(super) async fn write(tx: &mut Tx<'_>, batch: AdoptionBatch) -> Result<()> {
    write_batch(tx, batch).await
}

impl BatchTx for Tx<'_> {
    async fn write_events(&mut self, to: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
        self.write(to, events).await
    }

    async fn delete_returned(&mut self, table: &RowTable, ids: Vec<String>) -> Result<()> {
        let statement = row_state::adopt(table.layout()).and_then(|sql| sql.delete_returned);
        let Some(statement) = statement else { return Ok(()) };
        let sql = statement.replace("{ids}", &vec!["?"; ids.len()].join(", "));
        let ids: Vec<Value> = ids.into_iter().map(Value::from).collect();
        self.execute(&table.put_into_mysql(&sql), ids).await.map(drop)
    }

    async fn set_attempts(&mut self, table: &RowTable, row: &Written, attempts: u32) -> Result<()> {
        let Some(sql) = row_state::adopt(table.layout()) else { return Ok(()) };
        let limit = table.max_attempts.saturating_sub(1);
        let sql = table.put_into_mysql(sql.set_attempts);
        self.execute(&sql, params![attempts, limit, row.position.get()]).await.map(drop)
    }
}
