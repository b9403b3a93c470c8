//! Parked rows, as operators see and change them.

use mysql_async::Row;

use super::progress;
use super::ranges::listed;
use super::row::{self, get, micros};
use super::session::{NamedParams, Tx, named, params};
use crate::ledger::Redelivery;
use crate::operate::{ParkedAction, ParkedFilter, ParkedItem, ParkedQuery};
use crate::store::parked_tx::{LOOK_AHEAD_POSITIONS, LockedRow, ParkedTx};
use crate::store::row_limit;
use crate::store::subscription::parked_state;
use crate::{Position, Result, Timestamp};

/// An id as text. The column has 16 bytes.
macro_rules! uuid_text {
    ($id:literal) => {
        concat!(
            "LOWER(CONCAT_WS('-', SUBSTR(HEX(",
            $id,
            "), 1, 8), SUBSTR(HEX(",
            $id,
            "), 9, 4), SUBSTR(HEX(",
            $id,
            "), 13, 4), SUBSTR(HEX(",
            $id,
            "), 17, 4), SUBSTR(HEX(",
            $id,
            "), 21)))"
        )
    };
}

pub(super) use uuid_text;

/// The conditions of a filter. `{states}`, `{positions}` and `{ids}` are lists of words and numbers of this program,
/// never of a user. Errors are compared without case, whatever the collation.
macro_rules! matches_filter {
    () => {
        "p.subscription = :name AND p.position > :after
         AND p.state IN ({states}) AND (:key IS NULL OR p.`key` = :key)
         AND (:error IS NULL OR LOCATE(LOWER(CONVERT(:error USING utf8mb4)), LOWER(p.last_error)) > 0)
         AND (:since IS NULL OR p.updated_at >= TIMESTAMPADD(MICROSECOND, :since, '1970-01-01'))
         AND (:until IS NULL OR p.updated_at <= TIMESTAMPADD(MICROSECOND, :until, '1970-01-01'))
         AND (:any_event OR p.position IN ({positions}) OR HEX(p.event_id) IN ({ids}))
         AND (:type IS NULL OR (SELECT e.type FROM {schema}.events AS e WHERE e.position = p.position) = :type)
         AND (:redelivery IS NULL OR p.redelivery = :redelivery) AND p.position <= :last"
    };
}

/// Index: the primary key (subscription, position), in its order; that of events for each row of the page.
const LIST: &str = concat!(
    "SELECT CAST(p.position AS CHAR), IF(p.event_id IS NULL, NULL, ",
    uuid_text!("p.event_id"),
    "),     (SELECT e.type FROM {schema}.events AS e
             WHERE e.position = p.position AND e.id = COALESCE(p.event_id, e.id)),
            p.`key`, p.destination, p.state, p.attempts, ",
    micros!("p.next_attempt_at"),
    "     , p.last_error, ",
    micros!("p.parked_at"),
    "     , ",
    micros!("p.updated_at"),
    "     , p.redelivery
     FROM {schema}.parked AS p
     WHERE ",
    matches_filter!(),
    " ORDER BY p.position LIMIT :limit"
);

/// Index: the primary key (subscription, position), up to the limit.
const COUNT: &str = concat!(
    "SELECT COUNT(*) FROM (SELECT 1 FROM {schema}.parked AS p WHERE ",
    matches_filter!(),
    " LIMIT :limit) AS counted"
);

/// Quoted words of this program.
fn words(words: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("'{word}'")).collect();
    if quoted.is_empty() { "''".to_owned() } else { quoted.join(",") }
}

/// The position of the last row to search. Index: the primary key (subscription, position), without the table.
const SEARCHED: &str = "
    SELECT position FROM {schema}.parked
    WHERE subscription = :name AND position > :after
    ORDER BY position
    LIMIT 1 OFFSET :most";

async fn searched(tx: &mut Tx<'_>, query: &ParkedQuery, after: i64) -> Result<i64> {
    let Some(most) = query.search_max else { return Ok(i64::MAX) };
    let values: NamedParams = named! {
        "name" => query.subscription.as_str(),
        "after" => after,
        "most" => row_limit(most.saturating_sub(1)),
    };
    tx.query(SEARCHED, values).await?.first().map_or(Ok(i64::MAX), |row| get(row, 0))
}

async fn ask(tx: &mut Tx<'_>, statement: &str, query: &ParkedQuery) -> Result<Vec<Row>> {
    let ParkedFilter { states, events, key, event_type, error, since, until, redelivery } = &query.filter;
    let all = crate::store::ParkedState::ALL;
    let states = if states.is_empty() { all } else { states.as_slice() };
    let ids = query.filter.event_ids().into_iter().map(|id| format!("{:X}", id.as_simple()));
    let statement = statement
        .replace("{states}", &words(states.iter().map(|state| state.as_str().to_owned())))
        .replace("{positions}", &listed(query.filter.positions().into_iter().map(Position::new)))
        .replace("{ids}", &words(ids));
    let after: i64 = query.after.as_deref().and_then(|row| row.parse().ok()).unwrap_or(i64::MIN);
    let last = searched(tx, query, after).await?;
    let values: NamedParams = named! {
        "name" => query.subscription.as_str(),
        "after" => after,
        "last" => last,
        "key" => key.as_deref(),
        "error" => error.as_deref(),
        "since" => since.map(Timestamp::as_micros),
        "until" => until.map(Timestamp::as_micros),
        "any_event" => events.is_empty(),
        "type" => event_type.as_deref(),
        "redelivery" => redelivery.map(Redelivery::as_str),
        "limit" => row_limit(query.rows_max),
    };
    tx.query(&statement, values).await
}

