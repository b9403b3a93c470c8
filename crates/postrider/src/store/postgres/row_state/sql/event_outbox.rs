//! Layout `event_outbox`: pending, sent, failed.

use super::{
    Adopt, Sql, asked, body, delete_own, delivered, fence, fence_beside, notes, on_server, started,
    subscription, timeline, undelivered,
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
    waiting: Some(WAITING),
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    delete_own_expired: None,
    create: &[include_str!("../event_outbox.sql")],
    search: SEARCH,
    search_aggregate: SEARCH,
    event_states: EVENT_STATES,
    adopt: Adopt {
        // Index: uq_event_outbox_key (event_key).
        make_way: Some(
            "DELETE FROM {table} WHERE event_key = ANY ($1::text[]::character(36)[]) AND status = 'sent'",
        ),
        tried: "UPDATE {table} SET attempts = least($2::bigint, $3::bigint - 1) WHERE id = $1::text::bigint",
    },
};

/// A row that is given up.
macro_rules! never {
    () => {
        "timestamptz '9999-12-31 00:00:00+00'"
    };
}

/// Index: idx_event_outbox_status_sched (status, next_attempt_at), all that is due; the layout has none that is in
/// order too.
const LIST: &str = "
    SELECT page.id::text
    FROM (SELECT id
          FROM {table}
          WHERE status IN ('pending', 'failed')
            AND (next_attempt_at IS NULL OR next_attempt_at <= statement_timestamp())
          ORDER BY created_at, id
          LIMIT $1) AS page
    ORDER BY page.id";

/// Index: the primary key (id).
const READ: &str = concat!(
    "SELECT t.id::text, t.event_key::text, t.event_type::text, t.entity_table::text, t.entity_pk::text,
            NULL::text, ",
    body!(),
    "     , NULL::text, t.created_at, NULL::text, $3::bigint, t.producer_node::text, t.attempts::bigint,
            t.status IN ('pending', 'failed')
              AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= statement_timestamp()),
            t.status <> 'sent'
     FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS asked (id, place)
     JOIN {table} AS t ON t.id = asked.id::bigint
     ORDER BY place"
);

/// Index: the primary key (id).
const PAYLOADS: &str = "SELECT id::text, payload::text FROM {table} WHERE id = ANY ($1::text[]::bigint[])";

/// Passes by what others hold. Index: the primary key (id).
const LOCK: &str = "
    SELECT t.id::text, now()
    FROM unnest((SELECT $3::text[]), (SELECT $4::bigint[])) AS c (id, attempts)
    JOIN {table} AS t ON t.id = c.id::bigint
    WHERE t.status <> 'sent' AND t.attempts = c.attempts
      AND EXISTS (SELECT FROM {schema}.subscriptions WHERE name = $1 AND epoch = $2)
    FOR KEY SHARE OF t SKIP LOCKED";

