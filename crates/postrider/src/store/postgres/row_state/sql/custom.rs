//! A user-defined table. What stands in `{c....}` comes from its map: see
//! [`put_into_postgres`](crate::layout::ColumnMap).
//!
//! Which indexes are used is up to the owner of the table: docs/src/layouts.md tells which are of use.

use super::{
    Adopt, Sql, backoff_is_over, delete_own, delivered, fence, fence_beside, notes, on_server, started,
    subscription, timeline,
};

pub(super) const SQL: Sql = Sql {
    list: LIST,
    read: READ,
    payloads: PAYLOADS,
    claim: None,
    lock: Some(LOCK),
    give_back: None,
    foreign: None,
    settle: SETTLE,
    deliver: DELIVER,
    load: LOAD,
    waiting: None,
    delete_delivered: "{c.trim}",
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    delete_own_expired: None,
    create: &[],
    search: SEARCH,
    search_aggregate: SEARCH,
    event_states: EVENT_STATES,
    adopt: Adopt { make_way: None, tried: "" },
};

/// A row without an id cannot be found again. Index: one over the state and the order, if the table has it.
const LIST: &str = "
    SELECT {c.id_text}
    FROM {table} AS t
    WHERE {c.is_pending} AND {c.is_not_given_up} AND t.{c.id} IS NOT NULL
    ORDER BY {c.order}
    LIMIT $1";

/// Index: the one over the id, as of those below. A payload that is missing is an empty one.
const READ: &str = "
    SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
           CASE WHEN t.{c.payload} IS NULL THEN {c.no_body}
                WHEN pg_column_size(t.{c.payload}) < 2000 OR octet_length({c.body}) <= $1 THEN {c.body} END,
           CASE WHEN pg_column_size(t.{c.payload}) >= 2000 THEN octet_length({c.body})::bigint END,
           left({c.headers}, 1048577), {c.created}, {c.topic}, greatest(coalesce({c.max_attempts}, $3), 1)::bigint, NULL::text,
           coalesce({c.attempts}, 0), {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
           statement_timestamp()
    FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS asked (id, place)
    JOIN {table} AS t ON t.{c.id} = {c.asked}
    ORDER BY place";

const PAYLOADS: &str = "
    SELECT {c.id_text}, coalesce({c.body}, {c.no_body})
    FROM unnest((SELECT $1::text[])) AS asked (id)
    JOIN {table} AS t ON t.{c.id} = {c.asked}";

/// Passes by what others hold.
const LOCK: &str = "
    SELECT {c.id_text}, now()
    FROM unnest((SELECT $3::text[]), (SELECT $4::bigint[])) AS c (id, attempts)
    JOIN {table} AS t ON t.{c.id} = {c.each}
    WHERE {c.is_open} AND coalesce({c.attempts}, 0) = c.attempts
      AND EXISTS (SELECT FROM {schema}.subscriptions WHERE name = $1 AND epoch = $2)
    FOR KEY SHARE OF t SKIP LOCKED";

const SETTLE: &str = concat!(
    fence!(),
    ", done AS ({c.done 7}), retried AS ({c.retried}), ended AS ({c.ended}),
     returned AS (SELECT c.id FROM fence, unnest((SELECT $16::text[])) AS c (id))",
    notes!()
);

const DELIVER: &str = concat!(fence_beside!("$3", "$4"), ", done AS ({c.done 5})", delivered!());

const LOAD: &str = "
    SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error,
           CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END,
           {c.is_done}, {c.is_given_up}, greatest(coalesce({c.max_attempts}, $1), 1)::bigint
    FROM {schema}.row_notes AS n
    LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}";

const BACKLOG: &str = "
    WITH open AS NOT MATERIALIZED (
        SELECT {c.created} AS created_at, {c.rank} AS place
        FROM {table} AS t
        WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
          AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = {c.id_text})
    )
    SELECT (SELECT count(*) FROM (SELECT FROM open LIMIT $1) AS counted), (SELECT min(place) FROM open),
           (SELECT min(created_at) FROM open)";

const NEWEST: &str = "SELECT max({c.rank}) FROM {table} AS t WHERE {c.is_pending}";

/// All rows by state. A row that was tried before has a count; one in a state that the map does not name is none of ours.
const COUNTS: &str = "
    SELECT count(*) FILTER (WHERE {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) = 0), 0::bigint,
           count(*) FILTER (WHERE {c.is_pending} AND {c.is_not_given_up} AND COALESCE({c.attempts}, 0) > 0),
           count(*) FILTER (WHERE {c.was_given_up} AND NOT ({c.is_done})), count(*) FILTER (WHERE {c.is_done}),
           (SELECT count(*) FROM {schema}.row_notes AS u WHERE u.state = 'unrouted'),
           min(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END),
           max(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END)
    FROM {table} AS t";

/// Indexes: row_done (done_at), from its begin, and the primary key of the table.
const DELETE_OWN: &str = delete_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.created}", "true");

/// Of a mapped table, on any index its owner has.
const SEARCH: &str = "
    SELECT * FROM (
        SELECT {c.id_text} AS id, {c.event_id} AS event_id, {c.type} AS event_type, {c.aggregate_type} AS kind,
               {c.aggregate_id} AS about, {c.created} AS created_at,
               CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
                    ELSE 'given up' END AS status,
               coalesce({c.attempts}, 0)::bigint AS attempts, coalesce({c.shown_body}, '') AS payload
        FROM {table} AS t
    ) AS t
    WHERE ($1::text IS NULL OR t.kind = $1) AND ($2::text IS NULL OR t.about = $2)
      AND ($3::text IS NULL OR t.event_type = $3)
      AND ($4::timestamptz IS NULL OR t.created_at >= $4) AND ($5::timestamptz IS NULL OR t.created_at <= $5)
      AND ($6::text IS NULL OR t.payload::jsonb @> $6::jsonb)
      AND ($7::text IS NULL OR t.status = $7)
    ORDER BY t.created_at DESC NULLS LAST, t.id DESC LIMIT $8";

/// A mapped table. When a row was delivered is not asked for.
const EVENT_STATES: &str = concat!(
    "SELECT ",
    subscription!(),
    ", {c.type} AS event_type, NULL::text AS producer, {c.created} AS created_at, NULL::timestamptz AS delivered_at,
       CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
            ELSE 'failed' END AS state,
       {c.is_pending} AND {c.is_not_given_up} AND ",
    backoff_is_over!(),
    "    AS is_due,
       coalesce({c.attempts}, 0)::bigint AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
);
