//! Layout `eventlog`: the registry of handlers, the fan-out, and deleting finished events. The fan-out runs in a
//! transaction that holds its lock.

use std::collections::HashSet;

use mysql_async::Row;
use serde::Serialize;
use uuid::Uuid;

use super::super::row::{get, micros};
use super::super::session::{Params, Tx, params};
use super::sql::literal;
use crate::store::MissedNotification;
use crate::store::result_row::ResultRow;
use crate::store::row_state::notifications::{
    Existing, FanOutScope, HandlerType, RegisteredType, WaitingEvent,
};
use crate::{Code, Error, Result, Timestamp};

const LOCK: &str = "SELECT only_one FROM {schema}.fan_out FOR UPDATE";
const TRY_LOCK: &str = "SELECT only_one FROM {schema}.fan_out FOR UPDATE SKIP LOCKED";

const REGISTERED: &str = concat!(
    "SELECT handler, event_type, ",
    micros!("since"),
    ", ",
    micros!("registered_at"),
    ", ",
    micros!("searched_at"),
    " FROM {schema}.handler_types ORDER BY handler, event_type"
);

/// Index: the primary key (handler, event_type).
const REGISTER_TYPE: &str = "
    INSERT INTO {schema}.handler_types (handler, event_type, since)
    VALUES (?, ?, TIMESTAMPADD(MICROSECOND, ?, '1970-01-01'))
    ON DUPLICATE KEY UPDATE handler = handler";

/// Index: the primary key (alias).
const REGISTER_ALIAS: &str = "
    INSERT INTO {schema}.handler_aliases (alias, handler) VALUES (?, ?) ON DUPLICATE KEY UPDATE handler = VALUES(handler)";

/// What was missed under an earlier name is still searched for, and what waits is not before the start. Index: the primary key (handler, event_type).
const INHERIT: &str = "
    UPDATE {schema}.handler_types AS t
    JOIN {schema}.handler_types AS earlier ON earlier.event_type = t.event_type
    SET t.registered_at = LEAST(t.registered_at, earlier.registered_at), t.searched_at = earlier.searched_at,
        t.since = IF(t.since IS NULL, NULL, LEAST(t.since, earlier.since))
    WHERE t.handler = ? AND earlier.handler = ?";

/// Deletes the types that are registered under a name. Index: the primary key (handler, event_type).
const UNREGISTER_NAME: &str = "DELETE FROM {schema}.handler_types WHERE handler = ?";

/// Index: the primary key (alias).
const RENAMED_TO: &str = "SELECT handler FROM {schema}.handler_aliases WHERE alias = ?";

/// No index: the table has a row per renamed handler.
const ALIASES_OF: &str = "SELECT alias FROM {schema}.handler_aliases WHERE handler = ? ORDER BY alias";

const RECORD_SEARCH: &str = "
    UPDATE {schema}.handler_types
    SET searched_at = TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    WHERE registered_at <= TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')";

/// Index: events_undelivered (delivered, event_type, event_date), all entries of one state.
const TYPES: &str = "
    SELECT DISTINCT CONVERT(event_type USING utf8mb4) COLLATE utf8mb4_bin
    FROM {table}
    WHERE delivered = {delivered} AND event_type IS NOT NULL";

/// The oldest events of one type that are not fanned out. Index: events_undelivered (delivered, event_type, event_date),
/// one range, in its order.
const OLDEST: &str = concat!(
    "(SELECT e.id, e.event_type, ",
    micros!("e.event_date"),
    " AS at, e.event_date
      FROM {table} AS e
      WHERE e.delivered = FALSE AND e.event_type = {type}
        AND CONVERT(e.event_type USING utf8mb4) COLLATE utf8mb4_bin = {type}{since}
      ORDER BY e.event_date, e.id
      LIMIT {events_max})"
);

/// The event with this id, if it is not fanned out. Index: the primary key (id).
const ONE: &str = concat!(
    "SELECT e.id, e.event_type, ",
    micros!("e.event_date"),
    " AS at, e.event_date
      FROM {table} AS e
      WHERE e.id = {id} AND e.delivered = FALSE"
);

