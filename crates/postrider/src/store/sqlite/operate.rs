//! Parked rows, as operators see and change them.

use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::failure::Attempt;
use super::lease::now;
use super::log_tx::SqliteTx;
use super::worker::poll_once;
use crate::ledger::Redelivery;
use crate::operate::{ParkedAction, ParkedChange, ParkedChanged, ParkedFilter, ParkedItem, ParkedQuery};
use crate::store::parked_tx::{LOOK_AHEAD_POSITIONS, LockedRow, ParkedTx, change};
use crate::store::row_limit;
use crate::store::subscription::parked_state;
use crate::{Position, Result, Timestamp};

/// The conditions of a filter. Lists are JSON arrays.
macro_rules! matches_filter {
    () => {
        "p.subscription = :name AND p.position > :after
         AND (:states IS NULL OR p.state IN (SELECT value FROM json_each(:states)))
         AND (:key IS NULL OR p.key = :key)
         AND (:error IS NULL OR instr(lower(p.last_error), lower(:error)) > 0)
         AND (:since IS NULL OR p.updated_at >= :since) AND (:until IS NULL OR p.updated_at <= :until)
         AND (:events IS NULL OR CAST(p.position AS TEXT) IN (SELECT value FROM json_each(:events))
              OR lower(p.event_id) IN (SELECT value FROM json_each(:events)))
         AND (:type IS NULL
              OR (SELECT e.type FROM postrider_events AS e WHERE e.position = p.position) = :type)
         AND (:redelivery IS NULL OR p.redelivery = :redelivery) AND p.position <= :last"
    };
}

/// Index: the primary key (subscription, position), in its order; that of events for each row of the page.
const LIST: &str = concat!(
    "SELECT CAST(p.position AS TEXT), CASE typeof(p.event_id) WHEN 'text' THEN p.event_id END,
            (SELECT e.type FROM postrider_events AS e WHERE e.position = p.position),
            p.key, p.destination, p.state, p.attempts, p.next_attempt_at, p.last_error, p.parked_at, p.updated_at,
            p.redelivery
     FROM postrider_parked AS p
     WHERE ",
    matches_filter!(),
    " ORDER BY p.position LIMIT :limit"
);

/// Index: the primary key (subscription, position), up to the limit.
const COUNT: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 FROM postrider_parked AS p WHERE ",
    matches_filter!(),
    " LIMIT :limit)"
);

/// A JSON array of texts; NULL if there are none.
fn list_of(texts: Vec<String>) -> Option<String> {
    (!texts.is_empty()).then(|| serde_json::Value::from(texts).to_string())
}

/// The position of the last row to search. Index: the primary key (subscription, position).
const SEARCHED: &str = "
    SELECT position FROM postrider_parked
    WHERE subscription = ?1 AND position > ?2
    ORDER BY position
    LIMIT 1 OFFSET ?3";

fn searched(tx: &Connection, query: &ParkedQuery, after: i64) -> Attempt<i64> {
    let Some(most) = query.search_max else { return Ok(i64::MAX) };
    let most = row_limit(most.saturating_sub(1));
    let mut statement = tx.prepare_cached(SEARCHED)?;
    let found = statement.query_row(params![query.subscription, after, most], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(i64::MAX))
}

