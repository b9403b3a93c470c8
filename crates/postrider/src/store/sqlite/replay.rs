//! Finished events that are delivered again.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::failure::Attempt;
use super::lease::now;
use super::log_tx::SqliteTx;
use super::worker::poll_once;
use crate::ledger::ParkedState;
use crate::operate::{ReplayBatch, ReplayCandidate, ReplayedBatch};
use crate::store::replay_tx::{self, ReplayTx};
use crate::store::row_limit;
use crate::{Position, Result, Timestamp};

/// Index: the primary key (position), one range; (subscription, position) for each row.
const CANDIDATES: &str = "
    SELECT e.position, e.time, e.expires_at, e.type,
           coalesce(e.key, replace(replace(e.aggregate_type, '%', '%25'), '/', '%2F') || '/' || e.aggregate_id),
           EXISTS (SELECT 1 FROM postrider_parked AS p WHERE p.subscription = ?1 AND p.position = e.position)
    FROM postrider_events AS e
    WHERE e.position > ?2 AND e.position <= ?3
    ORDER BY e.position
    LIMIT ?4";

/// Index: the primary keys (position) and (subscription, position).
const PARK: &str = "
    INSERT INTO postrider_parked (subscription, position, key, state, attempts, parked_at, updated_at, event_id,
                                  redelivery)
    SELECT ?1, position, ?3, ?4, 0, ?5, ?5, id, 'replay' FROM postrider_events WHERE position = ?2";

fn replay(tx: &mut Connection, batch: &ReplayBatch) -> Attempt<ReplayedBatch> {
    poll_once(replay_tx::replay(&mut SqliteTx(tx), batch))
}

/// See [`Store::replay`](crate::store::Store::replay). A count needs no write lock.
pub(super) async fn run(store: &SqliteStore, batch: ReplayBatch) -> Result<ReplayedBatch> {
    match batch.audit {
        Some(_) => store.writer.write(move |tx| replay(tx, &batch)).await,
        None => store.reader.read(move |snapshot| replay(snapshot, &batch)).await,
    }
}

/// Type and key, if both are valid: SQLite stores any bytes as text.
fn names(row: &Row<'_>) -> rusqlite::Result<Option<(String, Option<String>)>> {
    let text = |value: ValueRef<'_>| value.as_str().ok().map(str::to_owned);
    let event_type = text(row.get_ref(3)?);
    let key = match row.get_ref(4)? {
        ValueRef::Null => Some(None),
        value => text(value).map(Some),
    };
    Ok(event_type.zip(key))
}

impl SqliteTx<'_> {
    fn insert_again(&self, name: &str, state: ParkedState, events: &[ReplayCandidate]) -> Attempt<()> {
        let (now, mut statement) = (now(self.0)?, self.0.prepare_cached(PARK)?);
        for event in events {
            let key = event.names.as_ref().and_then(|(_, key)| key.as_deref());
            statement.execute(params![name, event.position.get(), key, state.as_str(), now])?;
        }
        Ok(())
    }
}

impl ReplayTx for SqliteTx<'_> {
    async fn replay_candidates(
        &mut self,
        name: &str,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<ReplayCandidate>> {
        let read = |row: &Row<'_>| {
            Ok(ReplayCandidate {
                position: Position::new(row.get(0)?),
                time: Timestamp::from_micros(row.get(1)?),
                expires_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
                names: names(row)?,
                parked: row.get(5)?,
            })
        };
        Ok(self.all(CANDIDATES, params![name, after.get(), last.get(), row_limit(events_max)], read)?)
    }

    async fn park_again(&mut self, name: &str, state: ParkedState, events: &[ReplayCandidate]) -> Result<()> {
        Ok(self.insert_again(name, state, events)?)
    }
}
