//! Layout `eventlog`: notifications that are PENDING, SUCCEEDED, FAILED or EXPIRED.
//!
//! The rows are notifications, each with a copy of its event, so handling reads one table. `{names}` are the names of the
//! handler that a store serves, `{types}` a condition over the types that it knows, and `{subscription}` the name of a
//! subscription.
//!
//! Ids are `CHAR(36)` in ASCII on MySQL and `UUID` on MariaDB. MySQL reads the comments with a number, MariaDB those with
//! an M.

use super::{AdoptSql, Ids, List, NOTHING_UNMARKED, Search, Sql, micros};

/// A text, compared byte by byte whatever the collation of its column.
macro_rules! exact {
    ($text:literal) => {
        concat!("CONVERT(", $text, " USING utf8mb4) COLLATE utf8mb4_bin")
    };
}

/// An id as text.
macro_rules! id_text {
    ($id:literal) => {
        concat!("CONVERT(CAST(", $id, " AS CHAR(36)) USING utf8mb4) COLLATE utf8mb4_bin")
    };
}

/// The notification belongs to the subscription, under its name or an alias.
macro_rules! is_of_subscription {
    () => {
        concat!(
            "(",
            exact!("t.handler_name"),
            " = {subscription} OR ",
            exact!("t.handler_name"),
            " IN (SELECT a.alias FROM {schema}.handler_aliases AS a WHERE a.handler = {subscription}))"
        )
    };
}

/// Notifications of the handler in one state that are due, those that are due first. Without the hint MySQL may read the whole
/// table and sort it; it ignores the name of an index that does not exist. MariaDB reads it as a comment.
macro_rules! due_in_state {
    ($state:literal) => {
        concat!(
            "(SELECT /*+ INDEX(t event_notifications_due) */ t.id, t.next_retry_at, t.event_date, t.event_id
              FROM {notifications} AS t
              WHERE t.state = ",
            $state,
            "  AND t.next_retry_at <= UTC_TIMESTAMP(6) AND ",
            exact!("t.handler_name"),
            " IN ({names}) AND {types}
              ORDER BY t.next_retry_at, t.id
              LIMIT {rows_max})"
        )
    };
}

/// The rows of an outcome: id, new attempts, time of the next attempt.
macro_rules! rows_of {
    ($variable:literal) => {
        concat!(
            "JSON_TABLE(",
            $variable,
            ", '$[*]' COLUMNS (i CHAR(36) CHARACTER SET ascii PATH '$.i', a BIGINT PATH '$.a', n BIGINT PATH '$.n')) AS c
             STRAIGHT_JOIN {notifications} AS t ON t.id = /*!80000 c.i */ /*M! CAST(c.i AS UUID) */"
        )
    };
}

/// A notification that was given up may be handled again: an operator may want it, or there is a route for it now. All rows
/// get the same values, so their ids are in the statement: a join with JSON_TABLE took about 13 percent more server CPU, because the
/// server collects the rows of a join before it updates them. Index: the primary key (id), as in the statements below.
const DONE: &str = "
    UPDATE {notifications} AS t FORCE INDEX (PRIMARY)
    SET t.state = 'SUCCEEDED', t.updated_date = UTC_TIMESTAMP(6)
    WHERE t.id IN ({ids}) AND @postrider_owns = 1 AND t.state <> 'SUCCEEDED'";

const RETRIED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_retried"),
    " SET t.state = 'FAILED', t.attempts = c.a, t.updated_date = UTC_TIMESTAMP(6),
          t.next_retry_at = COALESCE(TIMESTAMPADD(MICROSECOND, c.n, '1970-01-01'), UTC_TIMESTAMP(6))
      WHERE @postrider_owns = 1 AND t.state <> 'SUCCEEDED'"
);

const GIVEN_UP: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_given_up"),
    " SET t.state = 'EXPIRED', t.attempts = c.a, t.updated_date = UTC_TIMESTAMP(6)
      WHERE @postrider_owns = 1 AND t.state <> 'SUCCEEDED'"
);

/// Notifications in one state that are not noted.
macro_rules! open_in_state {
    ($state:literal) => {
        concat!(
            "FROM {notifications} AS t
             WHERE t.state = ",
            $state,
            "  AND ",
            is_of_subscription!(),
            "  AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = ",
            id_text!("t.id"),
            ")"
        )
    };
}

