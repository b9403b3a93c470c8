//! A user-defined table. What stands in `{c....}` comes from its map: see `layout::custom`.
//!
//! Which indexes are used is up to the owner of the table: docs/src/layouts.md tells which are of use.

use super::Sql;

pub(super) const SQL: Sql = Sql {
    list: LIST,
    read: READ,
    marks: None,
    outcomes: ["{c.done}", "{c.retried}", "{c.ended}", ""],
    load: LOAD,
    delete_delivered: "{c.trim}",
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    create: None,
    search: None,
    event_states: EVENT_STATES,
};

/// A row without an id cannot be found again. Index: one over the state and the order, if the table has it.
const LIST: &str = "
    SELECT {c.id_text}
    FROM {table} AS t
    WHERE {c.is_pending} AND {c.is_not_given_up} AND t.{c.id} IS NOT NULL
    ORDER BY {c.order}
    LIMIT ?1";

/// Index: the one over the id. A payload that is missing is an empty one.
const READ: &str = "
    SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
           coalesce(t.{c.payload}, ''), substr({c.headers}, 1, 1048577), {c.created}, {c.topic}, max(coalesce({c.max_attempts}, {limit}), 1),
           coalesce({c.attempts}, 0), {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
           CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    FROM {table} AS t
    WHERE t.{c.id} = ?1";

/// Index: the one over the id.
const LOAD: &str = "
    SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error,
           CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END,
           coalesce({c.is_done}, 0), coalesce({c.is_given_up}, 0), max(coalesce({c.max_attempts}, {limit}), 1)
    FROM postrider_row_notes AS n
    LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}";

/// What is neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM postrider_row_notes AS n WHERE n.row_id = {c.id_text})"
    };
}

const BACKLOG: &str = concat!(
    "SELECT (SELECT count(*) FROM (SELECT 1 ",
    open!(),
    " LIMIT ?1)), (SELECT min({c.rank}) ",
    open!(),
    "), (SELECT min({c.created}) ",
    open!(),
    ")"
);

const NEWEST: &str = "SELECT max({c.rank}) FROM {table} AS t WHERE {c.is_pending}";

/// All rows by state. A row that was tried before has a count; one in a state that the map does not name is none of ours.
const COUNTS: &str = "
    SELECT count(*) FILTER (WHERE {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) = 0), 0,
           count(*) FILTER (WHERE {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) > 0),
           count(*) FILTER (WHERE {c.was_given_up} AND NOT ({c.is_done})), count(*) FILTER (WHERE {c.is_done}),
           (SELECT count(*) FROM postrider_row_notes AS u WHERE u.state = 'unrouted'),
           min(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END),
           max(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END)
    FROM {table} AS t";

/// Index: the one over the id.
const DELETE_OWN: &str = "
    DELETE FROM {table} AS t
    WHERE t.{c.id} = ?1 AND {c.is_done} AND coalesce({c.created} <= ?2 + 86400000000, 1)";

/// A mapped table. When a row was delivered is not asked for.
const EVENT_STATES: &str = "
    SELECT (SELECT min(name) FROM postrider_row_subscriptions) AS subscription, {c.type} AS event_type, NULL AS producer,
           {c.created} AS created_at, NULL AS delivered_at,
           CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
                ELSE 'failed' END AS state,
           {c.is_pending} AND {c.is_not_given_up}
             AND NOT coalesce(noted.next_attempt_at
                              > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, 0) AS is_due,
           coalesce({c.attempts}, 0) AS attempts
    FROM {table} AS t
    LEFT JOIN postrider_row_notes AS noted ON noted.row_id = {c.id_text}";
