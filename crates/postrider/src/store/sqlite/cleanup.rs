//! Deleting events by hand; see [`Store::clean_up`](crate::store::Store::clean_up).

use rusqlite::Connection;

use super::SqliteStore;
use super::failure::Attempt;
use super::log_tx::SqliteTx;
use super::worker::poll_once;
use crate::Result;
use crate::operate::CleanupBatch;
use crate::store::{Purged, cleanup_tx};

fn clean_up(tx: &mut Connection, batch: &CleanupBatch) -> Attempt<Purged> {
    poll_once(cleanup_tx::clean_up(&mut SqliteTx(tx), batch))
}

/// A count needs no write lock.
pub(super) async fn run(store: &SqliteStore, batch: CleanupBatch) -> Result<Purged> {
    match batch.audit {
        Some(_) => store.writer.write(move |tx| clean_up(tx, &batch)).await,
        None => store.reader.read(move |snapshot| clean_up(snapshot, &batch)).await,
    }
}
