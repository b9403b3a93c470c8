//! A user-defined table. Its column map replaces `{c....}`: see [`ColumnMap`](crate::layout::ColumnMap).
//!
//! Which indexes are used depends on the table; docs/src/layouts.md lists the useful ones.

use super::{
    AdoptSql, Sql, backoff_is_over, count_deliveries, delete_own, fence, lock, notes, nothing_unmarked,
    on_server, shared_fence, started, subscription, timeline,
};
use crate::store::row_state::custom_sql;

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

pub(super) const SQL: Sql = Sql {
    list: custom_sql::list!("$1"),
    // Index: the one over the id, as in the statements below. A missing payload is read as an empty one.
    read: "
        SELECT {c.id_text}, {c.event_id}, {c.type}, {c.aggregate_type}, {c.aggregate_id}, {c.key},
               CASE WHEN t.{c.payload} IS NULL THEN {c.no_body}
                    WHEN pg_column_size(t.{c.payload}) < 2000 OR octet_length({c.body}) <= $1 THEN {c.body} END,
               CASE WHEN pg_column_size(t.{c.payload}) >= 2000 THEN octet_length({c.body})::bigint END,
               left({c.headers}, 1048577), {c.created}, {c.topic}, greatest(coalesce({c.max_attempts}, $3), 1)::bigint, NULL::text,
               coalesce({c.attempts}, 0), {c.is_pending} AND {c.is_not_given_up}, {c.is_open},
               statement_timestamp()
        FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS wanted (id, ordinal)
        JOIN {table} AS t ON t.{c.id} = {c.wanted}
        ORDER BY ordinal",
    payloads: "
        SELECT {c.id_text}, coalesce({c.body}, {c.no_body})
        FROM unnest((SELECT $1::text[])) AS wanted (id)
        JOIN {table} AS t ON t.{c.id} = {c.wanted}",
    claim: None,
    lock: Some(lock!("{c.id_text}", ON "t.{c.id} = {c.each}", WHERE "{c.is_open}", "coalesce({c.attempts}, 0)")),
    remove_marks: None,
    foreign_claims: None,
    settle: concat!(
        fence!(),
        ", done AS ({c.done 7}), retried AS ({c.retried}), given_up AS ({c.given_up})",
        nothing_unmarked!(),
        notes!()
    ),
    deliver: concat!(shared_fence!("$3", "$4"), ", done AS ({c.done 5})", count_deliveries!()),
    notes: "
        SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error,
               CASE WHEN t.{c.id} IS NOT NULL THEN {c.rank} END,
               {c.is_done}, {c.is_given_up}, greatest(coalesce({c.max_attempts}, $1), 1)::bigint
        FROM {schema}.row_notes AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}",
    scheduled: None,
    delete_delivered: "{c.delete_delivered}",
    backlog: "
        WITH open AS NOT MATERIALIZED (
            SELECT {c.created} AS created_at, {c.rank} AS position
            FROM {table} AS t
            WHERE {c.is_pending} AND t.{c.id} IS NOT NULL
              AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = {c.id_text})
        )
        SELECT (SELECT count(*) FROM (SELECT FROM open LIMIT $1) AS counted), (SELECT min(position) FROM open),
               (SELECT min(created_at) FROM open)",
    newest: custom_sql::NEWEST,
    counts: custom_sql::COUNTS,
    // Indexes: row_done (done_at), from its beginning, and the primary key of the table.
    delete_own: delete_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.created}", "true"),
    delete_own_expired: None,
    create: &[],
    search: SEARCH,
    search_aggregate: SEARCH,
    search_action: None,
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", {c.type} AS event_type, NULL::text AS producer, {c.created} AS created_at, NULL::timestamptz AS delivered_at,
           ",
        custom_sql::event_state!(),
        ", {c.is_pending} AND {c.is_not_given_up} AND ",
        backoff_is_over!(),
        "    AS is_due,
           coalesce({c.attempts}, 0)::bigint AS attempts
         FROM {table} AS t
         LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
    ),
    adopt: AdoptSql { delete_returned: None, set_attempts: "" },
};