fn ask<T>(
    tx: &Connection,
    statement: &str,
    query: &ParkedQuery,
    read: impl FnMut(&rusqlite::Row<'_>) -> Result<T>,
) -> Attempt<Vec<T>> {
    let ParkedFilter { states, events, key, event_type, error, since, until, redelivery } = &query.filter;
    let after: i64 = query.after.as_deref().and_then(|row| row.parse().ok()).unwrap_or(i64::MIN);
    let last = searched(tx, query, after)?;
    let mut statement = tx.prepare_cached(statement)?;
    let mut rows = statement.query(named_params! {
        ":name": query.subscription,
        ":after": after,
        ":last": last,
        ":states": list_of(states.iter().map(|state| state.as_str().to_owned()).collect()),
        ":key": key,
        ":error": error,
        ":since": since.map(Timestamp::as_micros),
        ":until": until.map(Timestamp::as_micros),
        ":events": list_of(events.iter().map(|event| event.to_lowercase()).collect()),
        ":type": event_type,
        ":redelivery": redelivery.map(Redelivery::as_str),
        ":limit": row_limit(query.rows_max),
    })?;
    let (mut found, mut read) = (Vec::new(), read);
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// See [`Store::list_parked`](crate::store::Store::list_parked).
pub(super) fn list(tx: &Connection, query: &ParkedQuery) -> Attempt<Vec<ParkedItem>> {
    ask(tx, LIST, query, |row| ParkedItem::read(&query.subscription, row))
}

/// See [`Store::count_parked`](crate::store::Store::count_parked).
pub(super) fn count(tx: &Connection, query: &ParkedQuery) -> Attempt<u64> {
    let counted = ask(tx, COUNT, query, |row| Ok(row.get::<_, i64>(0).unwrap_or(0).unsigned_abs()))?;
    Ok(counted.first().copied().unwrap_or(0))
}

/// See [`Store::change_parked`](crate::store::Store::change_parked).
pub(super) fn change_parked(tx: &mut Connection, wanted: &ParkedChange) -> Attempt<ParkedChanged> {
    poll_once(change(&mut SqliteTx(tx), wanted))
}

/// Parked events whose key has moved on, or may have: a later event of the key within reach was read and is not parked,
/// or the subscription is further than that, or the key comes from a routing rule. Index: the primary keys
/// (subscription, position) and (position).
const MOVED_ON: &str = "
    SELECT 1
    FROM postrider_parked AS p
    JOIN postrider_subscriptions AS s ON s.name = p.subscription
    LEFT JOIN postrider_events AS d ON d.position = p.position
    WHERE p.subscription = ?1 AND p.position = ?2
      AND (s.highest_position > p.position + ?3
           OR p.key IS NOT coalesce(d.key, replace(replace(d.aggregate_type, '%', '%25'), '/', '%2F') || '/'
                                           || d.aggregate_id)
           OR EXISTS (SELECT 1 FROM postrider_events AS e
                      WHERE e.position > p.position AND e.position <= s.highest_position
                        AND e.key IS d.key
                        AND (d.key IS NOT NULL
                             OR e.aggregate_type = d.aggregate_type AND e.aggregate_id = d.aggregate_id)
                        AND NOT EXISTS (SELECT 1 FROM postrider_parked AS q
                                        WHERE q.subscription = p.subscription AND q.position = e.position)))";

impl SqliteTx<'_> {
    fn locked_row(&self, name: &str, position: Position) -> Attempt<Option<LockedRow>> {
        // Index: the primary key (subscription, position).
        let sql =
            "SELECT state, key IS NOT NULL FROM postrider_parked WHERE subscription = ?1 AND position = ?2";
        let found = self
            .0
            .prepare_cached(sql)?
            .query_row(params![name, position.get()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
            })
            .optional()?;
        let Some((state, has_key)) = found else { return Ok(None) };
        Ok(Some(LockedRow { position, state: parked_state(position, &state)?, has_key }))
    }

    fn has_moved_on(&self, name: &str, position: Position) -> Attempt<bool> {
        let values = params![name, position.get(), LOOK_AHEAD_POSITIONS];
        Ok(self.0.prepare_cached(MOVED_ON)?.exists(values)?)
    }

    fn apply_to(&self, name: &str, action: ParkedAction, position: Position, now: i64) -> Attempt<()> {
        // Index: the primary key (subscription, position).
        let sql = match action {
            ParkedAction::Retry => {
                "UPDATE postrider_parked
                 SET redelivery = CASE WHEN state = 'dead' THEN 'retry' ELSE redelivery END, state = 'retry',
                     attempts = 0, next_attempt_at = NULL, updated_at = ?3
                 WHERE subscription = ?1 AND position = ?2"
            }
            ParkedAction::Kill => {
                "UPDATE postrider_parked
                 SET state = 'dead', next_attempt_at = NULL, updated_at = ?3,
                     last_error = coalesce(last_error, 'given up by an operator')
                 WHERE subscription = ?1 AND position = ?2"
            }
            ParkedAction::Discard | ParkedAction::Skip => {
                "DELETE FROM postrider_parked WHERE subscription = ?1 AND position = ?2 AND ?3 IS NOT NULL"
            }
        };
        self.0.prepare_cached(sql)?.execute(params![name, position.get(), now])?;
        Ok(())
    }
}

/// The transaction is the file's only writer from its beginning: nothing has to be locked.
impl ParkedTx for SqliteTx<'_> {
    async fn lock_subscription(&mut self, name: &str) -> Result<bool> {
        let exists = || -> Attempt<bool> {
            let sql = "SELECT 1 FROM postrider_subscriptions WHERE name = ?1";
            Ok(self.0.prepare_cached(sql)?.exists([name])?)
        };
        Ok(exists()?)
    }

    async fn lock_rows(&mut self, name: &str, positions: &[Position]) -> Result<Vec<LockedRow>> {
        let mut rows = Vec::new();
        for position in positions {
            rows.extend(self.locked_row(name, *position)?);
        }
        Ok(rows)
    }

    async fn moved_on(&mut self, name: &str, positions: &[Position]) -> Result<Vec<Position>> {
        let mut moved_on = Vec::new();
        for position in positions {
            if self.has_moved_on(name, *position)? {
                moved_on.push(*position);
            }
        }
        Ok(moved_on)
    }

    async fn apply(&mut self, name: &str, action: ParkedAction, positions: &[Position]) -> Result<()> {
        let now = now(self.0)?;
        for position in positions {
            self.apply_to(name, action, *position, now)?;
        }
        Ok(())
    }
}
