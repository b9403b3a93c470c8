//! Layout `eventlog`: the registry of handlers, the fan-out, and the search for missed events. The fan-out runs in a
//! transaction that holds its lock; the search and the lists of types do not.

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::row::get;
use super::super::session::Tx;
use super::super::time::Time;
use crate::layout::like;
use crate::store::result_row::ResultRow;
use crate::store::row_state::no_row;
use crate::store::row_state::notifications::{
    Existing, FanOutScope, HandlerType, RegisteredType, WaitingEvent,
};
use crate::store::{MissedNotification, Skipped, row_limit};
use crate::{Result, Timestamp};

const LOCK: &str = "SELECT FROM {schema}.fan_out FOR UPDATE";
/// Does not wait for the disk at the commit. If the server then loses the fan-out in a crash, it has lost the
/// notifications and `delivered` together, and the events are fanned out again. An outcome of a notification is committed
/// after it and waits for the disk: if the outcome is on disk, so is its notification.
const TRY_LOCK: &str = "
    SELECT pg_catalog.set_config('synchronous_commit', 'off', true) FROM {schema}.fan_out FOR UPDATE SKIP LOCKED";

const REGISTERED: &str = "
    SELECT handler, event_type, since, registered_at, searched_at
    FROM {schema}.handler_types
    ORDER BY handler, event_type";

/// Index: the primary key (handler, event_type).
const REGISTER_TYPE: &str = "
    INSERT INTO {schema}.handler_types (handler, event_type, since) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";

/// Index: the primary key (alias).
const REGISTER_ALIAS: &str = "
    INSERT INTO {schema}.handler_aliases AS a (alias, handler) VALUES ($2, $1)
    ON CONFLICT (alias) DO UPDATE SET handler = excluded.handler";

/// What was missed under an earlier name is still searched for, and what waits is not before the start. Index: the primary key (handler, event_type).
const INHERIT: &str = "
    UPDATE {schema}.handler_types AS t
    SET registered_at = least(t.registered_at, earlier.registered_at), searched_at = earlier.searched_at,
        since = CASE WHEN t.since IS NOT NULL AND earlier.since IS NOT NULL THEN least(t.since, earlier.since) END
    FROM {schema}.handler_types AS earlier
    WHERE t.handler = $1 AND earlier.handler = $2 AND earlier.event_type = t.event_type";

/// Deletes the types that are registered under a name. Index: the primary key (handler, event_type).
const UNREGISTER_NAME: &str = "DELETE FROM {schema}.handler_types WHERE handler = $1";

/// Index: the primary key (alias).
const RENAMED_TO: &str = "SELECT handler FROM {schema}.handler_aliases WHERE alias = $1";

/// No index: the table has a row per renamed handler.
const ALIASES_OF: &str = "SELECT alias FROM {schema}.handler_aliases WHERE handler = $1 ORDER BY alias";

const RECORD_SEARCH: &str = "UPDATE {schema}.handler_types SET searched_at = $1 WHERE registered_at <= $1";

/// The types of events that are not fanned out, each found with one step through the index events_undelivered. The last
/// row is NULL.
macro_rules! waiting_types {
    () => {
        "WITH RECURSIVE waiting (event_type) AS (
             (SELECT event_type FROM {table} WHERE delivered = FALSE AND event_type IS NOT NULL
              ORDER BY event_type LIMIT 1)
             UNION ALL
             SELECT (SELECT e.event_type FROM {table} AS e WHERE e.delivered = FALSE AND e.event_type > waiting.event_type
                     ORDER BY e.event_type LIMIT 1)
             FROM waiting
             WHERE waiting.event_type IS NOT NULL
         )"
    };
}

const WAITING_TYPES: &str =
    concat!(waiting_types!(), " SELECT event_type::text FROM waiting WHERE event_type IS NOT NULL");

/// No index: the layout has none over events that are fanned out.
const FANNED_OUT_TYPES: &str =
    "SELECT DISTINCT event_type::text FROM {table} WHERE delivered AND event_type IS NOT NULL";

