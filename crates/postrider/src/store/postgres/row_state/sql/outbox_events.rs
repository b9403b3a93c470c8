//! Layout `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED.

use super::{
    AdoptSql, Sql, backoff_is_over, count_deliveries, count_open, delete_own, delivered_rows, fence, filter,
    notes, on_server, outcome, payload, shared_fence, started, subscription, timeline, undelivered,
};

/// The limit of a row: its own column `max_attempts` if the table has one, otherwise the outbox's. PostgreSQL resolves
/// a column name that the table does not have one query level further out, where this provides a NULL.
macro_rules! own_limit {
    () => {
        "(SELECT NULL::bigint AS max_attempts) AS unlimited "
    };
}

/// The time of the attempt. The layout's MarkEventForProcessing sets it, so a marked row has it already.
macro_rules! attempt_time {
    () => {
        "last_attempt_at = coalesce(c.marked_at, now())"
    };
}

/// A row that this relay may settle: it carries the relay's mark, or it has no mark and waits.
macro_rules! owned_row {
    () => {
        "t.id = c.id::bigint
         AND (t.status = 'PUBLISHING' AND t.last_attempt_at = c.marked_at
              OR c.marked_at IS NULL AND t.status IN ('PENDING', 'FAILED'))"
    };
}

/// Marks delivered rows.
macro_rules! done {
    ($ids:literal, $marked_at:literal) => {
        outcome!(
            "done",
            SET concat!(
                "status = 'PUBLISHED',
                 attempt_count = CASE WHEN c.marked_at IS NULL AND t.attempt_count < 2147483647 THEN t.attempt_count + 1
                                      ELSE t.attempt_count END, ",
                attempt_time!()
            ),
            FROM delivered_rows!($ids, $marked_at),
            WHERE owned_row!()
        )
    };
}

