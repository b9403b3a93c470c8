//! A user-defined table. Its column map replaces `{c....}`: see [`ColumnMap`](crate::layout::ColumnMap).
//!
//! Which indexes are used depends on the table; docs/src/layouts.md lists the useful ones.

use super::{AdoptSql, Ids, List, NOTHING_UNMARKED, Sql, backoff_is_over, delete_own, subscription};
use crate::store::row_state::custom_sql;

/// Rows that are neither done nor noted.
macro_rules! open_rows {
    () => {
        "FROM {table} AS t
         WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = {c.id_text})"
    };
}

pub(super) const SQL: Sql = Sql {
    ids: Ids::Texts,
    list: List::InOrder(custom_sql::list!("{rows_max}")),
    reads_binary: false,
    // Index: the one over the id. A missing payload is read as an empty one.
    read: "
        SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
               CASE WHEN t.{c.payload} IS NULL THEN '' WHEN LENGTH(t.{c.payload}) <= {payload_max} THEN t.{c.payload} END,
               COALESCE(LENGTH(t.{c.payload}), 0), LEFT({c.headers}, 1048577), {c.created}, {c.topic},
               GREATEST(COALESCE({c.max_attempts}, {limit}), 1), NULL, COALESCE({c.attempts}, 0),
               {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
               TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        FROM {table} AS t
        WHERE t.{c.id} IN ({ids})",
    payloads: "SELECT {c.id_text}, COALESCE(t.{c.payload}, '') FROM {table} AS t WHERE t.{c.id} IN ({ids})",
    lock: None,
    marks: None,
    outcomes: ["{c.done}", "{c.retried}", "{c.given_up}", NOTHING_UNMARKED],
    notes: "
        SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts,
               TIMESTAMPDIFF(MICROSECOND, '1970-01-01', n.next_attempt_at), n.last_error,
               CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END, {c.is_done}, {c.is_given_up},
               GREATEST(COALESCE({c.max_attempts}, {limit}), 1)
        FROM {schema}.row_notes AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}",
    scheduled: None,
    // The inner query is materialised: these servers cannot read from the table that a DELETE changes.
    delete_delivered: "
        DELETE FROM {table}
        WHERE {c.id} IN (SELECT old.id
                         FROM (SELECT t.{c.id} AS id
                               FROM {table} AS t
                               WHERE {c.is_deletable} AND {c.delivered_at} < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
                               ORDER BY {c.delivered_order}
                               LIMIT {rows_max}) AS old)",
    backlog: concat!(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 ",
        open_rows!(),
        " LIMIT {rows_max}) AS counted), (SELECT MIN({c.rank}) ",
        open_rows!(),
        "), (SELECT MIN({c.created}) ",
        open_rows!(),
        ")"
    ),
    newest: custom_sql::NEWEST,
    counts: custom_sql::COUNTS,
    // Indexes: the primary keys.
    delete_own: delete_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.created_at}"),
    create: None,
    search: None,
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", {c.type} AS event_type, NULL AS producer, {c.created_at} AS created_at, NULL AS delivered_at,
           ",
        custom_sql::event_state!(),
        ", {c.is_pending} AND {c.is_not_given_up} AND ",
        backoff_is_over!(),
        "  AS is_due,
           COALESCE({c.attempts}, 0) AS attempts
         FROM {table} AS t
         LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
    ),
    adopt: AdoptSql { delete_returned: None, set_attempts: "" },
};