/// Marks what was delivered.
macro_rules! done {
    ($ids:literal, $stamps:literal) => {
        concat!(
            ", done AS (
                 UPDATE {table} AS t
                 SET status = 'sent', processed_at = clock_timestamp(), next_attempt_at = NULL
                 FROM fence, unnest((SELECT ",
            $ids,
            "::text[]), (SELECT ",
            $stamps,
            "::timestamptz[])) AS c (id, stamp)
                 WHERE t.id = c.id::bigint AND t.status IN ('pending', 'failed')
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
         SET status = 'failed', attempts = c.attempts, next_attempt_at = c.next
         FROM fence, unnest((SELECT $9::text[]), (SELECT $11::bigint[]), (SELECT $12::timestamptz[])) AS c (id, attempts, next)
         WHERE t.id = c.id::bigint AND t.status IN ('pending', 'failed')
         RETURNING t.id
     ), ended AS (
         UPDATE {table} AS t
         SET status = 'failed', attempts = c.attempts, next_attempt_at = ",
    never!(),
    "    FROM fence, unnest((SELECT $13::text[]), (SELECT $15::bigint[])) AS c (id, attempts)
         WHERE t.id = c.id::bigint AND t.status IN ('pending', 'failed')
         RETURNING t.id
     ), returned AS (
         SELECT c.id FROM fence, unnest((SELECT $16::text[])) AS c (id)
     )",
    notes!()
);

/// Index: the primary key (id).
const DELIVER: &str = concat!(fence_beside!("$3", "$4"), done!("$5", "$6"), delivered!());

/// Index: the primary key (id).
const LOAD: &str = concat!(
    "SELECT n.row_id, n.key, n.destination, n.state, n.attempts,
            CASE WHEN n.state = 'retry' THEN t.next_attempt_at END, n.last_error, t.created_at,
            t.status = 'sent', coalesce(t.status = 'failed' AND t.next_attempt_at >= ",
    never!(),
    ", false), $1::bigint
     FROM {schema}.row_notes AS n
     LEFT JOIN {table} AS t ON t.id = n.row_id::bigint"
);

/// Index: idx_event_outbox_status_sched (status, next_attempt_at), one range.
const WAITING: &str = concat!(
    "SELECT t.id::text, replace(replace(t.entity_table, '%', '%25'), '/', '%2F') || '/' || t.entity_pk, t.attempts::bigint, t.next_attempt_at, t.created_at
     FROM {table} AS t
     WHERE t.status = 'failed' AND t.next_attempt_at > statement_timestamp() AND t.next_attempt_at < ",
    never!(),
    " AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)"
);

/// Rows that are locked wait for the next time. Index: idx_event_outbox_created_at (created_at), from its begin.
const TRIM: &str = "
    DELETE FROM {table}
    WHERE id IN (SELECT id
                 FROM {table}
                 WHERE status = 'sent'
                   AND created_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
                   AND coalesce(processed_at, created_at)
                       < statement_timestamp() - $1::bigint * interval '1 microsecond'
                 ORDER BY created_at
                 LIMIT $2
                 FOR UPDATE SKIP LOCKED)";

/// Index: idx_event_outbox_status_sched (status, next_attempt_at).
const BACKLOG: &str = concat!(
    "WITH open AS NOT MATERIALIZED (
         SELECT t.created_at
         FROM {table} AS t
         WHERE (t.status = 'pending'
                OR t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < ",
    never!(),
    "          ))
           AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
     )
     SELECT (SELECT count(*) FROM (SELECT FROM open LIMIT $1) AS counted), (SELECT min(created_at) FROM open)"
);

/// Index: idx_event_outbox_created_at (created_at), its last entry.
const NEWEST: &str = "SELECT max(created_at) FROM {table}";

const COUNTS: &str = concat!(
    "SELECT count(*) FILTER (WHERE t.status = 'pending'),
            0::bigint,
            count(*) FILTER (WHERE t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < ",
    never!(),
    ")),    count(*) FILTER (WHERE t.status = 'failed' AND t.next_attempt_at >= ",
    never!(),
    "),     count(*) FILTER (WHERE t.status = 'sent'),",
    undelivered!(
        "t.status = 'pending'
         OR t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < timestamptz '9999-12-31 00:00:00+00')",
        "{table} AS t"
    )
);

/// Indexes: row_done (done_at), from its begin, and the primary key of the table.
const DELETE_OWN: &str = delete_own!("t.id = n.row_id::bigint", "t.status = 'sent'", "t.created_at", "true");

/// Indexes: idx_event_outbox_entity_time (entity_table, entity_pk, created_at) for an aggregate, gin_event_outbox_payload
/// for a payload, idx_event_outbox_created_at (created_at) for a time and for the newest of all.
const SEARCH: &str = concat!(
    "SELECT t.id::text, t.event_key::text, t.event_type::text, t.entity_table::text, t.entity_pk::text,
            t.created_at, t.status::text, t.attempts::bigint, t.payload::text
     FROM {table} AS t
     WHERE ",
    asked!("entity_table", "entity_pk", "text"),
    " ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
);

/// Due is what the layout's own view calls so.
const EVENT_STATES: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type::text AS event_type, t.producer_node::text AS producer, t.created_at,
       t.processed_at AS delivered_at,
       CASE t.status WHEN 'sent' THEN 'done' ELSE t.status END AS state,
       t.status IN ('pending', 'failed')
         AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= statement_timestamp()) AS is_due,
       t.attempts::bigint AS attempts
     FROM {table} AS t"
);
