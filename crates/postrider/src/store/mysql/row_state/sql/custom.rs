//! A user-defined table. What stands in `{c....}` comes from its map: see `layout::custom`.
//!
//! Which indexes are used is up to the owner of the table: docs/src/layouts.md tells which are of use.

use super::{Adopt, Ids, Sql, delete_own, subscription};

pub(super) const SQL: Sql = Sql {
    ids: Ids::Texts,
    list: LIST,
    read: READ,
    payloads: PAYLOADS,
    marks: None,
    outcomes: ["{c.done}", "{c.retried}", "{c.ended}", "SET @postrider_nothing = 0"],
    load: LOAD,
    waiting: None,
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    create: None,
    search: None,
    event_states: EVENT_STATES,
    adopt: Adopt { make_way: None, tried: "" },
};

/// A row without an id cannot be found again. Index: one over the state and the order, if the table has it.
const LIST: &str = "
    SELECT {c.id_text}
    FROM {table} AS t
    WHERE {c.is_pending} AND {c.is_not_given_up} AND t.{c.id} IS NOT NULL
    ORDER BY {c.order}
    LIMIT {most}";

/// Index: the one over the id. A payload that is missing is an empty one.
const READ: &str = "
    SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
           CASE WHEN t.{c.payload} IS NULL THEN '' WHEN LENGTH(t.{c.payload}) <= {payload_max} THEN t.{c.payload} END,
           COALESCE(LENGTH(t.{c.payload}), 0), LEFT({c.headers}, 1048577), {c.created}, {c.topic},
           GREATEST(COALESCE({c.max_attempts}, {limit}), 1), NULL, COALESCE({c.attempts}, 0),
           {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    FROM {table} AS t
    WHERE t.{c.id} IN ({ids})";

const PAYLOADS: &str =
    "SELECT {c.id_text}, COALESCE(t.{c.payload}, '') FROM {table} AS t WHERE t.{c.id} IN ({ids})";

const LOAD: &str = "
    SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts,
           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', n.next_attempt_at), n.last_error,
           CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END, {c.is_done}, {c.is_given_up},
           GREATEST(COALESCE({c.max_attempts}, {limit}), 1)
    FROM {schema}.row_notes AS n
    LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}";

/// The inner list makes a table of its own of it: one cannot read what one deletes from.
const TRIM: &str = "
    DELETE FROM {table}
    WHERE {c.id} IN (SELECT old.id
                     FROM (SELECT t.{c.id} AS id
                           FROM {table} AS t
                           WHERE {c.is_old} AND {c.old_at} < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
                           ORDER BY {c.old_order}
                           LIMIT {most}) AS old)";

/// What is neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = {c.id_text})"
    };
}

const BACKLOG: &str = concat!(
    "SELECT (SELECT COUNT(*) FROM (SELECT 1 ",
    open!(),
    " LIMIT {most}) AS counted), (SELECT MIN({c.rank}) ",
    open!(),
    "), (SELECT MIN({c.created}) ",
    open!(),
    ")"
);

const NEWEST: &str = "SELECT MAX({c.rank}) FROM {table} AS t WHERE {c.is_pending}";

/// All rows by state. A row that was tried before has a count; one in a state that the map does not name is none of ours.
const COUNTS: &str = "
    SELECT COUNT(CASE WHEN {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) = 0 THEN 1 END), 0,
           COUNT(CASE WHEN {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) > 0 THEN 1 END),
           COUNT(CASE WHEN {c.was_given_up} AND NOT ({c.is_done}) THEN 1 END), COUNT(CASE WHEN {c.is_done} THEN 1 END),
           (SELECT count(*) FROM {schema}.row_notes AS u WHERE u.state = 'unrouted'),
           min(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END),
           max(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END)
    FROM {table} AS t";

/// Indexes: the primary keys.
const DELETE_OWN: &str = delete_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.made}");

/// A mapped table. When a row was delivered is not asked for.
const EVENT_STATES: &str = concat!(
    "SELECT ",
    subscription!(),
    ", {c.type} AS event_type, NULL AS producer, {c.made} AS created_at, NULL AS delivered_at,
       CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
            ELSE 'failed' END AS state,
       {c.is_pending} AND {c.is_not_given_up}
         AND NOT COALESCE(noted.next_attempt_at > UTC_TIMESTAMP(6), FALSE) AS is_due,
       COALESCE({c.attempts}, 0) AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
);
