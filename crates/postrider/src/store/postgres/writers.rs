//! Which transactions may still commit an event at a position that was taken earlier.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::Row;

use super::history::{last_position, started, timeline};
use super::row;
use super::session::Tx;
use crate::store::writer_watch::Writers;
use crate::{Position, Result};

/// The transactions that have the outbox open for writing. Each is listed under all its names, because PREPARE
/// TRANSACTION may change the first. The lock table is read once, so that the names are consistent. No index: shared
/// memory. One more name identifies the server: the writers of another server prove nothing.
///
/// The second column is the idle token of a writer that waits for its application. It contains the time of the last
/// state change, so it changes as soon as the writer runs anything. A prepared transaction never runs anything again.
/// Only members of pg_read_all_stats see the sessions of other users; without it there is no token, and a transaction
/// that stays open for long keeps more holes open. pg_stat_activity does not change within a transaction, so two lists
/// in one transaction are equal.
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

/// The names and idle tokens of an answer.
pub(super) fn read(rows: &[Row]) -> Result<Writers> {
    rows.iter().map(|row| Ok((row::get(row, 0)?, row::get(row, 1)?))).collect()
}

/// How many times, and how often, [`decided_up_to`] checks whether the writers have ended. Most transactions are
/// shorter than that, and a lease is longer.
const CHECKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction has ended: an event that a later snapshot does not show there was deleted
/// or rolled back, and will never appear. Zero if some writer takes too long.
///
/// The proof is that of [holes](crate::store::holes). The sequence is read before the writers are listed, so a writer
/// that took a position up to it is in the list, or has ended. The floors of other subscriptions are no proof: a
/// subscription that began at a position of the operator's choice never examined the positions below.
pub(super) async fn decided_up_to(tx: &Tx<'_>) -> Result<Position> {
    let last = last_position(tx).await?;
    let mut awaited = list(tx).await?;
    for _ in 0..CHECKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let present = list(tx).await?;
        awaited.retain(|name| present.contains(name));
    }
    Ok(Position::ZERO)
}

/// The names of all writers, without the server's: within a transaction the server cannot change.
async fn list(tx: &Tx<'_>) -> Result<BTreeSet<String>> {
    let writers = read(&tx.query(WRITERS, &[]).await?)?;
    Ok(writers.into_keys().filter(|name| !name.starts_with("server ")).collect())
}
