//! Layout `eventlog`: notifications that are PENDING, SUCCEEDED, FAILED or EXPIRED.
//!
//! The rows are notifications, each with a copy of its event, so handling reads one table. Times in it are UTC without a
//! zone.

use super::{
    AdoptSql, Sql, count_deliveries, delivered_rows, fence, notes, nothing_unmarked, on_server, outcome,
    shared_fence, started, timeline,
};

/// The time of the statement, as the table stores times.
macro_rules! now {
    () => {
        "(statement_timestamp() AT TIME ZONE 'UTC')"
    };
}

/// The notification is one of the subscription `$n`, under its name or an alias.
macro_rules! is_of {
    ($name:literal) => {
        concat!(
            "(t.handler_name = ",
            $name,
            " OR t.handler_name IN (SELECT alias FROM {schema}.handler_aliases AS a WHERE a.handler = ",
            $name,
            "))"
        )
    };
}

/// The pattern `h.event_type` matches the type of the event `e`.
macro_rules! matches_type {
    () => {
        "e.event_type LIKE replace(replace(replace(replace(h.event_type, '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%')"
    };
}

/// A notification that is not handled. One that was given up may be handled again: an operator may want it, or there is a
/// route for it now.
macro_rules! unhandled {
    () => {
        "t.id = c.id::uuid AND t.state <> 'SUCCEEDED'"
    };
}

