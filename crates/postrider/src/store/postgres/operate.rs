//! Parked rows, as operators see and change them.

use tokio_postgres::Row;

use super::progress;
use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use crate::ledger::Redelivery;
use crate::operate::{ParkedAction, ParkedFilter, ParkedItem, ParkedQuery};
use crate::store::parked_tx::{LOOK_AHEAD_POSITIONS, LockedRow, ParkedTx};
use crate::store::row_limit;
use crate::store::subscription::parked_state;
use crate::{Position, Result};

/// The conditions of a filter: `$1` subscription, `$2` position after which the page begins, `$3` states, `$4` key, `$5`
/// error, `$6` and `$7` times, `$8` positions, `$9` ids, `$10` type, `$11` redelivery, `$13` the last
/// position.
macro_rules! matches_filter {
    () => {
        "p.subscription = $1 AND p.position > $2
         AND ($3::text[] IS NULL OR p.state = ANY ($3)) AND ($4::text IS NULL OR p.key = $4)
         AND ($5::text IS NULL OR strpos(lower(p.last_error), lower($5)) > 0)
         AND ($6::timestamptz IS NULL OR p.updated_at >= $6) AND ($7::timestamptz IS NULL OR p.updated_at <= $7)
         AND ($8::bigint[] IS NULL OR p.position = ANY ($8) OR p.event_id = ANY ($9::uuid[]))
         AND ($10::text IS NULL
              OR (SELECT e.type FROM ONLY {schema}.events AS e WHERE e.position = p.position) = $10)
         AND ($11::text IS NULL OR p.redelivery = $11) AND p.position <= $13"
    };
}

/// Index: the primary key (subscription, position), in its order; that of events for each row of the page.
const LIST: &str = concat!(
    "SELECT p.position::text, p.event_id::text,
            (SELECT e.type FROM ONLY {schema}.events AS e
             WHERE e.position = p.position AND e.id IS NOT DISTINCT FROM coalesce(p.event_id, e.id)),
            p.key, p.destination, p.state, p.attempts, p.next_attempt_at, p.last_error, p.parked_at, p.updated_at,
            p.redelivery
     FROM {schema}.parked AS p
     WHERE ",
    matches_filter!(),
    " ORDER BY p.position LIMIT $12"
);

/// Index: the primary key (subscription, position), up to the limit.
const COUNT: &str = concat!(
    "SELECT count(*) FROM (SELECT FROM {schema}.parked AS p WHERE ",
    matches_filter!(),
    " LIMIT $12) AS counted"
);

/// The values of a filter, in the types of the parameters.
struct Values {
    after: i64,
    states: Option<Vec<&'static str>>,
    since: Option<Time>,
    until: Option<Time>,
    positions: Option<Vec<i64>>,
    ids: Vec<uuid::Uuid>,
    limit: i64,
}

impl Values {
    fn of(query: &ParkedQuery) -> Self {
        let ParkedFilter { states, events, since, until, .. } = &query.filter;
        let states: Vec<&'static str> = states.iter().map(|state| state.as_str()).collect();
        Self {
            after: query.after.as_deref().and_then(|row| row.parse().ok()).unwrap_or(i64::MIN),
            states: (!states.is_empty()).then_some(states),
            since: since.map(Time),
            until: until.map(Time),
            positions: (!events.is_empty()).then(|| query.filter.positions()),
            ids: query.filter.event_ids(),
            limit: row_limit(query.rows_max),
        }
    }
}

/// The position of the last row to search. Index: the primary key (subscription, position), without the table.
const SEARCHED: &str = "
    SELECT position FROM {schema}.parked
    WHERE subscription = $1 AND position > $2
    ORDER BY position
    OFFSET $3 LIMIT 1";

async fn searched(tx: &Tx<'_>, query: &ParkedQuery, after: i64) -> Result<i64> {
    let Some(most) = query.search_max else { return Ok(i64::MAX) };
    let most = row_limit(most.saturating_sub(1));
    let row = tx.query_opt(SEARCHED, &[&query.subscription, &after, &most]).await?;
    row.map_or(Ok(i64::MAX), |row| get(&row, 0))
}

async fn ask(tx: &Tx<'_>, statement: &'static str, query: &ParkedQuery) -> Result<Vec<Row>> {
    let Values { after, states, since, until, positions, ids, limit } = Values::of(query);
    let ParkedFilter { key, event_type, error, redelivery, .. } = &query.filter;
    let redelivery = redelivery.map(Redelivery::as_str);
    let last = searched(tx, query, after).await?;
    tx.query(
        statement,
        &[
            &query.subscription,
            &after,
            &states,
            key,
            error,
            &since,
            &until,
            &positions,
            &ids,
            event_type,
            &redelivery,
            &limit,
            &last,
        ],
    )
    .await
}

