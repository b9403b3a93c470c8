//! Layout `outbox`: pending, published, failed.

use super::{
    Adopt, Sql, asked, backoff_is_over, body, delete_own, delivered, fence, fence_beside, notes, on_server,
    started, subscription, timeline, undelivered,
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
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    delete_own_expired: Some(DELETE_OWN_EXPIRED),
    create: &[include_str!("../outbox.sql"), include_str!("../processed_events.sql")],
    search: SEARCH,
    search_aggregate: SEARCH,
    event_states: EVENT_STATES,
    adopt: Adopt {
        // Index: the primary key (id).
        make_way: Some("DELETE FROM {table} WHERE id = ANY ($1::text[]::uuid[]) AND status = 'published'"),
        tried: "UPDATE {table}
                SET retry_count = greatest(least($2::bigint, max_retries - 1, $3::bigint - 1), 0)
                WHERE id = $1::text::uuid",
    },
};

/// Rows of one transaction have one `created_at`; `cmin` tells their order, where each was a statement of its own. Rows of
/// one statement stand by their ids, if those grow (UUIDs of version 7), else by their place in the table: see
/// adr/0040-rows-of-one-statement.md.
/// Index: idx_outbox_status_created (status, created_at) WHERE pending, in its order.
const LIST: &str = "
    SELECT t.id::text
    FROM {table} AS t
    WHERE t.status = 'pending'
    ORDER BY t.created_at, t.cmin::text::bigint,
             CASE WHEN get_byte(uuid_send(t.id), 6) >> 4 = 7 THEN t.id END, t.ctid, t.id
    LIMIT $1";

/// Index: the primary key (id).
const READ: &str = concat!(
    "SELECT t.id::text, t.id::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
            t.partition_key::text, ",
    body!(),
    "     , left(t.headers::text, 1048577), t.created_at, t.topic::text, greatest(t.max_retries, 1)::bigint, NULL::text,
            t.retry_count::bigint, t.status = 'pending', t.status <> 'published'
     FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS asked (id, place)
     JOIN {table} AS t ON t.id = asked.id::uuid
     ORDER BY place"
);

/// Index: the primary key (id).
const PAYLOADS: &str = "SELECT id::text, payload::text FROM {table} WHERE id = ANY ($1::text[]::uuid[])";

/// Passes by what others hold. Index: the primary key (id).
const LOCK: &str = "
    SELECT t.id::text, now()
    FROM unnest((SELECT $3::text[]), (SELECT $4::bigint[])) AS c (id, attempts)
    JOIN {table} AS t ON t.id = c.id::uuid
    WHERE t.status <> 'published' AND t.retry_count = c.attempts
      AND EXISTS (SELECT FROM {schema}.subscriptions WHERE name = $1 AND epoch = $2)
    FOR KEY SHARE OF t SKIP LOCKED";

/// Marks what was delivered.
macro_rules! done {
    ($ids:literal, $stamps:literal) => {
        concat!(
            ", done AS (
                 UPDATE {table} AS t
                 SET status = 'published', published_at = clock_timestamp()
                 FROM fence, unnest((SELECT ",
            $ids,
            "::text[]), (SELECT ",
            $stamps,
            "::timestamptz[])) AS c (id, stamp)
                 WHERE t.id = c.id::uuid AND t.status <> 'published'
                 RETURNING t.id
             )"
        )
    };
}

/// Index: the primary key (id).
const SETTLE: &str = concat!(
    fence!(),
    done!("$7", "$8"),
    ", retried AS (
         UPDATE {table} AS t
         SET status = 'pending', retry_count = least(c.attempts, 32767)
         FROM fence, unnest((SELECT $9::text[]), (SELECT $11::bigint[])) AS c (id, attempts)
         WHERE t.id = c.id::uuid AND t.status <> 'published'
         RETURNING t.id
     ), ended AS (
         UPDATE {table} AS t
         SET status = 'failed', retry_count = t.max_retries
         FROM fence, unnest((SELECT $13::text[])) AS c (id)
         WHERE t.id = c.id::uuid AND t.status <> 'published'
         RETURNING t.id
     ), returned AS (
         SELECT c.id FROM fence, unnest((SELECT $16::text[])) AS c (id)
     )",
    notes!()
);

