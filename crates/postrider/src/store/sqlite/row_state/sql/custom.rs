//! A user-defined table. Its column map replaces `{c....}`: see [`ColumnMap`](crate::layout::ColumnMap).
//!
//! Which indexes are used depends on the table; docs/src/layouts.md lists the useful ones.

use super::{Sql, backoff_is_over, micros, subscription};
use crate::store::row_state::custom_sql;

/// Rows that are neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM postrider_row_notes AS n WHERE n.row_id = {c.id_text})"
    };
}

pub(super) const SQL: Sql = Sql {
    list: custom_sql::list!("?1"),
    // Index: the one over the id. A missing payload is read as an empty one.
    read: concat!(
        "SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
               coalesce(t.{c.payload}, ''), substr({c.headers}, 1, 1048577), {c.created}, {c.topic}, max(coalesce({c.max_attempts}, {limit}), 1),
               coalesce({c.attempts}, 0), {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
               ",
        micros!("'now'"),
        " FROM {table} AS t
        WHERE t.{c.id} = ?1"
    ),
    marks: None,
    outcomes: ["{c.done}", "{c.retried}", "{c.given_up}", ""],
    // Index: the one over the id.
    notes: "
        SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error,
               CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END,
               coalesce({c.is_done}, 0), coalesce({c.is_given_up}, 0), max(coalesce({c.max_attempts}, {limit}), 1)
        FROM postrider_row_notes AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}",
    delete_delivered: "{c.delete_delivered}",
    backlog: concat!(
        "SELECT (SELECT count(*) FROM (SELECT 1 ",
        open!(),
        " LIMIT ?1)), (SELECT min({c.rank}) ",
        open!(),
        "), (SELECT min({c.created}) ",
        open!(),
        ")"
    ),
    newest: custom_sql::NEWEST,
    counts: custom_sql::COUNTS,
    // Index: the one over the id.
    delete_own: "
        DELETE FROM {table} AS t
        WHERE t.{c.id} = ?1 AND {c.is_done} AND coalesce({c.created} <= ?2 + 86400000000, 1)",
    create: None,
    search: None,
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", {c.type} AS event_type, NULL AS producer, {c.created} AS created_at, NULL AS delivered_at, ",
        custom_sql::event_state!(),
        ", {c.is_pending} AND {c.is_not_given_up} AND ",
        backoff_is_over!(),
        "  AS is_due,
           coalesce({c.attempts}, 0) AS attempts
         FROM {table} AS t
         LEFT JOIN postrider_row_notes AS noted ON noted.row_id = {c.id_text}"
    ),
};
