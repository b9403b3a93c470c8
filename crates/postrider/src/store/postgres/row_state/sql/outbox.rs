//! Layout `outbox`: pending, published, failed.

use super::{
    AdoptSql, Sql, backoff_is_over, count_deliveries, count_open, delete_own, delivered_rows, fence, filter,
    lock, notes, nothing_unmarked, on_server, outcome, payload, shared_fence, started, subscription,
    timeline, undelivered,
};

/// A row that no publisher has delivered.
macro_rules! undelivered_row {
    () => {
        "t.id = c.id::uuid AND t.status <> 'published'"
    };
}

/// Marks delivered rows.
macro_rules! done {
    ($ids:literal, $marked_at:literal) => {
        outcome!(
            "done",
            SET "status = 'published', published_at = clock_timestamp()",
            FROM delivered_rows!($ids, $marked_at),
            WHERE undelivered_row!()
        )
    };
}

/// Indexes: idx_outbox_aggregate (aggregate_type, aggregate_id) for an aggregate, idx_outbox_status_created (status,
/// created_at) for a time with status pending. The layout has no index for other times or for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id::text, t.id::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
            t.created_at, t.status::text, t.retry_count::bigint, t.payload::text
     FROM {table} AS t
     WHERE ",
    filter!("aggregate_type", "aggregate_id", "uuid"),
    " ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
);