/// The first thousand of them.
macro_rules! first_in_state {
    ($state:literal) => {
        concat!("(SELECT t.event_date ", open_in_state!($state), " ORDER BY t.next_retry_at LIMIT 1000)")
    };
}

/// The pattern `h.event_type` matches the type of the event `e`.
macro_rules! matches_type {
    () => {
        concat!(
            exact!("e.event_type"),
            " LIKE REPLACE(REPLACE(REPLACE(REPLACE(h.event_type, '\\\\', '\\\\\\\\'), '%', '\\\\%'), '_', '\\\\_'), '*', '%')"
        )
    };
}

/// Events that are not fanned out to the subscription yet. Index: events_undelivered, the entries of all of them.
macro_rules! waiting_events {
    () => {
        concat!(
            "FROM {table} AS e
             WHERE e.delivered = FALSE AND e.event_type IS NOT NULL AND EXISTS (
                 SELECT 1 FROM {schema}.handler_types AS h
                 WHERE h.handler = {subscription} AND (h.since IS NULL OR e.event_date >= h.since) AND ",
            matches_type!(),
            ")"
        )
    };
}

/// Index: idx_events_action_id for an action, otherwise none: the layout has no index for other searches.
const SEARCH: &str = concat!(
    "SELECT t.id, t.id, COALESCE(t.event_type, ''), t.model_type, t.model_id, ",
    micros!("t.created_at"),
    ", t.status, NULL, t.payload, t.created_at
     FROM (SELECT e.id, e.action_id, e.event_type, e.model_type, e.model_id, e.payload, e.event_date AS created_at,
                  CASE WHEN e.event_type IS NULL THEN 'no event' WHEN e.delivered THEN 'fanned out'
                       ELSE 'waiting' END AS status
           FROM {table} AS e) AS t
     WHERE TRUE{conditions}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

pub(super) const SQL: Sql = Sql {
    ids: Ids::Texts,
    // Index: event_notifications_due (state, next_retry_at), one range per state, from its beginning. A fan-out sets
    // next_retry_at to the date of the event, so the first entries are the oldest events.
    list: List::ByEvent(concat!(due_in_state!("'PENDING'"), " UNION ALL ", due_in_state!("'FAILED'"))),
    reads_binary: true,
    // Index: the primary key (id).
    read: "
        SELECT t.id, t.event_id, t.event_type, t.model_type, t.model_id, NULL,
               CASE WHEN t.payload IS NULL THEN 'null' WHEN LENGTH(t.payload) <= {payload_max} THEN t.payload END,
               COALESCE(LENGTH(t.payload), 4) + LENGTH(t.action_params), NULL, t.event_date, NULL, {limit}, NULL,
               t.attempts, {types} AND t.state IN ('PENDING', 'FAILED') AND t.next_retry_at <= UTC_TIMESTAMP(6),
               t.state <> 'SUCCEEDED', UTC_TIMESTAMP(6), t.namespace, t.action_id, t.action_name,
               CASE WHEN LENGTH(t.action_params) <= 4194304 THEN t.action_params END, t.started_date,
               t.completion_date, t.created_date, LENGTH(t.action_params)
        FROM {notifications} AS t
        WHERE t.id IN ({ids})",
    // Index: the primary key (id).
    payloads: "SELECT id, COALESCE(payload, 'null') FROM {notifications} WHERE id IN ({ids})",
    lock: None,
    marks: None,
    outcomes: [DONE, RETRIED, GIVEN_UP, NOTHING_UNMARKED],
    // A note without a row belongs to a deleted notification, of any handler. Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.`key`, n.destination, n.state, COALESCE(t.attempts, n.attempts),
                CASE WHEN n.state = 'retry' THEN ",
        micros!("t.next_retry_at"),
        " END, n.last_error, ",
        micros!("t.event_date"),
        ", t.state = 'SUCCEEDED', COALESCE(t.state = 'EXPIRED', FALSE), {limit}
         FROM {schema}.row_notes AS n
         LEFT JOIN {notifications} AS t
           ON t.id = /*!80000 CONVERT(n.row_id USING ascii) */ /*M! CAST(n.row_id AS UUID) */
         WHERE t.id IS NULL OR {types} AND ",
        is_of_subscription!()
    ),
    // Index: event_notifications_due (state, next_retry_at), one range per state.
    scheduled: Some(concat!(
        "SELECT t.id, CONCAT(REPLACE(REPLACE(t.model_type, '%', '%25'), '/', '%2F'), '/', t.model_id), t.attempts, ",
        micros!("t.next_retry_at"),
        ", ",
        micros!("t.event_date"),
        " FROM {notifications} AS t
          WHERE t.state IN ('PENDING', 'FAILED') AND t.next_retry_at > UTC_TIMESTAMP(6) AND {types} AND ",
        is_of_subscription!(),
        " AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = ",
        id_text!("t.id"),
        ")"
    )),
    // Finished events are deleted with their notifications: see [`notifications`](super::super::notifications).
    delete_delivered: "DO 0",
    delete_own: "DO 0",
    // The first notification is the oldest of the first thousand of each state in the index event_notifications_due:
    // those that were never tried have the order of their events there.
    backlog: concat!(
        "SELECT (SELECT COUNT(*) FROM ((SELECT 1 ",
        open_in_state!("'PENDING'"),
        ") UNION ALL (SELECT 1 ",
        open_in_state!("'FAILED'"),
        ") UNION ALL (SELECT 1 ",
        waiting_events!(),
        ") LIMIT {rows_max}) AS counted), (SELECT ",
        micros!("MIN(open.event_date)"),
        " FROM (",
        first_in_state!("'PENDING'"),
        " UNION ALL ",
        first_in_state!("'FAILED'"),
        " UNION ALL (SELECT MIN(e.event_date) ",
        waiting_events!(),
        ")) AS open)"
    ),
    // No index of the layout has the order of all events. The present is a limit that a drain can wait for.
    newest: concat!("SELECT ", micros!("UTC_TIMESTAMP(6)")),
    counts: concat!(
        "SELECT of_handler.pending + waiting.events, 0, of_handler.failed, of_handler.expired, of_handler.succeeded,
                of_handler.unrouted, ",
        micros!("LEAST(COALESCE(of_handler.first, waiting.first), COALESCE(waiting.first, of_handler.first))"),
        ", ",
        micros!("GREATEST(COALESCE(of_handler.last, waiting.last), COALESCE(waiting.last, of_handler.last))"),
        " FROM (SELECT COALESCE(SUM(t.state = 'PENDING'), 0) AS pending, COALESCE(SUM(t.state = 'FAILED'), 0) AS failed,
                       COALESCE(SUM(t.state = 'EXPIRED'), 0) AS expired,
                       COALESCE(SUM(t.state = 'SUCCEEDED'), 0) AS succeeded,
                       COALESCE(SUM(EXISTS (SELECT 1 FROM {schema}.row_notes AS n
                                            WHERE n.state = 'unrouted' AND n.row_id = ",
        id_text!("t.id"),
        ")), 0) AS unrouted,
                       MIN(CASE WHEN t.state IN ('PENDING', 'FAILED') THEN t.event_date END) AS first,
                       MAX(CASE WHEN t.state IN ('PENDING', 'FAILED') THEN t.event_date END) AS last
                FROM {notifications} AS t
                WHERE ",
        is_of_subscription!(),
        ") AS of_handler
          CROSS JOIN (SELECT COUNT(*) AS events, MIN(e.event_date) AS first, MAX(e.event_date) AS last ",
        waiting_events!(),
        ") AS waiting"
    ),
    create: Some(include_str!("../eventlog.sql")),
    search: Some(Search {
        statement: SEARCH,
        aggregate: ["t.model_type = ?", "t.model_id = ?"],
        action: "t.action_id = ?",
        by_state: None,
    }),
    // One row per notification, and one per event that is not fanned out. Rows without an event are no backlog.
    event_states: "
        SELECT t.handler_name AS subscription, t.event_type, NULL AS producer, t.event_date AS created_at,
               CASE WHEN t.state = 'SUCCEEDED' THEN t.updated_date END AS delivered_at,
               CASE t.state WHEN 'SUCCEEDED' THEN 'done' WHEN 'PENDING' THEN 'pending' ELSE 'failed' END AS state,
               t.state IN ('PENDING', 'FAILED') AND t.next_retry_at <= UTC_TIMESTAMP(6) AS is_due,
               t.attempts
        FROM {notifications} AS t
        UNION ALL
        SELECT NULL, e.event_type, NULL, e.event_date, NULL, 'pending', TRUE, 0
        FROM {table} AS e
        WHERE e.delivered = FALSE AND e.event_type IS NOT NULL",
    adopt: AdoptSql { delete_returned: None, set_attempts: "DO ? + ? + LENGTH(?)" },
};