/// The events to fan out go to these handlers: `$1` handlers, `$2` types, `$3` dates before which a handler gets none.
macro_rules! wanted {
    () => {
        "WITH wanted AS (
             SELECT t.handler, t.event_type, t.since AT TIME ZONE 'UTC' AS since
             FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS t (handler, event_type, since)
         )"
    };
}

/// The same for handlers (`$1`) with patterns (`$2`), from a start on (`$3`), and with types of which events before a
/// date are left out. The types are those of the same snapshot as the events.
macro_rules! matching {
    ($types:literal, $dates:literal) => {
        concat!(
            waiting_types!(),
            ", wanted AS (
                 SELECT t.handler, w.event_type,
                        greatest(CASE WHEN bool_and(t.since IS NOT NULL) THEN min(t.since) END, min(s.date))
                            AT TIME ZONE 'UTC' AS since
                 FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS t (handler, pattern, since)
                 JOIN waiting AS w ON w.event_type LIKE t.pattern
                 LEFT JOIN unnest(",
            $types,
            "::text[], ",
            $dates,
            "::timestamptz[]) AS s (event_type, date) ON s.event_type = w.event_type
                 GROUP BY t.handler, w.event_type
             )"
        )
    };
}

/// The oldest events that are not fanned out: `$4` how many, `$5` ids to leave out. One range of the index
/// events_undelivered (event_type, event_date) per type.
macro_rules! oldest {
    () => {
        ", picked AS (
             SELECT e.*
             FROM (SELECT event_type, min(coalesce(since, '-infinity')) AS since FROM wanted GROUP BY 1) AS types
             CROSS JOIN LATERAL (
                 SELECT e.*
                 FROM {table} AS e
                 WHERE e.delivered = FALSE AND e.event_type = types.event_type AND e.event_date >= types.since
                   AND e.id <> ALL ($5::text[]::uuid[])
                 ORDER BY e.event_date, e.id
                 LIMIT $4
             ) AS e
             ORDER BY e.event_date, e.id
             LIMIT $4
         )"
    };
}

/// The event `$4`, if it is not fanned out. Index: the primary key (id).
macro_rules! one {
    () => {
        ", picked AS (SELECT e.* FROM {table} AS e WHERE e.id = $4::text::uuid AND e.delivered = FALSE)"
    };
}

/// The picked events.
macro_rules! list {
    () => {
        " SELECT id::text, event_type::text, event_date AT TIME ZONE 'UTC' FROM picked"
    };
}

/// Events and their handlers: each event goes to the handlers of its type. An array instead of a join: the planner does
/// not know the value of LIMIT, and would read the whole table for a join with many rows.
macro_rules! new_notifications {
    () => {
        ", new_notifications AS (
             SELECT picked.*, wanted.handler
             FROM picked
             JOIN wanted ON wanted.event_type = picked.event_type
                         AND (wanted.since IS NULL OR picked.event_date >= wanted.since)
         ), set_delivered AS (
             UPDATE {table} AS e SET delivered = TRUE
             WHERE e.id = ANY (ARRAY(SELECT id FROM picked)) AND e.delivered = FALSE
         )"
    };
}

/// These events (`$1`) and handlers (`$2`). Index: the primary key (id).
macro_rules! pairs {
    () => {
        "WITH new_notifications AS (
             SELECT e.*, p.handler
             FROM unnest($1::text[], $2::text[]) AS p (event, handler)
             JOIN {table} AS e ON e.id = p.event::uuid
         ), picked AS (SELECT DISTINCT id FROM new_notifications)"
    };
}