/// Events of one type that are fanned out but have no notification for one handler. Indexes: events_undelivered (delivered,
/// event_type, event_date), one range, in its order, and the key (event_id, handler_name).
const MISSED: &str = concat!(
    "SELECT e.id, ",
    micros!("e.event_date"),
    " FROM {table} AS e
     WHERE e.delivered = TRUE AND e.event_type = {type}
       AND CONVERT(e.event_type USING utf8mb4) COLLATE utf8mb4_bin = {type}{since}{after}
       AND NOT EXISTS (SELECT 1 FROM {notifications} AS n
                       WHERE n.event_id = e.id
                         AND (CONVERT(n.handler_name USING utf8mb4) COLLATE utf8mb4_bin = {handler}
                              OR CONVERT(n.handler_name USING utf8mb4) COLLATE utf8mb4_bin
                                 IN (SELECT a.alias FROM {schema}.handler_aliases AS a WHERE a.handler = {handler})))
     ORDER BY e.event_date, e.id
     LIMIT {rows_max}"
);

/// Inserts notifications: their ids, events and handlers are the parameter. A notification is due at once; its
/// next_retry_at is the date of the event, so that the index over it has the order of events.
macro_rules! insert {
    ($existing:literal) => {
        concat!(
            "INSERT INTO {notifications} (
                 id, event_id, handler_name, namespace, action_id, action_name, action_params, started_date,
                 completion_date, model_id, model_type, event_type, payload, event_date, state, attempts, next_retry_at,
                 created_date, updated_date)
             SELECT d.n, e.id, d.h, e.namespace, e.action_id, e.action_name, e.action_params, e.started_date,
                    e.completion_date, e.model_id, e.model_type, e.event_type, e.payload, e.event_date, 'PENDING', 0,
                    LEAST(e.event_date, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
             FROM JSON_TABLE(?, '$[*]' COLUMNS (n CHAR(36) CHARACTER SET ascii PATH '$.n',
                                                e CHAR(36) CHARACTER SET ascii PATH '$.e',
                                                h VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.h')) AS d
             STRAIGHT_JOIN {table} AS e ON e.id = /*!80000 d.e */ /*M! CAST(d.e AS UUID) */
             ",
            $existing
        )
    };
}

/// Fails if a notification exists. Index: the primary key (id).
const INSERT_NEW: &str = insert!("");

/// A notification that another program has inserted stays as it is. Indexes: the primary key (id), and the key (event_id,
/// handler_name).
const INSERT: &str = insert!(
    "WHERE NOT EXISTS (SELECT 1 FROM {notifications} AS known
                       WHERE known.event_id = e.id
                         AND CONVERT(known.handler_name USING utf8mb4) COLLATE utf8mb4_bin
                             = d.h COLLATE utf8mb4_bin)
     ON DUPLICATE KEY UPDATE handler_name = {notifications}.handler_name"
);

/// Index: the primary key (id).
const SET_DELIVERED: &str = "UPDATE {table} SET delivered = TRUE WHERE id IN ({ids}) AND delivered = FALSE";

/// Old events whose notifications are all finished, and old rows without an event. An event that a registered handler has
/// no notification for stays: the search for missed events may find it. No index: the layout has none for the date of
/// events.
const FINISHED: &str = "
    SELECT e.id
    FROM {table} AS e
    WHERE e.event_date < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
      AND (e.event_type IS NULL
           OR e.delivered = TRUE
              AND NOT EXISTS (SELECT 1 FROM {notifications} AS n
                              WHERE n.event_id = e.id AND n.state NOT IN ('SUCCEEDED', 'EXPIRED'))
              AND NOT EXISTS (
                  SELECT 1 FROM {schema}.handler_types AS h
                  WHERE CONVERT(e.event_type USING utf8mb4) COLLATE utf8mb4_bin
                        LIKE REPLACE(REPLACE(REPLACE(REPLACE(h.event_type, '\\\\', '\\\\\\\\'), '%', '\\\\%'), '_', '\\\\_'), '*', '%')
                    AND e.event_date >= h.registered_at AND (h.since IS NULL OR e.event_date >= h.since)
                    AND NOT EXISTS (
                        SELECT 1 FROM {notifications} AS n
                        WHERE n.event_id = e.id
                          AND (CONVERT(n.handler_name USING utf8mb4) COLLATE utf8mb4_bin = h.handler
                               OR CONVERT(n.handler_name USING utf8mb4) COLLATE utf8mb4_bin
                                  IN (SELECT a.alias FROM {schema}.handler_aliases AS a WHERE a.handler = h.handler)))))
    LIMIT {rows_max}
    FOR UPDATE SKIP LOCKED";

/// One notification to insert.
#[derive(Serialize)]
struct NewNotification<'a> {
    #[serde(rename = "n")]
    id: Uuid,
    #[serde(rename = "e")]
    event: &'a str,
    #[serde(rename = "h")]
    handler: &'a str,
}

