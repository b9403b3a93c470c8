//! Moves events between the default layout and a table with a state per row in the same database.

use super::failure::failed;
use super::row::get;
use super::session::Tx;
use super::statement::{Params, query_unnamed};
use super::{PostgresStore, row_state, settle};
use crate::adopt::{AdoptSource, AdoptionBatch, BatchTx, Counts, Moved, write_batch};
use crate::layout::{Ability, RowTable};
use crate::store::connection::Reached;
use crate::store::{Settled, log_tx};
use crate::{BoxFuture, Event, Outbox, Result, Written};

impl AdoptSource for PostgresStore {
    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            let mut snapshot = conn.begin_read().await?;
            // Index: the primary key (position), all of it.
            let total = snapshot.query_opt("SELECT count(*) FROM ONLY {schema}.events", &[]).await?;
            let total = total.map_or(Ok(0), |row| get::<i64>(&row, 0))?;
            let overview = log_tx::overview(&mut snapshot, Counts::BACKLOG_MAX).await?;
            Counts::of(&overview, &name, total.unsigned_abs())
        })
    }

    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            let settlement = batch.settlement.clone();
            let name = settlement.subscription.clone();
            conn.check_lease(&name)?;
            let server = conn.server()?;
            let reached = Reached::of(&settlement);
            let tx = conn.begin().await?;
            if settle::settle_in(&tx, settlement, &server).await? == Settled::Fenced {
                return Ok(Moved::Fenced);
            }
            write(&tx, batch).await?;
            tx.commit().await?;
            conn.remember_reached(&name, reached);
            Ok(Moved::Done)
        })
    }
}

/// Writes the events of a batch, in the transaction that settles them.
pub(super) async fn write(tx: &Tx<'_>, batch: AdoptionBatch) -> Result<()> {
    write_batch(&mut PostgresBatchTx(tx), batch).await
}

struct PostgresBatchTx<'a>(&'a Tx<'a>);

impl PostgresBatchTx<'_> {
    /// Runs a statement about a table that is not the store's own.
    async fn run(&self, table: &RowTable, statement: &str, params: Params<'_>) -> Result<()> {
        let sql = table.put_into(statement);
        let ran = async { query_unnamed(self.0.client(), &sql, params).await.map_err(failed) };
        self.0.in_time(ran).await.map(drop)
    }
}

impl BatchTx for PostgresBatchTx<'_> {
    async fn write_events(&mut self, to: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
        // Rows with UUIDs and the same creation time are ordered by the number of their statement.
        if !to.row_table().is_some_and(|table| table.layout().has(Ability::Uuids)) {
            return self.0.in_time(to.write_all(self.0.client(), events)).await;
        }
        let mut written = Vec::with_capacity(events.len());
        for event in events {
            written.push(self.0.in_time(to.write(self.0.client(), event)).await?);
        }
        Ok(written)
    }

    async fn delete_returned(&mut self, table: &RowTable, ids: Vec<String>) -> Result<()> {
        match row_state::adopt(table.layout()).delete_returned {
            Some(statement) => self.run(table, statement, &[&ids]).await,
            None => Ok(()),
        }
    }

    async fn set_attempts(&mut self, table: &RowTable, row: &Written, attempts: u32) -> Result<()> {
        let id = match table.layout().has(Ability::Uuids) {
            true => row.id.to_string(),
            false => row.position.to_string(),
        };
        let (attempts, limit) = (i64::from(attempts), i64::from(table.max_attempts));
        let statement = row_state::adopt(table.layout()).set_attempts;
        self.run(table, statement, &[&id, &attempts, &limit]).await
    }
}