/// Deletes old events whose notifications are all finished, with these notifications, and old rows without an event. An
/// event that a registered handler has no notification for stays: the search for missed events may find it. No index:
/// the layout has none for the date of events. `$1` microseconds since 1970, `$2` how many.
macro_rules! delete_finished {
    () => {
        concat!(
            "WITH old AS (
                 SELECT e.id
                 FROM {table} AS e
                 WHERE e.event_date < (to_timestamp(0) + $1::bigint * interval '1 microsecond') AT TIME ZONE 'UTC'
                   AND (e.event_type IS NULL
                        OR e.delivered
                           AND NOT EXISTS (SELECT FROM {notifications} AS n
                                           WHERE n.event_id = e.id AND n.state NOT IN ('SUCCEEDED', 'EXPIRED'))
                           AND NOT EXISTS (SELECT FROM {schema}.handler_types AS h
                                           WHERE e.event_type LIKE replace(replace(replace(replace(h.event_type, '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%')
                                             AND e.event_date >= h.registered_at AT TIME ZONE 'UTC'
                                             AND (h.since IS NULL OR e.event_date >= h.since AT TIME ZONE 'UTC')
                                             AND NOT EXISTS (SELECT FROM {notifications} AS n
                                                             WHERE n.event_id = e.id AND (
                                                                 n.handler_name = h.handler
                                                                 OR n.handler_name IN (
                                                                     SELECT alias FROM {schema}.handler_aliases AS a
                                                                     WHERE a.handler = h.handler)))))
                 LIMIT $2
                 FOR UPDATE SKIP LOCKED
             ), notified AS (
                 DELETE FROM {notifications} AS n USING old WHERE n.event_id = old.id RETURNING n.id
             ), forgotten AS (
                 DELETE FROM {schema}.row_notes AS n USING notified WHERE n.row_id = notified.id::text
             )"
        )
    };
}

const DELETE_FINISHED: &str =
    concat!(delete_finished!(), " DELETE FROM {table} AS e USING old WHERE e.id = old.id");

/// The same, and returns how many events, twice.
const DELETE_FINISHED_COUNTED: &str = concat!(
    delete_finished!(),
    ", gone AS (DELETE FROM {table} AS e USING old WHERE e.id = old.id RETURNING 1)
     SELECT count(*), count(*) FROM gone"
);

/// Marks handled notifications.
macro_rules! done {
    ($ids:literal, $marked_at:literal) => {
        outcome!(
            "done",
            UPDATE "{notifications}",
            SET concat!("state = 'SUCCEEDED', updated_date = ", now!()),
            FROM delivered_rows!($ids, $marked_at),
            WHERE unhandled!()
        )
    };
}

/// The newest rows that pass a filter. A row without an event has no type and no payload.
macro_rules! search {
    ($action:literal) => {
        concat!(
            "SELECT t.id::text, t.id::text, coalesce(t.event_type, '')::text, t.model_type::text, t.model_id::text,
                    t.event_date AT TIME ZONE 'UTC', t.status, NULL::bigint, coalesce(t.payload::text, '')
             FROM (SELECT e.*, CASE WHEN e.event_type IS NULL THEN 'no event' WHEN e.delivered THEN 'fanned out'
                                    ELSE 'waiting' END AS status
                   FROM {table} AS e) AS t
             WHERE ($1::text IS NULL OR t.model_type = $1) AND ($2::text IS NULL OR t.model_id = $2)
               AND ($3::text IS NULL OR t.event_type = $3)
               AND ($4::timestamptz IS NULL OR t.event_date >= $4 AT TIME ZONE 'UTC')
               AND ($5::timestamptz IS NULL OR t.event_date <= $5 AT TIME ZONE 'UTC')
               AND ($6::text IS NULL OR t.payload @> $6::jsonb)
               AND ($7::text IS NULL OR t.status = $7)",
            $action,
            " ORDER BY t.event_date DESC, t.id DESC LIMIT $8"
        )
    };
}

/// No index: the layout has none for these conditions.
const SEARCH: &str = search!("");

pub(super) const SQL: Sql = Sql {
    // Index: event_notifications_due (next_retry_at), from its beginning. A fan-out sets next_retry_at to the date of
    // the event, so the first entries are the oldest events.
    list: concat!(
        "SELECT page.id::text
         FROM (SELECT t.id, t.event_date, t.event_id
               FROM {notifications} AS t
               WHERE t.state IN ('PENDING', 'FAILED') AND t.next_retry_at <= ",
        now!(),
        "        AND t.handler_name = ANY ($4::text[]) AND ($5::text[] IS NULL OR t.event_type LIKE ANY ($5::text[]))
               ORDER BY t.next_retry_at, t.event_date, t.event_id
               LIMIT $1) AS page
         ORDER BY page.event_date, page.event_id"
    ),
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id::text, t.event_id::text, t.event_type::text, t.model_type::text, t.model_id::text, NULL::text,
                CASE WHEN t.payload IS NULL THEN 'null'
                     WHEN pg_column_size(t.payload) < 2000 OR octet_length(t.payload::text) <= $1 THEN t.payload::text
                END,
                CASE WHEN pg_column_size(t.payload) >= 2000 THEN octet_length(t.payload::text)::bigint END,
                NULL::text, t.event_date AT TIME ZONE 'UTC', NULL::text, $3::bigint, NULL::text, t.attempts::bigint,
                ($5::text[] IS NULL OR t.event_type LIKE ANY ($5::text[]))
                  AND t.state IN ('PENDING', 'FAILED') AND t.next_retry_at <= ",
        now!(),
        "     , t.state <> 'SUCCEEDED', statement_timestamp(), t.namespace::text, t.action_id::text,
                t.action_name::text, CASE WHEN params.bytes <= 4194304 THEN t.action_params::text END,
                t.started_date AT TIME ZONE 'UTC', t.completion_date AT TIME ZONE 'UTC',
                greatest(t.event_date, t.created_date) AT TIME ZONE 'UTC', params.bytes::bigint
         FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS wanted (id, ordinal)
         JOIN {notifications} AS t ON t.id = wanted.id::uuid
         CROSS JOIN LATERAL (SELECT octet_length(t.action_params::text) AS bytes) AS params
         ORDER BY ordinal"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id::text, coalesce(payload::text, 'null') FROM {notifications}
               WHERE id = ANY ($1::text[]::uuid[])",
    claim: None,
    lock: None,
    remove_marks: None,
    foreign_claims: None,
    // Index: the primary key (id).
    settle: concat!(
        fence!(),
        done!("$7", "$8"),
        outcome!(
            "retried",
            UPDATE "{notifications}",
            SET concat!(
                "state = 'FAILED', attempts = c.attempts,
                 next_retry_at = coalesce(c.next AT TIME ZONE 'UTC', ", now!(), "), updated_date = ", now!()
            ),
            FROM "unnest((SELECT $9::text[]), (SELECT $11::bigint[]), (SELECT $12::timestamptz[])) AS c (id, attempts, next)",
            WHERE unhandled!()
        ),
        outcome!(
            "given_up",
            UPDATE "{notifications}",
            SET concat!("state = 'EXPIRED', attempts = c.attempts, updated_date = ", now!()),
            FROM "unnest((SELECT $13::text[]), (SELECT $15::bigint[])) AS c (id, attempts)",
            WHERE unhandled!()
        ),
        nothing_unmarked!(),
        notes!()
    ),
    // Index: the primary key (id).
    deliver: concat!(shared_fence!("$3", "$4"), done!("$5", "$6"), count_deliveries!()),
    // A note without a row belongs to a deleted notification, of any handler. Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.key, n.destination, n.state, coalesce(t.attempts, n.attempts)::bigint,
                CASE WHEN n.state = 'retry' THEN t.next_retry_at AT TIME ZONE 'UTC' END, n.last_error,
                t.event_date AT TIME ZONE 'UTC', t.state = 'SUCCEEDED', coalesce(t.state = 'EXPIRED', false), $1::bigint
         FROM {schema}.row_notes AS n
         LEFT JOIN {notifications} AS t ON t.id = n.row_id::uuid
         WHERE t.id IS NULL OR ($3::text[] IS NULL OR t.event_type LIKE ANY ($3::text[])) AND ",
        is_of!("$2")
    ),
    // Index: event_notifications_due (next_retry_at), one range.
    scheduled: Some(concat!(
        "SELECT t.id::text, replace(replace(t.model_type, '%', '%25'), '/', '%2F') || '/' || t.model_id,
                t.attempts::bigint, t.next_retry_at AT TIME ZONE 'UTC', t.event_date AT TIME ZONE 'UTC'
         FROM {notifications} AS t
         WHERE t.state IN ('PENDING', 'FAILED') AND t.next_retry_at > ",
        now!(),
        " AND ($2::text[] IS NULL OR t.event_type LIKE ANY ($2::text[])) AND ",
        is_of!("$1"),
        " AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)"
    )),
    delete_delivered: DELETE_FINISHED,
    delete_own: DELETE_FINISHED_COUNTED,
    delete_own_expired: None,
    // Notifications and events that are not fanned out. The first notification is the oldest of the first thousand in the
    // index event_notifications_due: those that were never tried have the order of their events there. The first event is
    // found with one step per type through events_undelivered.
    backlog: concat!(
        "WITH RECURSIVE types (event_type) AS (
             (SELECT event_type FROM {table} WHERE delivered = FALSE AND event_type IS NOT NULL
              ORDER BY event_type LIMIT 1)
             UNION ALL
             SELECT (SELECT e.event_type FROM {table} AS e WHERE e.delivered = FALSE AND e.event_type > types.event_type
                     ORDER BY e.event_type LIMIT 1)
             FROM types
             WHERE types.event_type IS NOT NULL
         ), wanted AS (
             SELECT e.event_type, min(coalesce(h.since AT TIME ZONE 'UTC', '-infinity')) AS since
             FROM types AS e
             JOIN {schema}.handler_types AS h ON h.handler = $3 AND ",
        matches_type!(),
        "    GROUP BY e.event_type
         ), open AS NOT MATERIALIZED (
             SELECT t.event_date, t.next_retry_at
             FROM {notifications} AS t
             WHERE t.state IN ('PENDING', 'FAILED') AND ",
        is_of!("$3"),
        "      AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
         )
         SELECT (SELECT count(*)
                 FROM (SELECT 1 FROM open
                       UNION ALL
                       SELECT 1
                       FROM wanted
                       JOIN {table} AS e ON e.delivered = FALSE AND e.event_type = wanted.event_type
                                         AND e.event_date >= wanted.since
                       LIMIT $1) AS counted),
                least((SELECT min(first.event_date)
                       FROM (SELECT event_date FROM open ORDER BY next_retry_at LIMIT 1000) AS first),
                      (SELECT min(first.event_date)
                       FROM wanted
                       CROSS JOIN LATERAL (SELECT e.event_date
                                           FROM {table} AS e
                                           WHERE e.delivered = FALSE AND e.event_type = wanted.event_type
                                             AND e.event_date >= wanted.since
                                           ORDER BY e.event_date
                                           LIMIT 1) AS first)) AT TIME ZONE 'UTC'"
    ),
    // No index of the layout has the order of all events. The present is a limit that a drain can wait for.
    newest: "SELECT statement_timestamp()",
    counts: concat!(
        "SELECT of_handler.pending + waiting.events, 0::bigint, of_handler.failed, of_handler.expired, of_handler.succeeded,
                of_handler.unrouted, least(of_handler.first, waiting.first) AT TIME ZONE 'UTC',
                greatest(of_handler.last, waiting.last) AT TIME ZONE 'UTC'
         FROM (SELECT count(*) FILTER (WHERE t.state = 'PENDING') AS pending,
                      count(*) FILTER (WHERE t.state = 'FAILED') AS failed,
                      count(*) FILTER (WHERE t.state = 'EXPIRED') AS expired,
                      count(*) FILTER (WHERE t.state = 'SUCCEEDED') AS succeeded,
                      count(*) FILTER (WHERE EXISTS (SELECT FROM {schema}.row_notes AS n
                                                     WHERE n.row_id = t.id::text AND n.state = 'unrouted')) AS unrouted,
                      min(t.event_date) FILTER (WHERE t.state IN ('PENDING', 'FAILED')) AS first,
                      max(t.event_date) FILTER (WHERE t.state IN ('PENDING', 'FAILED')) AS last
               FROM {notifications} AS t
               WHERE ",
        is_of!("$1"),
        "    ) AS of_handler
         CROSS JOIN (
             SELECT count(*) AS events, min(e.event_date) AS first, max(e.event_date) AS last
             FROM {table} AS e
             WHERE e.delivered = FALSE
               AND EXISTS (SELECT FROM {schema}.handler_types AS h
                           WHERE h.handler = $1 AND (h.since IS NULL OR e.event_date >= h.since AT TIME ZONE 'UTC') AND ",
        matches_type!(),
        ")   ) AS waiting"
    ),
    create: &[include_str!("../eventlog.sql"), include_str!("../event_notifications.sql")],
    search: SEARCH,
    search_aggregate: SEARCH,
    // Index: idx_events_action_id (action_id).
    search_action: Some(search!(" AND t.action_id = $9::text::uuid")),
    // One row per notification, and one per event that is not fanned out. Rows without an event are no backlog.
    event_states: concat!(
        "SELECT t.handler_name::text AS subscription, t.event_type::text AS event_type, NULL::text AS producer,
                t.event_date AT TIME ZONE 'UTC' AS created_at,
                CASE WHEN t.state = 'SUCCEEDED' THEN t.updated_date AT TIME ZONE 'UTC' END AS delivered_at,
                CASE t.state WHEN 'SUCCEEDED' THEN 'done' WHEN 'PENDING' THEN 'pending' ELSE 'failed' END AS state,
                t.state IN ('PENDING', 'FAILED') AND t.next_retry_at <= ",
        now!(),
        "         AS is_due,
                t.attempts::bigint AS attempts
         FROM {notifications} AS t
         UNION ALL
         SELECT NULL, e.event_type::text, NULL, e.event_date AT TIME ZONE 'UTC', NULL, 'pending', true, 0
         FROM {table} AS e
         WHERE e.delivered = FALSE AND e.event_type IS NOT NULL"
    ),
    adopt: AdoptSql { delete_returned: None, set_attempts: "SELECT $1::text, $2::bigint, $3::bigint" },
};