/// Locks the fan-out; `false` if another process has it and the caller does not wait.
pub(super) async fn lock(tx: &mut Tx<'_>, wait: bool) -> Result<bool> {
    let locked = tx.query_opt(if wait { LOCK } else { TRY_LOCK }, Params::new()).await?;
    Ok(locked.is_some())
}

pub(super) async fn registered(tx: &mut Tx<'_>) -> Result<Vec<RegisteredType>> {
    let read = |row: &Row| {
        Ok(RegisteredType {
            handler: get(row, 0)?,
            pattern: get(row, 1)?,
            since: row.time(2)?,
            registered_at: row.time(3)?.unwrap_or_default(),
            searched_at: row.time(4)?,
        })
    };
    tx.query(REGISTERED, Params::new()).await?.iter().map(read).collect()
}

pub(super) async fn register_type(
    tx: &mut Tx<'_>,
    handler: &str,
    pattern: &str,
    since: Option<Timestamp>,
) -> Result<()> {
    let since = since.map(Timestamp::as_micros);
    tx.execute(REGISTER_TYPE, params![handler, pattern, since]).await.map(drop)
}

pub(super) async fn register_alias(tx: &mut Tx<'_>, handler: &str, alias: &str) -> Result<()> {
    tx.execute(REGISTER_ALIAS, params![alias, handler]).await?;
    tx.execute(INHERIT, params![handler, alias]).await?;
    tx.execute(UNREGISTER_NAME, params![alias]).await.map(drop)
}

pub(super) async fn waiting_types(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    types(tx, "FALSE").await
}

pub(super) async fn fanned_out_types(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    types(tx, "TRUE").await
}

async fn types(tx: &mut Tx<'_>, delivered: &str) -> Result<Vec<String>> {
    let statement = TYPES.replace("{delivered}", delivered);
    tx.query(&statement, Params::new()).await?.iter().map(|row| get(row, 0)).collect()
}

pub(super) async fn record_search(tx: &mut Tx<'_>, begun: Timestamp) -> Result<()> {
    tx.execute(RECORD_SEARCH, params![begun.as_micros(), begun.as_micros()]).await.map(drop)
}

/// The condition that an event is not older than this.
pub(super) fn since(time: Option<Timestamp>) -> String {
    time.map_or_else(String::new, |time| format!(" AND e.event_date >= {}", timestamp(time)))
}

pub(super) fn timestamp(time: Timestamp) -> String {
    format!("TIMESTAMPADD(MICROSECOND, {}, '1970-01-01')", time.as_micros())
}

fn listed(ids: &[String]) -> String {
    ids.iter().map(|id| literal(id)).collect::<Vec<_>>().join(",")
}

/// Several SELECTs as one.
pub(super) fn union(selects: Vec<String>, end: &str) -> String {
    format!("{}{end}", selects.join("\nUNION ALL\n"))
}