/// See [`Store::list_parked`](crate::store::Store::list_parked).
pub(super) async fn list(tx: &Tx<'_>, query: &ParkedQuery) -> Result<Vec<ParkedItem>> {
    ask(tx, LIST, query).await?.iter().map(|row| ParkedItem::read(&query.subscription, row)).collect()
}

/// See [`Store::count_parked`](crate::store::Store::count_parked).
pub(super) async fn count(tx: &Tx<'_>, query: &ParkedQuery) -> Result<u64> {
    let rows = ask(tx, COUNT, query).await?;
    rows.first().map_or(Ok(0), |row| get::<i64>(row, 0).map(i64::unsigned_abs))
}

/// Retries parked rows. Index: the primary key (subscription, position), as for the other two.
const RETRY: &str = "
    UPDATE {schema}.parked
    SET redelivery = CASE WHEN state = 'dead' THEN 'retry' ELSE redelivery END, state = 'retry', attempts = 0,
        next_attempt_at = NULL, updated_at = clock_timestamp()
    WHERE subscription = $1 AND position = ANY ($2::bigint[])";

/// Gives parked rows up.
const KILL: &str = "
    UPDATE {schema}.parked
    SET state = 'dead', next_attempt_at = NULL, updated_at = clock_timestamp(),
        last_error = coalesce(last_error, 'given up by an operator')
    WHERE subscription = $1 AND position = ANY ($2::bigint[])";

/// Forgets parked rows.
const REMOVE: &str = "DELETE FROM {schema}.parked WHERE subscription = $1 AND position = ANY ($2::bigint[])";

/// Parked events whose key has moved on, or may have: a later event of the key within reach was read and is not parked,
/// or the subscription is further than `$3` positions, or the key comes from a routing rule. Index: the primary keys
/// (subscription, position) and (position).
const MOVED_ON: &str = "
    SELECT p.position
    FROM {schema}.parked AS p
    JOIN {schema}.subscriptions AS s ON s.name = p.subscription
    LEFT JOIN ONLY {schema}.events AS d ON d.position = p.position
    WHERE p.subscription = $1 AND p.position = ANY ($2::bigint[])
      AND (s.highest_position > p.position + $3
           OR p.key IS DISTINCT FROM coalesce(d.key, replace(replace(d.aggregate_type, '%', '%25'), '/', '%2F') || '/'
                                                     || d.aggregate_id)
           OR EXISTS (SELECT FROM ONLY {schema}.events AS e
                      WHERE e.position > p.position AND e.position <= s.highest_position
                        AND e.key IS NOT DISTINCT FROM d.key
                        AND (d.key IS NOT NULL
                             OR e.aggregate_type = d.aggregate_type AND e.aggregate_id = d.aggregate_id)
                        AND NOT EXISTS (SELECT FROM {schema}.parked AS q
                                        WHERE q.subscription = p.subscription AND q.position = e.position)))";

fn numbers(positions: &[Position]) -> Vec<i64> {
    positions.iter().map(|position| position.get()).collect()
}

impl ParkedTx for Tx<'_> {
    async fn lock_subscription(&mut self, name: &str) -> Result<bool> {
        Ok(progress::lock(self, name).await?.is_some())
    }

    async fn lock_rows(&mut self, name: &str, positions: &[Position]) -> Result<Vec<LockedRow>> {
        // Index: the primary key (subscription, position).
        let sql = "SELECT position, state, key IS NOT NULL
                   FROM {schema}.parked
                   WHERE subscription = $1 AND position = ANY ($2::bigint[])
                   ORDER BY position
                   FOR UPDATE";
        let rows = self.query(sql, &[&name, &numbers(positions)]).await?;
        let locked = |row: &Row| {
            let position = row::position(row, 0)?;
            let state = parked_state(position, get(row, 1)?)?;
            Ok(LockedRow { position, state, has_key: get(row, 2)? })
        };
        rows.iter().map(locked).collect()
    }

    async fn moved_on(&mut self, name: &str, positions: &[Position]) -> Result<Vec<Position>> {
        let rows = self.query(MOVED_ON, &[&name, &numbers(positions), &LOOK_AHEAD_POSITIONS]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn apply(&mut self, name: &str, action: ParkedAction, positions: &[Position]) -> Result<()> {
        let sql = match action {
            ParkedAction::Retry => RETRY,
            ParkedAction::Kill => KILL,
            ParkedAction::Discard | ParkedAction::Skip => REMOVE,
        };
        self.execute(sql, &[&name, &numbers(positions)]).await.map(drop)
    }
}