pub(super) const SQL: Sql = Sql {
    // Index: idx_outbox_events_status_created_at (status, created_at), one range per state, each in its order.
    list: concat!(
        "SELECT page.id::text
         FROM (SELECT due.id, due.created_at
               FROM ",
        own_limit!(),
        "      CROSS JOIN LATERAL (
                   (SELECT id, created_at FROM {table}
                    WHERE status = 'PENDING'
                    ORDER BY created_at, id LIMIT $1)
                   UNION ALL
                   (SELECT id, created_at FROM {table}
                    WHERE status = 'FAILED' AND attempt_count < coalesce(max_attempts, $2::bigint)
                    ORDER BY created_at, id LIMIT $1)
                   UNION ALL
                   (SELECT id, created_at FROM {table}
                    WHERE status = 'PUBLISHING'
                      AND last_attempt_at < statement_timestamp() - $3::bigint * interval '1 microsecond'
                    ORDER BY created_at, id LIMIT $1)
               ) AS due
               ORDER BY due.created_at, due.id
               LIMIT $1) AS page
         ORDER BY page.id"
    ),
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id::text, NULL::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
                NULL::text, ",
        payload!(),
        "     , NULL::text, t.created_at, NULL::text, t.own_limit, NULL::text, t.attempt_count::bigint,
                t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < t.own_limit
                  OR t.status = 'PUBLISHING'
                     AND t.last_attempt_at < statement_timestamp() - $4::bigint * interval '1 microsecond',
                t.status <> 'PUBLISHED'
         FROM ",
        own_limit!(),
        "CROSS JOIN unnest((SELECT $2::text[])) WITH ORDINALITY AS wanted (id, ordinal)
         CROSS JOIN LATERAL (
             SELECT t.id, event_type, aggregate_type, aggregate_id, payload, created_at, status, last_attempt_at,
                    attempt_count, coalesce(max_attempts, $3::bigint)::bigint AS own_limit
             FROM {table} AS t
             WHERE t.id = wanted.id::bigint
         ) AS t
         ORDER BY ordinal"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id::text, payload::text FROM {table} WHERE id = ANY ($1::text[]::bigint[])",
    // The layout's MarkEventForProcessing for a batch. A takeover waits for its lock, a settle does not. Index: the
    // primary key (id).
    claim: Some(concat!(
        shared_fence!("$5", "$6"),
        ", won AS (
             UPDATE {table} AS t
             SET status = 'PUBLISHING', last_attempt_at = now(),
                 attempt_count = CASE WHEN t.attempt_count < 2147483647 THEN t.attempt_count + 1 ELSE t.attempt_count END
             FROM fence, unnest((SELECT $3::text[]), (SELECT $4::bigint[])) AS c (id, attempts)
             WHERE t.id = c.id::bigint AND t.attempt_count = c.attempts
               AND (t.status IN ('PENDING', 'FAILED')
                    OR t.status = 'PUBLISHING'
                       AND t.last_attempt_at < statement_timestamp() - $7::bigint * interval '1 microsecond')
             RETURNING t.id::text AS id
         ), noted AS (
             INSERT INTO {schema}.row_claims (epoch, claimed_at, ids)
             SELECT $2, now(), array_agg(id) FROM won HAVING count(*) > 0
             RETURNING number
         )
         SELECT won.id, now(), (SELECT number FROM noted)
         FROM fence LEFT JOIN won ON true"
    )),
    lock: None,
    // Index: the primary key (id).
    remove_marks: Some("
        WITH fence AS (
            SELECT name FROM {schema}.subscriptions WHERE name = $1 AND epoch = $2 FOR KEY SHARE
        ), finished AS (
            DELETE FROM {schema}.row_claims USING fence RETURNING claimed_at, ids
        ), unmarked AS (
            UPDATE {table} AS t
            SET status = 'PENDING', attempt_count = greatest(t.attempt_count - 1, 0)
            FROM (SELECT unnest(ids)::bigint AS id, claimed_at FROM finished) AS c
            WHERE t.id = c.id AND t.status = 'PUBLISHING' AND t.last_attempt_at = c.claimed_at
            RETURNING t.id
        )
        SELECT count(*) FROM unmarked"),
    // Index: idx_outbox_events_status_created_at (status, created_at), the rows being published.
    foreign_claims: Some("
        SELECT count(*) FILTER (WHERE t.last_attempt_at > statement_timestamp() - interval '10 minutes'), count(*)
        FROM {table} AS t
        WHERE t.status = 'PUBLISHING'
          AND NOT EXISTS (SELECT FROM {schema}.row_claims AS c
                          WHERE c.claimed_at = t.last_attempt_at AND t.id::text = ANY (c.ids))
          AND NOT EXISTS (SELECT FROM {schema}.row_refused AS r WHERE r.row_id = t.id::text)"),
    // Index: the primary key (id).
    settle: concat!(
        fence!(),
        done!("$7", "$8"),
        outcome!(
            "retried",
            SET concat!("status = 'FAILED', attempt_count = c.attempts, ", attempt_time!()),
            FROM "unnest((SELECT $9::text[]), (SELECT $10::timestamptz[]), (SELECT $11::bigint[])) AS c (id, marked_at, attempts)",
            WHERE owned_row!()
        ),
        outcome!(
            "given_up",
            SET concat!("status = 'FAILED', attempt_count = c.attempts, ", attempt_time!()),
            FROM "unnest((SELECT $13::text[]), (SELECT $14::timestamptz[]), (SELECT $15::bigint[])) AS c (id, marked_at, attempts)",
            WHERE owned_row!()
        ),
        outcome!(
            "unmarked",
            SET "status = 'PENDING', attempt_count = greatest(t.attempt_count - 1, 0)",
            FROM "unnest((SELECT $16::text[]), (SELECT $17::timestamptz[])) AS c (id, marked_at)",
            WHERE "t.id = c.id::bigint AND t.status = 'PUBLISHING' AND t.last_attempt_at = c.marked_at"
        ),
        notes!()
    ),
    // Index: the primary key (id).
    deliver: concat!(shared_fence!("$3", "$4"), done!("$5", "$6"), count_deliveries!()),
    // Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error, t.created_at,
                t.status = 'PUBLISHED', t.status = 'FAILED' AND t.attempt_count >= t.own_limit, t.own_limit
         FROM ",
        own_limit!(),
        "CROSS JOIN {schema}.row_notes AS n
         LEFT JOIN LATERAL (
             SELECT t.created_at, t.status, t.attempt_count, coalesce(max_attempts, $1::bigint)::bigint AS own_limit
             FROM {table} AS t
             WHERE t.id = n.row_id::bigint
         ) AS t ON true"
    ),
    scheduled: None,
    // The layout's DeletePublishedEventsOlderThan, in batches. Index: idx_outbox_events_status_created_at (status,
    // created_at), one range from its beginning.
    delete_delivered: "
        DELETE FROM {table}
        WHERE id IN (SELECT id
                     FROM {table}
                     WHERE status = 'PUBLISHED'
                       AND created_at < to_timestamp(0) + $1::bigint * interval '1 microsecond'
                     ORDER BY created_at
                     LIMIT $2)",
    // Index: idx_outbox_events_status_created_at (status, created_at).
    backlog: concat!(
        "WITH open AS NOT MATERIALIZED (
             SELECT t.created_at
             FROM ",
        own_limit!(),
        "    CROSS JOIN LATERAL (
                 SELECT t.id, t.created_at
                 FROM {table} AS t
                 WHERE t.status IN ('PENDING', 'PUBLISHING')
                    OR t.status = 'FAILED' AND t.attempt_count < coalesce(max_attempts, $2::bigint)
             ) AS t
             WHERE NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
         )
         ",
        count_open!()
    ),
    // Index: idx_outbox_events_status_created_at (status, created_at), the last entry of each state.
    newest: "
        SELECT max(newest)
        FROM (VALUES ('PENDING'), ('PUBLISHING'), ('FAILED'), ('PUBLISHED')) AS states (status)
        CROSS JOIN LATERAL (SELECT max(created_at) AS newest FROM {table} AS t WHERE t.status = states.status) AS last",
    counts: concat!(
        "SELECT count(*) FILTER (WHERE t.status = 'PENDING'),
                count(*) FILTER (WHERE t.status = 'PUBLISHING'),
                count(*) FILTER (WHERE t.status = 'FAILED' AND t.attempt_count < t.own_limit),
                count(*) FILTER (WHERE t.status = 'FAILED' AND t.attempt_count >= t.own_limit),
                count(*) FILTER (WHERE t.status = 'PUBLISHED'),",
        undelivered!(
            "t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < t.own_limit",
            "(SELECT NULL::bigint AS max_attempts) AS unlimited
             CROSS JOIN LATERAL (
                 SELECT t.status, t.attempt_count, t.created_at, coalesce(max_attempts, $1::bigint)::bigint AS own_limit
                 FROM {table} AS t
             ) AS t"
        )
    ),
    // Indexes: row_done (done_at), from its beginning, and the primary key of the table.
    delete_own: delete_own!("t.id = n.row_id::bigint", "t.status = 'PUBLISHED'", "t.created_at", "true"),
    delete_own_expired: None,
    create: &[include_str!("../outbox_events.sql")],
    // Index: idx_outbox_events_status_created_at (status, created_at), the newest rows of each state. The layout has no
    // index for payloads.
    search: concat!(
        "SELECT t.*
         FROM (VALUES ('PENDING'), ('PUBLISHING'), ('PUBLISHED'), ('FAILED')) AS states (status)
         CROSS JOIN LATERAL (
             SELECT t.id::text, NULL::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
                    t.created_at, t.status::text, t.attempt_count::bigint, t.payload::text
             FROM {table} AS t
             WHERE t.status = states.status AND ",
        filter!("aggregate_type", "aggregate_id", "text"),
        "    ORDER BY t.created_at DESC, t.id DESC LIMIT $8
         ) AS t
         ORDER BY t.created_at DESC, t.id::bigint DESC LIMIT $8"
    ),
    // Index: idx_outbox_events_aggregate (aggregate_type, aggregate_id), which is optional.
    search_aggregate: concat!(
        "SELECT t.id::text, NULL::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
                t.created_at, t.status::text, t.attempt_count::bigint, t.payload::text
         FROM {table} AS t
         WHERE ",
        filter!("aggregate_type", "aggregate_id", "text"),
        " ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
    ),
    search_action: None,
    // `last_attempt_at` is not the time of the delivery: a mark sets it. The limit of a row is that of `own_limit!`.
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type::text AS event_type, NULL::text AS producer, t.created_at, NULL::timestamptz AS delivered_at,
           CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
           (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < t.own_limit OR {abandoned}) AND ",
        backoff_is_over!(),
        "    AS is_due,
           t.attempt_count::bigint AS attempts
         FROM (SELECT NULL::bigint AS max_attempts) AS unlimited
         CROSS JOIN LATERAL (
             SELECT t.id, event_type, created_at, status, attempt_count, last_attempt_at,
                    coalesce(max_attempts, {limit}) AS own_limit
             FROM {table} AS t
         ) AS t
         LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id::text"
    ),
    adopt: AdoptSql {
        delete_returned: None,
        set_attempts: "UPDATE {table} SET attempt_count = least($2::bigint, $3::bigint - 1) WHERE id = $1::text::bigint",
    },
};