pub(super) fn waiting_event(row: &Row) -> Result<WaitingEvent> {
    Ok(WaitingEvent {
        id: get(row, 0)?,
        event_type: get(row, 1)?,
        // A zero date has no number.
        date: row.time(2)?.unwrap_or_default(),
    })
}

/// The oldest of these events, except some. Several types are read one after the other.
pub(super) fn without(
    mut events: Vec<WaitingEvent>,
    excluded: &[String],
    events_max: usize,
) -> Vec<WaitingEvent> {
    let excluded: HashSet<&str> = excluded.iter().map(String::as_str).collect();
    events.retain(|event| !excluded.contains(event.id.as_str()));
    events.sort_by_key(|event| event.date);
    events.truncate(events_max);
    events
}

/// The oldest events that are not fanned out, of the types of these handlers.
pub(super) async fn list_waiting(
    tx: &mut Tx<'_>,
    handler_types: &[HandlerType],
    events_max: usize,
    excluded: &[String],
) -> Result<Vec<WaitingEvent>> {
    let mut types: Vec<(&str, Option<Timestamp>)> = Vec::new();
    for entry in handler_types {
        match types.iter_mut().find(|(name, _)| *name == entry.event_type) {
            // A type is read from the earliest start of its handlers; `None` is the beginning.
            Some((_, from)) => *from = (*from).min(entry.since),
            None => types.push((&entry.event_type, entry.since)),
        }
    }
    // The ids are not in the statement: it would contain them once per type.
    let read_max = (events_max + excluded.len()).to_string();
    let selects = types.iter().map(|(name, from)| {
        OLDEST
            .replace("{type}", &literal(name))
            .replace("{since}", &since(*from))
            .replace("{events_max}", &read_max)
    });
    let statement = union(selects.collect(), &format!("\nORDER BY event_date, id LIMIT {read_max}"));
    let rows = tx.query(&statement, Params::new()).await?;
    Ok(without(rows.iter().map(waiting_event).collect::<Result<_>>()?, excluded, events_max))
}

pub(super) async fn fan_out(
    tx: &mut Tx<'_>,
    handler_types: &[HandlerType],
    scope: FanOutScope<'_>,
) -> Result<(u64, u64)> {
    let (picked, existing) = match scope {
        FanOutScope::Oldest { events_max, excluded, existing } => {
            (list_waiting(tx, handler_types, events_max, excluded).await?, existing)
        }
        FanOutScope::One(id) => {
            let statement = ONE.replace("{id}", &literal(id));
            let rows = tx.query(&statement, Params::new()).await?;
            (rows.iter().map(waiting_event).collect::<Result<Vec<_>>>()?, Existing::Keep)
        }
    };
    fan_out_events(tx, handler_types, &picked, existing).await
}

/// Inserts the notifications of these events, and sets `delivered`.
pub(super) async fn fan_out_events(
    tx: &mut Tx<'_>,
    handler_types: &[HandlerType],
    picked: &[WaitingEvent],
    existing: Existing,
) -> Result<(u64, u64)> {
    let mut new_notifications = Vec::new();
    for event in picked {
        let of_type = handler_types.iter().filter(|entry| entry.event_type == event.event_type);
        let wanted = of_type.filter(|entry| entry.since.is_none_or(|since| event.date >= since));
        new_notifications.extend(wanted.map(|entry| (event.id.as_str(), entry.handler.as_str())));
    }
    let inserted = insert(tx, &new_notifications, existing).await?;
    if !picked.is_empty() {
        let ids: Vec<String> = picked.iter().map(|event| event.id.clone()).collect();
        tx.execute(&SET_DELIVERED.replace("{ids}", &listed(&ids)), Params::new()).await?;
    }
    Ok((picked.len() as u64, inserted))
}