pub(super) const SQL: Sql = Sql {
    // Rows of one transaction have the same `created_at`; `cmin` is the number of their statement. Rows of one
    // statement are ordered by their ids if those grow (UUIDs of version 7), otherwise by their location in the table:
    // see adr/0040-rows-of-one-statement.md. Index: idx_outbox_status_created (status, created_at) WHERE pending, in
    // its order.
    list: "
        SELECT t.id::text
        FROM {table} AS t
        WHERE t.status = 'pending'
        ORDER BY t.created_at, t.cmin::text::bigint,
                 CASE WHEN get_byte(uuid_send(t.id), 6) >> 4 = 7 THEN t.id END, t.ctid, t.id
        LIMIT $1",
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id::text, t.id::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
                t.partition_key::text, ",
        payload!(),
        "     , left(t.headers::text, 1048577), t.created_at, t.topic::text, greatest(t.max_retries, 1)::bigint, NULL::text,
                t.retry_count::bigint, t.status = 'pending', t.status <> 'published'
         FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS wanted (id, ordinal)
         JOIN {table} AS t ON t.id = wanted.id::uuid
         ORDER BY ordinal"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id::text, payload::text FROM {table} WHERE id = ANY ($1::text[]::uuid[])",
    claim: None,
    lock: Some(lock!("t.id::text", ON "t.id = c.id::uuid", WHERE "t.status <> 'published'", "t.retry_count")),
    remove_marks: None,
    foreign_claims: None,
    // Index: the primary key (id).
    settle: concat!(
        fence!(),
        done!("$7", "$8"),
        outcome!(
            "retried",
            SET "status = 'pending', retry_count = least(c.attempts, 32767)",
            FROM "unnest((SELECT $9::text[]), (SELECT $11::bigint[])) AS c (id, attempts)",
            WHERE undelivered_row!()
        ),
        outcome!(
            "given_up",
            SET "status = 'failed', retry_count = t.max_retries",
            FROM "unnest((SELECT $13::text[])) AS c (id)",
            WHERE undelivered_row!()
        ),
        nothing_unmarked!(),
        notes!()
    ),
    // Index: the primary key (id).
    deliver: concat!(shared_fence!("$3", "$4"), done!("$5", "$6"), count_deliveries!()),
    // Index: the primary key (id).
    notes: "
        SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error, t.created_at,
               t.status = 'published', t.status = 'failed', greatest(t.max_retries, 1)::bigint
        FROM {schema}.row_notes AS n
        LEFT JOIN {table} AS t ON t.id = n.row_id::uuid",
    scheduled: None,
    // Locked rows are left for the next call. Index: idx_outbox_expires (expires_at) WHERE published, from its
    // beginning.
    delete_delivered: "
        DELETE FROM {table}
        WHERE id IN (SELECT id
                     FROM {table}
                     WHERE status = 'published' AND expires_at < statement_timestamp()
                       AND coalesce(published_at, created_at)
                           < to_timestamp(0) + $1::bigint * interval '1 microsecond'
                     ORDER BY expires_at
                     LIMIT $2
                     FOR UPDATE SKIP LOCKED)",
    // Index: idx_outbox_status_created (status, created_at) WHERE pending.
    backlog: concat!(
        "WITH open AS NOT MATERIALIZED (
             SELECT t.created_at
             FROM {table} AS t
             WHERE t.status = 'pending'
               AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
         )
         ",
        count_open!()
    ),
    // The layout has an index over the creation time of pending rows only; other rows do not matter here.
    newest: "SELECT max(created_at) FROM {table} WHERE status = 'pending'",
    counts: concat!(
        "SELECT count(*) FILTER (WHERE t.status = 'pending' AND t.retry_count = 0),
                0::bigint,
                count(*) FILTER (WHERE t.status = 'pending' AND t.retry_count > 0),
                count(*) FILTER (WHERE t.status = 'failed'),
                count(*) FILTER (WHERE t.status = 'published'),",
        undelivered!("t.status = 'pending'", "{table} AS t")
    ),
    // Indexes: row_done (done_at), from its beginning, and the primary key of the table.
    delete_own: delete_own!(
        "t.id = n.row_id::uuid",
        "t.status = 'published'",
        "t.created_at",
        "coalesce(t.expires_at < statement_timestamp(), true)"
    ),
    // Rows whose own `expires_at` has passed. Index: idx_outbox_expires (expires_at) WHERE published, from its
    // beginning.
    delete_own_expired: Some("
        WITH old AS (
            SELECT t.id, n.row_id
            FROM {table} AS t
            JOIN {schema}.row_done AS n ON n.row_id = t.id::text
            WHERE t.status = 'published' AND t.expires_at < statement_timestamp()
              AND n.done_at < to_timestamp(0) + $1::bigint * interval '1 microsecond'
              AND t.created_at <= n.done_at + interval '1 day'
            ORDER BY t.expires_at
            LIMIT $2::bigint
            FOR UPDATE OF t SKIP LOCKED
        ), gone AS (
            DELETE FROM {table} AS t USING old WHERE t.id = old.id RETURNING 1
        ), stale AS (
            SELECT n.row_id
            FROM (SELECT row_id FROM {schema}.row_done ORDER BY done_at LIMIT $2::bigint) AS n
            WHERE NOT EXISTS (SELECT FROM {table} AS t WHERE t.id = n.row_id::uuid)
        ), deleted_notes AS (
            DELETE FROM {schema}.row_done AS d
            WHERE d.row_id IN (SELECT row_id FROM old UNION ALL SELECT row_id FROM stale)
        )
        SELECT count(*), count(*) FROM gone"),
    create: &[include_str!("../outbox.sql"), include_str!("../processed_events.sql")],
    search: SEARCH,
    search_aggregate: SEARCH,
    search_action: None,
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type::text AS event_type, NULL::text AS producer, t.created_at, t.published_at AS delivered_at,
           CASE t.status WHEN 'published' THEN 'done' ELSE t.status END AS state,
           t.status = 'pending' AND ",
        backoff_is_over!(),
        "    AS is_due,
           t.retry_count::bigint AS attempts
         FROM {table} AS t
         LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id::text"
    ),
    adopt: AdoptSql {
        // Index: the primary key (id).
        delete_returned: Some("DELETE FROM {table} WHERE id = ANY ($1::text[]::uuid[]) AND status = 'published'"),
        set_attempts: "UPDATE {table}
                SET retry_count = greatest(least($2::bigint, max_retries - 1, $3::bigint - 1), 0)
                WHERE id = $1::text::uuid",
    },
};