/// Index: the primary key (id).
const DELIVER: &str = concat!(fence_beside!("$3", "$4"), done!("$5", "$6"), delivered!());

/// Index: the primary key (id).
const LOAD: &str = "
    SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error, t.created_at,
           t.status = 'published', t.status = 'failed', greatest(t.max_retries, 1)::bigint
    FROM {schema}.row_notes AS n
    LEFT JOIN {table} AS t ON t.id = n.row_id::uuid";

/// Rows that are locked wait for the next time. Index: idx_outbox_expires (expires_at) WHERE published, from its begin.
const TRIM: &str = "
    DELETE FROM {table}
    WHERE id IN (SELECT id
                 FROM {table}
                 WHERE status = 'published' AND expires_at < statement_timestamp()
                   AND coalesce(published_at, created_at)
                       < statement_timestamp() - $1::bigint * interval '1 microsecond'
                 ORDER BY expires_at
                 LIMIT $2
                 FOR UPDATE SKIP LOCKED)";

/// Index: idx_outbox_status_created (status, created_at) WHERE pending.
const BACKLOG: &str = "
    WITH open AS NOT MATERIALIZED (
        SELECT t.created_at
        FROM {table} AS t
        WHERE t.status = 'pending'
          AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
    )
    SELECT (SELECT count(*) FROM (SELECT FROM open LIMIT $1) AS counted), (SELECT min(created_at) FROM open)";

/// The layout indexes the creation of pending rows only; those are what the question is about.
const NEWEST: &str = "SELECT max(created_at) FROM {table} WHERE status = 'pending'";

const COUNTS: &str = concat!(
    "SELECT count(*) FILTER (WHERE t.status = 'pending' AND t.retry_count = 0),
            0::bigint,
            count(*) FILTER (WHERE t.status = 'pending' AND t.retry_count > 0),
            count(*) FILTER (WHERE t.status = 'failed'),
            count(*) FILTER (WHERE t.status = 'published'),",
    undelivered!("t.status = 'pending'", "{table} AS t")
);

/// Indexes: row_done (done_at), from its begin, and the primary key of the table.
const DELETE_OWN: &str = delete_own!(
    "t.id = n.row_id::uuid",
    "t.status = 'published'",
    "t.created_at",
    "coalesce(t.expires_at < statement_timestamp(), true)"
);

/// Rows past their own `expires_at`. Index: idx_outbox_expires (expires_at) WHERE
/// published, from its begin.
const DELETE_OWN_EXPIRED: &str = "
    WITH old AS (
        SELECT t.id, n.row_id
        FROM {table} AS t
        JOIN {schema}.row_done AS n ON n.row_id = t.id::text
        WHERE t.status = 'published' AND t.expires_at < statement_timestamp() AND $1::bigint IS NOT NULL
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
    ), forgotten AS (
        DELETE FROM {schema}.row_done AS d
        WHERE d.row_id IN (SELECT row_id FROM old UNION ALL SELECT row_id FROM stale)
    )
    SELECT count(*), count(*) FROM gone";

/// Indexes: idx_outbox_aggregate (aggregate_type, aggregate_id) for an aggregate, idx_outbox_status_created (status,
/// created_at) for a time with status pending. The layout has none for other times, nor for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id::text, t.id::text, t.event_type::text, t.aggregate_type::text, t.aggregate_id::text,
            t.created_at, t.status::text, t.retry_count::bigint, t.payload::text
     FROM {table} AS t
     WHERE ",
    asked!("aggregate_type", "aggregate_id", "uuid"),
    " ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
);

const EVENT_STATES: &str = concat!(
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
);
