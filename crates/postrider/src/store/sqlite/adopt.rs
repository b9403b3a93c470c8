//! Moves events between the default layout and a table with a state per row in the same file.

use rusqlite::{Connection, params};

use super::failure::{Attempt, SqliteFailure};
use super::worker::poll_once;
use super::{SqliteStore, log_tx, settle};
use crate::adopt::{AdoptSource, AdoptionBatch, BatchTx, Counts, Moved, write_batch};
use crate::layout::RowTable;
use crate::ledger::KnownRows;
use crate::store::Settled;
use crate::{BoxFuture, Event, Outbox, Result, Written};

impl AdoptSource for SqliteStore {
    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(self.reader.read(move |snapshot| counts(snapshot, &name)))
    }

    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>> {
        Box::pin(self.writer.write(move |tx| {
            let settlement = batch.settlement.clone();
            match settle::settle(tx, settlement, &KnownRows::default())? {
                Settled::Fenced => Ok(Moved::Fenced),
                Settled::Done | Settled::ParkedChanged => write(tx, batch).map(|()| Moved::Done),
            }
        }))
    }
}

fn counts(snapshot: &mut Connection, name: &str) -> Attempt<Counts> {
    // No index: a scan of the smallest one.
    let sql = "SELECT count(*) FROM postrider_events";
    let total: i64 = snapshot.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let overview = log_tx::overview(snapshot, Counts::BACKLOG_MAX)?;
    Ok(Counts::of(&overview, name, total.unsigned_abs())?)
}

/// Writes the events of a batch, in the transaction that settles them. No step waits, so one poll completes it.
pub(super) fn write(tx: &mut Connection, batch: AdoptionBatch) -> Attempt<()> {
    poll_once(write_batch(&mut SqliteBatchTx(tx), batch))
}

struct SqliteBatchTx<'a>(&'a mut Connection);

impl BatchTx for SqliteBatchTx<'_> {
    async fn write_events(&mut self, to: &Outbox, events: Vec<Event>) -> Result<Vec<Written>> {
        to.write_all(&*self.0, events)
    }

    /// No layout on SQLite has a column for the event id.
    async fn delete_returned(&mut self, _: &RowTable, _: Vec<String>) -> Result<()> {
        Ok(())
    }

    async fn set_attempts(&mut self, table: &RowTable, row: &Written, attempts: u32) -> Result<()> {
        // Index: the primary key (id).
        let sql = table.put_into_sqlite("UPDATE {table} SET attempt_count = min(?2, ?3) WHERE id = ?1");
        let limit = table.max_attempts.saturating_sub(1);
        let mut statement = self.0.prepare_cached(&sql).map_err(SqliteFailure::from)?;
        statement.execute(params![row.position.get(), attempts, limit]).map_err(SqliteFailure::from)?;
        Ok(())
    }
}
