//! Handing events over to a table with a state per row in the same file.

use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::{SqliteStore, log_tx, settle};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel};
use crate::layout::RowTable;
use crate::ledger::KnownRows;
use crate::store::Settled;
use crate::{BoxFuture, Result};

impl HandsOver for SqliteStore {
    fn table(&self) -> Option<RowTable> {
        None
    }

    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(self.reader.read(move |snapshot| counts(snapshot, &name)))
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(self.writer.write(move |tx| {
            let settlement = parcel.settlement.clone();
            match settle::settle(tx, settlement, &KnownRows::default())? {
                Settled::Fenced => Ok(HandedOver::Fenced),
                Settled::Done => write(tx, parcel).map(|()| HandedOver::Done),
            }
        }))
    }
}

fn counts(snapshot: &mut Connection, name: &str) -> Attempt<Counts> {
    // No index: a scan of the smallest there is.
    let sql = "SELECT count(*) FROM postrider_events";
    let total: i64 = snapshot.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let overview = log_tx::overview(snapshot, Counts::BACKLOG_MAX)?;
    Ok(Counts::of(&overview, name, total.unsigned_abs())?)
}

/// Writes the events of a parcel, in the transaction that settles them.
pub(super) fn write(tx: &Connection, mut parcel: Parcel) -> Attempt<()> {
    let calls = parcel.calls();
    let Parcel { to, attempts, .. } = parcel;
    let mut written = Vec::with_capacity(attempts.len());
    for call in calls {
        written.extend(to.write_all(tx, call)?);
    }
    let Some(table) = to.table() else { return Ok(()) };
    // Index: the primary key (id). Who has used up its tries has one left, or it would count as given up.
    let sql = table.put_into_sqlite("UPDATE {table} SET attempt_count = min(?2, ?3) WHERE id = ?1");
    for (written, attempts) in written.iter().zip(attempts).filter(|(_, attempts)| *attempts > 0) {
        let most = table.max_attempts.saturating_sub(1);
        tx.prepare_cached(&sql)?.execute(params![written.position.get(), attempts, most])?;
    }
    Ok(())
}