/// Inserts the notifications. A notification is due at once; its next_retry_at is the date of the event, so that the
/// index over it has the order of events. The parameter of this number is the beginning of all ids, which end with a
/// number in the order of events: they are next to each other in the index.
macro_rules! insert {
    ($id:literal, $on_conflict:literal) => {
        concat!(", inserted AS (
             INSERT INTO {notifications} (
                 id, event_id, handler_name, namespace, action_id, action_name, action_params, started_date,
                 completion_date, model_id, model_type, event_type, payload, event_date, state, attempts,
                 next_retry_at, created_date, updated_date)
             SELECT (", $id, "::text || lpad(to_hex(row_number() OVER (ORDER BY d.event_date, d.id)), 8, '0'))::uuid,
                    d.id, d.handler, d.namespace, d.action_id, d.action_name, d.action_params,
                    d.started_date, d.completion_date, d.model_id, d.model_type, d.event_type, d.payload, d.event_date,
                    'PENDING', 0, least(d.event_date, clock.now), clock.now, clock.now
             FROM new_notifications AS d
             CROSS JOIN (SELECT statement_timestamp() AT TIME ZONE 'UTC' AS now) AS clock
             ORDER BY d.event_date, d.id ", $on_conflict, "
             RETURNING 1
         )
         SELECT (SELECT count(*) FROM picked), (SELECT count(*) FROM inserted)")
    };
    ($id:literal) => {
        insert!($id, "ON CONFLICT (event_id, handler_name) DO NOTHING")
    };
}

const FAN_OUT_OLDEST: &str = concat!(wanted!(), oldest!(), new_notifications!(), insert!("$6"));
/// The same, and fails if a notification exists. ON CONFLICT makes each insert about a quarter more expensive.
const FAN_OUT_OLDEST_NEW: &str = concat!(wanted!(), oldest!(), new_notifications!(), insert!("$6", ""));
const FAN_OUT_MATCHING: &str = concat!(matching!("$7", "$8"), oldest!(), new_notifications!(), insert!("$6"));
const FAN_OUT_MATCHING_NEW: &str =
    concat!(matching!("$7", "$8"), oldest!(), new_notifications!(), insert!("$6", ""));
const FAN_OUT_ONE: &str = concat!(wanted!(), one!(), new_notifications!(), insert!("$5"));
const INSERT_MISSED: &str = concat!(pairs!(), insert!("$3"));

/// The beginning of the ids of one statement: a UUIDv7 without its last eight digits.
fn id_prefix() -> String {
    let mut digits = Uuid::now_v7().simple().to_string();
    digits.truncate(24);
    digits
}

/// Events that are fanned out but have no notification for a handler: `$4` how many. The first handler and type continue
/// behind the event with the date `$5` and the id `$6`. No index over such events; the notifications are found by their key
/// (event_id, handler_name).
const FIND_MISSED: &str = "
    SELECT e.id::text, wanted.handler, wanted.event_type, e.event_date AT TIME ZONE 'UTC'
    FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS wanted (handler, event_type, since, place)
    JOIN {table} AS e ON e.event_type = wanted.event_type AND e.event_date >= wanted.since AT TIME ZONE 'UTC'
    WHERE e.delivered
      AND (wanted.place > 1 OR $5::timestamptz IS NULL
           OR (e.event_date, e.id) > ($5 AT TIME ZONE 'UTC', $6::text::uuid))
      AND NOT EXISTS (SELECT FROM {notifications} AS n
                      WHERE n.event_id = e.id AND n.handler_name = wanted.handler)
      AND NOT EXISTS (SELECT FROM {notifications} AS n
                      JOIN {schema}.handler_aliases AS a ON a.alias = n.handler_name
                      WHERE n.event_id = e.id AND a.handler = wanted.handler)
    ORDER BY wanted.place, e.event_date, e.id
    LIMIT $4";
const LIST_OLDEST: &str = concat!(wanted!(), oldest!(), list!());
const LIST_MATCHING: &str = concat!(matching!("$6", "$7"), oldest!(), list!());

/// Locks the fan-out; `false` if another process has it and the caller does not wait.
pub(super) async fn lock(tx: &Tx<'_>, wait: bool) -> Result<bool> {
    let locked = tx.query_opt(if wait { LOCK } else { TRY_LOCK }, &[]).await?;
    Ok(locked.is_some())
}

