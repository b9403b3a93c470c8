//! Who may still commit an event at a position that was taken long ago.

use std::collections::BTreeSet;
use std::time::Duration;

use super::history::{last_position, started, timeline};
use super::row;
use super::session::Work;
use crate::{Position, Result};

/// Who has the outbox open for writing: every name its transaction goes by, as a prepared one may change the
/// first. One look at the lock table, so that the names belong together. No index: shared memory.
/// One more name is that of the server: the writers of another prove nothing.
pub(super) const WRITERS: &str = concat!(
    "
    WITH locks AS MATERIALIZED (
        SELECT locktype, database, relation, mode, virtualtransaction, transactionid
        FROM pg_locks
        WHERE granted
    ), writers AS (
        SELECT virtualtransaction
        FROM locks
        WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
          AND relation = '{schema}.events'::regclass
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    SELECT virtualtransaction FROM writers
    UNION
    SELECT 'xid ' || l.transactionid::text
    FROM locks AS l JOIN writers AS w ON w.virtualtransaction = l.virtualtransaction
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
    UNION ALL
    SELECT 'server ' || ",
    started!(),
    " || ' ' || ",
    timeline!()
);

/// Looks for writers to end, at most, and how long between two of them. Most transactions are shorter than that;
/// a lease is longer.
const LOOKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction is over: what a later snapshot does not show there, nobody will ever
/// see. That is what was deleted, and what was rolled back. Zero if some writer takes too long.
///
/// The proof is that of the [book of holes](crate::store::holes). The sequence is read before the writers are
/// listed, so whoever took a position up to it is in the list, or has ended. The floors of other subscriptions
/// are no such proof: one that began at a position of the operator's choice never looked at what is below.
pub(super) async fn decided_up_to(work: &Work<'_>) -> Result<Position> {
    let last = last_position(work).await?;
    let mut awaited = list(work).await?;
    for _ in 0..LOOKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let present = list(work).await?;
        awaited.retain(|name| present.contains(name));
    }
    Ok(Position::ZERO)
}

/// The names of all writers. Within a transaction the server is always the same, so its name says nothing.
async fn list(work: &Work<'_>) -> Result<BTreeSet<String>> {
    let rows = work.query(WRITERS, &[]).await?;
    let names = rows.iter().map(|row| row::get::<String>(row, 0)).collect::<Result<BTreeSet<_>>>()?;
    Ok(names.into_iter().filter(|name| !name.starts_with("server ")).collect())
}
