//! Who may still commit an event at a position that was taken long ago.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::Row;

use super::history::{last_position, started, timeline};
use super::row;
use super::session::Tx;
use crate::store::writer_watch::Writers;
use crate::{Position, Result};

/// Who has the outbox open for writing: every name its transaction goes by, as a prepared one may change the
/// first. One look at the lock table, so that the names belong together. No index: shared memory.
/// One more name is that of the server: the writers of another prove nothing.
///
/// Beside the name stands a word if the writer waits for its application. It is another one as soon as the writer
/// has run anything: the time its state changed stands in it. A prepared transaction never runs anything again.
/// Of the sessions of others only members of pg_read_all_stats may know; without it there is no word, and a
/// transaction that stays open long keeps more holes alive. The activity of others is the same all through a
/// transaction, so two lists in one transaction are equal.
pub(super) const WRITERS: &str = concat!(
    "
    WITH locks AS MATERIALIZED (
        SELECT locktype, database, relation, mode, virtualtransaction, transactionid, pid
        FROM pg_locks
        WHERE granted
    ), writers AS (
        SELECT virtualtransaction
        FROM locks
        WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
          AND relation = '{schema}.events'::regclass
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ), names AS (
        SELECT l.pid, l.virtualtransaction AS name
        FROM locks AS l JOIN writers AS w ON w.virtualtransaction = l.virtualtransaction
        UNION
        SELECT l.pid, 'xid ' || l.transactionid::text
        FROM locks AS l JOIN writers AS w ON w.virtualtransaction = l.virtualtransaction
        WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
    )
    SELECT n.name, CASE
        WHEN n.pid IS NULL THEN 'prepared'
        WHEN a.backend_type = 'client backend'
             AND a.state IN ('idle in transaction', 'idle in transaction (aborted)')
        THEN concat_ws(' ', n.pid, a.backend_start, a.xact_start, a.state_change)
    END
    FROM names AS n LEFT JOIN pg_stat_activity AS a ON a.pid = n.pid
    UNION ALL
    SELECT 'server ' || ",
    started!(),
    " || ' ' || ",
    timeline!(),
    ", NULL"
);

/// The names and words of an answer.
pub(super) fn read(rows: &[Row]) -> Result<Writers> {
    rows.iter().map(|row| Ok((row::get(row, 0)?, row::get(row, 1)?))).collect()
}

/// Looks for writers to end, at most, and how long between two of them. Most transactions are shorter than that;
/// a lease is longer.
const LOOKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction has ended: an event that a later snapshot does not show there was deleted
/// or rolled back, and will never appear. Zero if some writer takes too long.
///
/// The proof is that of the [book of holes](crate::store::holes). The sequence is read before the writers are
/// listed, so a writer that took a position up to it is in the list, or has ended. The floors of other subscriptions
/// are no such proof: one that began at a position of the operator's choice never looked at what is below.
pub(super) async fn decided_up_to(tx: &Tx<'_>) -> Result<Position> {
    let last = last_position(tx).await?;
    let mut awaited = list(tx).await?;
    for _ in 0..LOOKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let present = list(tx).await?;
        awaited.retain(|name| present.contains(name));
    }
    Ok(Position::ZERO)
}

/// The names of all writers. Within a transaction the server is always the same, so its name says nothing.
async fn list(tx: &Tx<'_>) -> Result<BTreeSet<String>> {
    let writers = read(&tx.query(WRITERS, &[]).await?)?;
    Ok(writers.into_keys().filter(|name| !name.starts_with("server ")).collect())
}