pub(super) async fn registered(tx: &Tx<'_>) -> Result<Vec<RegisteredType>> {
    let rows = tx.query(REGISTERED, &[]).await?;
    let read = |row: &Row| {
        Ok(RegisteredType {
            handler: get(row, 0)?,
            pattern: get(row, 1)?,
            since: row.time(2)?,
            registered_at: row.time(3)?.unwrap_or_default(),
            searched_at: row.time(4)?,
        })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn register_type(
    tx: &Tx<'_>,
    handler: &str,
    pattern: &str,
    since: Option<Timestamp>,
) -> Result<()> {
    tx.execute(REGISTER_TYPE, &[&handler, &pattern, &since.map(Time)]).await.map(drop)
}

pub(super) async fn register_alias(tx: &Tx<'_>, handler: &str, alias: &str) -> Result<()> {
    tx.execute(REGISTER_ALIAS, &[&handler, &alias]).await?;
    tx.execute(INHERIT, &[&handler, &alias]).await?;
    tx.execute(UNREGISTER_NAME, &[&alias]).await.map(drop)
}

pub(super) async fn waiting_types(tx: &Tx<'_>) -> Result<Vec<String>> {
    types(tx, WAITING_TYPES).await
}

pub(super) async fn fanned_out_types(tx: &Tx<'_>) -> Result<Vec<String>> {
    types(tx, FANNED_OUT_TYPES).await
}

async fn types(tx: &Tx<'_>, statement: &'static str) -> Result<Vec<String>> {
    tx.query(statement, &[]).await?.iter().map(|row| get(row, 0)).collect()
}

/// The handlers and types of a statement, as one array per column.
struct Columns<'a> {
    handlers: Vec<&'a str>,
    types: Vec<&'a str>,
    since: Vec<Option<Time>>,
}

impl<'a> Columns<'a> {
    fn of(handler_types: &'a [HandlerType]) -> Self {
        Self {
            handlers: handler_types.iter().map(|entry| entry.handler.as_str()).collect(),
            types: handler_types.iter().map(|entry| entry.event_type.as_str()).collect(),
            since: handler_types.iter().map(|entry| entry.since.map(Time)).collect(),
        }
    }
}

pub(super) async fn list_waiting(
    tx: &Tx<'_>,
    handler_types: &[HandlerType],
    events_max: usize,
    excluded: &[String],
) -> Result<Vec<WaitingEvent>> {
    let Columns { handlers, types, since } = Columns::of(handler_types);
    let rows = tx.query(LIST_OLDEST, &[&handlers, &types, &since, &row_limit(events_max), &excluded]).await?;
    rows.iter().map(waiting_event).collect()
}

fn waiting_event(row: &Row) -> Result<WaitingEvent> {
    Ok(WaitingEvent { id: get(row, 0)?, event_type: get(row, 1)?, date: row.time(2)?.unwrap_or_default() })
}

pub(super) async fn fan_out(
    tx: &Tx<'_>,
    handler_types: &[HandlerType],
    scope: FanOutScope<'_>,
) -> Result<(u64, u64)> {
    let Columns { handlers, types, since } = Columns::of(handler_types);
    let row = match scope {
        FanOutScope::Oldest { events_max, excluded, existing } => {
            let statement = match existing {
                Existing::Fail => FAN_OUT_OLDEST_NEW,
                Existing::Keep => FAN_OUT_OLDEST,
            };
            let events_max = row_limit(events_max);
            tx.query_opt(statement, &[&handlers, &types, &since, &events_max, &excluded, &id_prefix()])
                .await?
        }
        FanOutScope::One(id) => {
            tx.query_opt(FAN_OUT_ONE, &[&handlers, &types, &since, &id, &id_prefix()]).await?
        }
    };
    counts(row)
}

/// How many events and notifications a fan-out returned.
fn counts(row: Option<Row>) -> Result<(u64, u64)> {
    let row = row.ok_or_else(no_row)?;
    let count = |column| get::<i64>(&row, column).map(i64::unsigned_abs);
    Ok((count(0)?, count(1)?))
}

/// The registrations and the left-out events of a statement, as one array per column.
struct Matching<'a> {
    handlers: Vec<&'a str>,
    patterns: Vec<String>,
    since: Vec<Option<Time>>,
    types: Vec<&'a str>,
    dates: Vec<Time>,
}

