//! Writes the events of a batch to the other outbox, in the transaction that settles them.

use super::AdoptionBatch;
use crate::layout::RowTable;
use crate::{Event, Outbox, Result, Written};

/// The steps that each database implements.
pub(crate) trait BatchTx: Send {
    /// Writes events with one call of the writer.
    fn write_events(
        &mut self,
        to: &Outbox,
        events: Vec<Event>,
    ) -> impl Future<Output = Result<Vec<Written>>> + Send;

    /// Deletes delivered rows with these event ids. An event that returns to the table it came from would otherwise
    /// conflict with its old row.
    fn delete_returned(
        &mut self,
        table: &RowTable,
        ids: Vec<String>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Records the failed attempts of a row. A row at its limit keeps one attempt; otherwise it would count as given
    /// up.
    fn set_attempts(
        &mut self,
        table: &RowTable,
        row: &Written,
        attempts: u32,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Writes the events of a batch.
pub(crate) async fn write_batch<T: BatchTx>(tx: &mut T, mut batch: AdoptionBatch) -> Result<()> {
    let table = batch.to.row_table().cloned();
    if let Some(table) = &table {
        let ids = batch.events.iter().map(|event| event.id.to_string()).collect();
        tx.delete_returned(table, ids).await?;
    }
    let mut written = Vec::with_capacity(batch.events.len());
    for events in batch.calls() {
        written.extend(tx.write_events(&batch.to, events).await?);
    }
    let Some(table) = table else { return Ok(()) };
    for (row, attempts) in written.iter().zip(batch.attempts).filter(|(_, attempts)| *attempts > 0) {
        tx.set_attempts(&table, row, attempts).await?;
    }
    Ok(())
}