/// Inserts the notifications of these events and handlers. Returns how many.
async fn insert(tx: &mut Tx<'_>, new_notifications: &[(&str, &str)], existing: Existing) -> Result<u64> {
    if new_notifications.is_empty() {
        return Ok(0);
    }
    let new = new_notifications.iter().map(|(event, handler)| NewNotification {
        id: Uuid::now_v7(),
        event,
        handler,
    });
    let rows: Vec<NewNotification<'_>> = new.collect();
    let rows = serde_json::to_string(&rows).map_err(|cause| {
        Error::new(Code::StoreFailed, "rows cannot be written as JSON").with_source(cause)
    })?;
    let statement = match existing {
        Existing::Fail => INSERT_NEW,
        Existing::Keep => INSERT,
    };
    tx.execute(statement, params![rows]).await
}

/// The condition that an event of one date and id is later than this one; its date is not earlier.
fn behind(after: &MissedNotification) -> String {
    let date = format!("TIMESTAMPADD(MICROSECOND, {}, '1970-01-01')", after.event_date.as_micros());
    format!(" AND (e.event_date > {date} OR e.id > {})", literal(&after.event))
}

pub(super) async fn find_missed(
    tx: &mut Tx<'_>,
    types: &[HandlerType],
    mut after: Option<&MissedNotification>,
    rows_max: usize,
) -> Result<Vec<MissedNotification>> {
    let mut found = Vec::new();
    for entry in types {
        if found.len() >= rows_max {
            break;
        }
        let after = after.take();
        let from = entry.since.max(after.map(|after| after.event_date));
        let statement = MISSED
            .replace("{type}", &literal(&entry.event_type))
            .replace("{handler}", &literal(&entry.handler))
            .replace("{since}", &since(from))
            .replace("{after}", &after.map_or_else(String::new, behind))
            .replace("{rows_max}", &(rows_max - found.len()).to_string());
        for row in tx.query(&statement, Params::new()).await? {
            found.push(MissedNotification {
                event: get(&row, 0)?,
                event_type: entry.event_type.clone(),
                event_date: row.time(1)?.unwrap_or_default(),
                handler: entry.handler.clone(),
            });
        }
    }
    Ok(found)
}

pub(super) async fn insert_missed(tx: &mut Tx<'_>, missed: &[MissedNotification]) -> Result<u64> {
    let new_notifications: Vec<(&str, &str)> =
        missed.iter().map(|missed| (missed.event.as_str(), missed.handler.as_str())).collect();
    insert(tx, &new_notifications, Existing::Keep).await
}

pub(super) async fn aliases_of(tx: &mut Tx<'_>, handler: &str) -> Result<Vec<String>> {
    tx.query(ALIASES_OF, params![handler]).await?.iter().map(|row| get(row, 0)).collect()
}

pub(super) async fn renamed_to(tx: &mut Tx<'_>, name: &str) -> Result<Option<String>> {
    tx.query_opt(RENAMED_TO, params![name]).await?.map(|row| get(&row, 0)).transpose()
}

/// Deletes finished events that are older than `cutoff`, in microseconds since 1970, and their notifications. Returns how
/// many events.
pub(super) async fn delete_finished(tx: &mut Tx<'_>, cutoff: i64, rows_max: usize) -> Result<u64> {
    let statement = FINISHED.replace("{rows_max}", &rows_max.to_string());
    let found = tx.query(&statement, params![cutoff]).await?;
    let ids: Vec<String> = found.iter().map(|row| get(row, 0)).collect::<Result<_>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    // Indexes: the key (event_id, handler_name), and the primary keys.
    let listed = listed(&ids);
    for statement in [
        "DELETE n FROM {schema}.row_notes AS n
         JOIN {notifications} AS t ON CONVERT(CAST(t.id AS CHAR(36)) USING utf8mb4) COLLATE utf8mb4_bin = n.row_id
         WHERE t.event_id IN ({ids})",
        "DELETE FROM {notifications} WHERE event_id IN ({ids})",
    ] {
        tx.execute(&statement.replace("{ids}", &listed), Params::new()).await?;
    }
    tx.execute(&format!("DELETE FROM {{table}} WHERE id IN ({listed})"), Params::new()).await
}
