//! Finished events that are delivered again.

use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use crate::ledger::ParkedState;
use crate::operate::ReplayCandidate;
use crate::store::replay_tx::{ReplayTx, positions};
use crate::store::row_limit;
use crate::{Position, Result};

/// Index: the primary key (position), one range; (subscription, position) for each row.
const CANDIDATES: &str = "
    SELECT e.position, e.time, e.expires_at, e.type,
           coalesce(e.key, replace(replace(e.aggregate_type, '%', '%25'), '/', '%2F') || '/' || e.aggregate_id),
           EXISTS (SELECT FROM {schema}.parked AS p WHERE p.subscription = $1::text AND p.position = e.position)
    FROM ONLY {schema}.events AS e
    WHERE e.position > $2::bigint AND e.position <= $3::bigint
    ORDER BY e.position
    LIMIT $4::bigint";

/// Index: the primary keys (position) and (subscription, position).
const PARK: &str = "
    INSERT INTO {schema}.parked (subscription, position, key, state, attempts, event_id, redelivery)
    SELECT $1::text, position,
           coalesce(key, replace(replace(aggregate_type, '%', '%25'), '/', '%2F') || '/' || aggregate_id),
           $2::text, 0, id, 'replay'
    FROM ONLY {schema}.events
    WHERE position = ANY ($3::bigint[])";

impl ReplayTx for Tx<'_> {
    async fn replay_candidates(
        &mut self,
        name: &str,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<ReplayCandidate>> {
        let limit = row_limit(events_max);
        let rows = self.query(CANDIDATES, &[&name, &after.get(), &last.get(), &limit]).await?;
        let candidate = |row| {
            Ok(ReplayCandidate {
                position: row::position(row, 0)?,
                time: get::<Time>(row, 1)?.0,
                expires_at: get::<Option<Time>>(row, 2)?.map(|at| at.0),
                names: Some((get(row, 3)?, get(row, 4)?)),
                parked: get(row, 5)?,
            })
        };
        rows.iter().map(candidate).collect()
    }

    async fn park_again(&mut self, name: &str, state: ParkedState, events: &[ReplayCandidate]) -> Result<()> {
        let positions: Vec<i64> = positions(events).map(Position::get).collect();
        self.execute(PARK, &[&name, &state.as_str(), &positions]).await.map(drop)
    }
}