impl<'a> Matching<'a> {
    fn of(registered: &'a [RegisteredType], skipped: &'a Skipped) -> Self {
        let (types, dates) =
            skipped.older_than.iter().map(|(name, date)| (name.as_str(), Time(*date))).unzip();
        Self {
            handlers: registered.iter().map(|entry| entry.handler.as_str()).collect(),
            patterns: registered.iter().map(|entry| like(&entry.pattern)).collect(),
            since: registered.iter().map(|entry| entry.since.map(Time)).collect(),
            types,
            dates,
        }
    }
}

pub(super) async fn list_matching(
    tx: &Tx<'_>,
    registered: &[RegisteredType],
    events_max: usize,
    skipped: &Skipped,
) -> Result<Vec<WaitingEvent>> {
    let Matching { handlers, patterns, since, types, dates } = Matching::of(registered, skipped);
    let (events_max, ids) = (row_limit(events_max), &skipped.ids);
    let rows =
        tx.query(LIST_MATCHING, &[&handlers, &patterns, &since, &events_max, ids, &types, &dates]).await?;
    rows.iter().map(waiting_event).collect()
}

pub(super) async fn fan_out_matching(
    tx: &Tx<'_>,
    registered: &[RegisteredType],
    events_max: usize,
    skipped: &Skipped,
    existing: Existing,
) -> Result<(u64, u64)> {
    let statement = match existing {
        Existing::Fail => FAN_OUT_MATCHING_NEW,
        Existing::Keep => FAN_OUT_MATCHING,
    };
    let Matching { handlers, patterns, since, types, dates } = Matching::of(registered, skipped);
    let (events_max, ids) = (row_limit(events_max), &skipped.ids);
    let row = tx
        .query_opt(statement, &[&handlers, &patterns, &since, &events_max, ids, &id_prefix(), &types, &dates])
        .await?;
    counts(row)
}

pub(super) async fn record_search(tx: &Tx<'_>, begun: Timestamp) -> Result<()> {
    tx.execute(RECORD_SEARCH, &[&Time(begun)]).await.map(drop)
}

pub(super) async fn aliases_of(tx: &Tx<'_>, handler: &str) -> Result<Vec<String>> {
    tx.query(ALIASES_OF, &[&handler]).await?.iter().map(|row| get(row, 0)).collect()
}

pub(super) async fn renamed_to(tx: &Tx<'_>, name: &str) -> Result<Option<String>> {
    tx.query_opt(RENAMED_TO, &[&name]).await?.map(|row| get(&row, 0)).transpose()
}

pub(super) async fn find_missed(
    tx: &Tx<'_>,
    types: &[HandlerType],
    after: Option<&MissedNotification>,
    rows_max: usize,
) -> Result<Vec<MissedNotification>> {
    let Columns { handlers, types, since } = Columns::of(types);
    let (date, id) = (after.map(|after| Time(after.event_date)), after.map(|after| after.event.as_str()));
    let rows = tx.query(FIND_MISSED, &[&handlers, &types, &since, &row_limit(rows_max), &date, &id]).await?;
    let read = |row: &Row| {
        Ok(MissedNotification {
            event: get(row, 0)?,
            handler: get(row, 1)?,
            event_type: get(row, 2)?,
            event_date: row.time(3)?.unwrap_or_default(),
        })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn insert_missed(tx: &Tx<'_>, missed: &[MissedNotification]) -> Result<u64> {
    let events: Vec<&str> = missed.iter().map(|missed| missed.event.as_str()).collect();
    let handlers: Vec<&str> = missed.iter().map(|missed| missed.handler.as_str()).collect();
    let row = tx.query_opt(INSERT_MISSED, &[&events, &handlers, &id_prefix()]).await?.ok_or_else(no_row)?;
    get::<i64>(&row, 1).map(i64::unsigned_abs)
}
