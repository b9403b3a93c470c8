//! Finished events that are delivered again.

use mysql_async::Row;

use super::ranges::listed;
use super::row::{self, get, get_opt, micros};
use super::session::{Tx, params};
use crate::ledger::ParkedState;
use crate::operate::ReplayCandidate;
use crate::store::replay_tx::{ReplayTx, positions};
use crate::{Position, Result, Timestamp};

/// Index: the primary key (position), one range; (subscription, position) for each row.
const CANDIDATES: &str = concat!(
    "SELECT e.position, ",
    micros!("e.time"),
    ", ",
    micros!("e.expires_at"),
    ", e.type,
       COALESCE(e.`key`, CONCAT(REPLACE(REPLACE(e.aggregate_type, '%', '%25'), '/', '%2F'), '/', e.aggregate_id)),
       EXISTS (SELECT 1 FROM {schema}.parked AS p WHERE p.subscription = ? AND p.position = e.position)
     FROM {schema}.events AS e
     WHERE e.position > ? AND e.position <= ?
     ORDER BY e.position
     LIMIT ?"
);

/// Index: the primary keys (position) and (subscription, position).
const PARK: &str = "
    INSERT INTO {schema}.parked (subscription, position, `key`, state, attempts, event_id, redelivery)
    SELECT ?, position,
           COALESCE(`key`, CONCAT(REPLACE(REPLACE(aggregate_type, '%', '%25'), '/', '%2F'), '/', aggregate_id)),
           ?, 0, id, 'replay'
    FROM {schema}.events
    WHERE position IN ({positions})";

impl ReplayTx for Tx<'_> {
    async fn replay_candidates(
        &mut self,
        name: &str,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> Result<Vec<ReplayCandidate>> {
        let rows = self.query(CANDIDATES, params![name, after.get(), last.get(), events_max]).await?;
        let candidate = |row: &Row| {
            Ok(ReplayCandidate {
                position: row::position(row, 0)?,
                time: row::time(row, 1)?,
                expires_at: get_opt(row, 2)?.map(Timestamp::from_micros),
                names: Some((get(row, 3)?, get_opt(row, 4)?)),
                parked: get::<i64>(row, 5)? != 0,
            })
        };
        rows.iter().map(candidate).collect()
    }

    async fn park_again(&mut self, name: &str, state: ParkedState, events: &[ReplayCandidate]) -> Result<()> {
        let statement = PARK.replace("{positions}", &listed(positions(events)));
        self.execute(&statement, params![name, state.as_str()]).await.map(drop)
    }
}