/// See [`Store::list_parked`](crate::store::Store::list_parked).
pub(super) async fn list(tx: &mut Tx<'_>, query: &ParkedQuery) -> Result<Vec<ParkedItem>> {
    ask(tx, LIST, query).await?.iter().map(|row| ParkedItem::read(&query.subscription, row)).collect()
}

/// See [`Store::count_parked`](crate::store::Store::count_parked).
pub(super) async fn count(tx: &mut Tx<'_>, query: &ParkedQuery) -> Result<u64> {
    let rows = ask(tx, COUNT, query).await?;
    rows.first().map_or(Ok(0), |row| get::<i64>(row, 0).map(i64::unsigned_abs))
}

/// Retries parked rows. Assignments are evaluated from left to right. Index: the primary key (subscription, position),
/// as for the other two.
const RETRY: &str = "
    UPDATE {schema}.parked
    SET redelivery = IF(state = 'dead', 'retry', redelivery), state = 'retry', attempts = 0, next_attempt_at = NULL,
        updated_at = UTC_TIMESTAMP(6)
    WHERE subscription = ? AND position IN ({positions})";

/// Gives parked rows up.
const KILL: &str = "
    UPDATE {schema}.parked
    SET state = 'dead', next_attempt_at = NULL, updated_at = UTC_TIMESTAMP(6),
        last_error = COALESCE(last_error, 'given up by an operator')
    WHERE subscription = ? AND position IN ({positions})";

/// Forgets parked rows.
const REMOVE: &str = "DELETE FROM {schema}.parked WHERE subscription = ? AND position IN ({positions})";

/// Parked events whose key has moved on, or may have: a later event of the key within reach was read and is not parked,
/// or the subscription is further than that, or the key comes from a routing rule. Index: the primary keys
/// (subscription, position) and (position).
const MOVED_ON: &str = "
    SELECT p.position
    FROM {schema}.parked AS p
    JOIN {schema}.subscriptions AS s ON s.name = p.subscription
    LEFT JOIN {schema}.events AS d ON d.position = p.position
    WHERE p.subscription = ? AND p.position IN ({positions})
      AND (s.highest_position > p.position + ?
           OR NOT p.`key` <=> COALESCE(d.`key`, CONCAT(REPLACE(REPLACE(d.aggregate_type, '%', '%25'), '/', '%2F'), '/',
                                                       d.aggregate_id))
           OR EXISTS (SELECT 1 FROM {schema}.events AS e
                      WHERE e.position > p.position AND e.position <= s.highest_position
                        AND e.`key` <=> d.`key`
                        AND (d.`key` IS NOT NULL
                             OR e.aggregate_type = d.aggregate_type AND e.aggregate_id = d.aggregate_id)
                        AND NOT EXISTS (SELECT 1 FROM {schema}.parked AS q
                                        WHERE q.subscription = p.subscription AND q.position = e.position)))";

fn with_positions(statement: &str, positions: &[Position]) -> String {
    statement.replace("{positions}", &listed(positions.iter().copied()))
}

impl ParkedTx for Tx<'_> {
    async fn lock_subscription(&mut self, name: &str) -> Result<bool> {
        Ok(progress::lock(self, name).await?.is_some())
    }

    async fn lock_rows(&mut self, name: &str, positions: &[Position]) -> Result<Vec<LockedRow>> {
        // Index: the primary key (subscription, position).
        let sql = "SELECT position, state, `key` IS NOT NULL
                   FROM {schema}.parked
                   WHERE subscription = ? AND position IN ({positions})
                   ORDER BY position
                   FOR UPDATE";
        let rows = self.query(&with_positions(sql, positions), params![name]).await?;
        let locked = |row: &Row| {
            let position = row::position(row, 0)?;
            let state = parked_state(position, &get::<String>(row, 1)?)?;
            Ok(LockedRow { position, state, has_key: get::<i64>(row, 2)? == 1 })
        };
        rows.iter().map(locked).collect()
    }

    async fn moved_on(&mut self, name: &str, positions: &[Position]) -> Result<Vec<Position>> {
        let sql = with_positions(MOVED_ON, positions);
        let rows = self.query(&sql, params![name, LOOK_AHEAD_POSITIONS]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn apply(&mut self, name: &str, action: ParkedAction, positions: &[Position]) -> Result<()> {
        let sql = match action {
            ParkedAction::Retry => RETRY,
            ParkedAction::Kill => KILL,
            ParkedAction::Discard | ParkedAction::Skip => REMOVE,
        };
        self.execute(&with_positions(sql, positions), params![name]).await.map(drop)
    }
}
