//! Layout `event_outbox`: pending, sent, failed.

use super::{
    AdoptSql, Sql, count_deliveries, count_open, delete_own, delivered_rows, fence, filter, lock, notes,
    nothing_unmarked, on_server, outcome, payload, shared_fence, started, subscription, timeline,
    undelivered,
};

/// The next attempt of a row that is given up.
macro_rules! never {
    () => {
        "timestamptz '9999-12-31 00:00:00+00'"
    };
}

/// A row that no publisher has delivered.
macro_rules! undelivered_row {
    () => {
        "t.id = c.id::bigint AND t.status IN ('pending', 'failed')"
    };
}

/// Marks delivered rows.
macro_rules! done {
    ($ids:literal, $marked_at:literal) => {
        outcome!(
            "done",
            SET "status = 'sent', processed_at = clock_timestamp(), next_attempt_at = NULL",
            FROM delivered_rows!($ids, $marked_at),
            WHERE undelivered_row!()
        )
    };
}

/// Indexes: idx_event_outbox_entity_time (entity_table, entity_pk, created_at) for an aggregate,
/// gin_event_outbox_payload for a payload, idx_event_outbox_created_at (created_at) for a time and for the newest of
/// all.
const SEARCH: &str = concat!(
    "SELECT t.id::text, t.event_key::text, t.event_type::text, t.entity_table::text, t.entity_pk::text,
            t.created_at, t.status::text, t.attempts::bigint, t.payload::text
     FROM {table} AS t
     WHERE ",
    filter!("entity_table", "entity_pk", "text"),
    " ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
);

pub(super) const SQL: Sql = Sql {
    // Index: idx_event_outbox_status_sched (status, next_attempt_at), all due rows; no index of the layout also has
    // their order.
    list: "
        SELECT page.id::text
        FROM (SELECT id
              FROM {table}
              WHERE status IN ('pending', 'failed')
                AND (next_attempt_at IS NULL OR next_attempt_at <= statement_timestamp())
              ORDER BY created_at, id
              LIMIT $1) AS page
        ORDER BY page.id",
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id::text, t.event_key::text, t.event_type::text, t.entity_table::text, t.entity_pk::text,
                NULL::text, ",
        payload!(),
        "     , NULL::text, t.created_at, NULL::text, $3::bigint, t.producer_node::text, t.attempts::bigint,
                t.status IN ('pending', 'failed')
                  AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= statement_timestamp()),
                t.status <> 'sent'
         FROM unnest((SELECT $2::text[])) WITH ORDINALITY AS wanted (id, ordinal)
         JOIN {table} AS t ON t.id = wanted.id::bigint
         ORDER BY ordinal"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id::text, payload::text FROM {table} WHERE id = ANY ($1::text[]::bigint[])",
    claim: None,
    lock: Some(lock!("t.id::text", ON "t.id = c.id::bigint", WHERE "t.status <> 'sent'", "t.attempts")),
    remove_marks: None,
    foreign_claims: None,
    // Index: the primary key (id).
    settle: concat!(
        fence!(),
        done!("$7", "$8"),
        outcome!(
            "retried",
            SET "status = 'failed', attempts = c.attempts, next_attempt_at = c.next",
            FROM "unnest((SELECT $9::text[]), (SELECT $11::bigint[]), (SELECT $12::timestamptz[])) AS c (id, attempts, next)",
            WHERE undelivered_row!()
        ),
        outcome!(
            "given_up",
            SET concat!("status = 'failed', attempts = c.attempts, next_attempt_at = ", never!()),
            FROM "unnest((SELECT $13::text[]), (SELECT $15::bigint[])) AS c (id, attempts)",
            WHERE undelivered_row!()
        ),
        nothing_unmarked!(),
        notes!()
    ),
    // Index: the primary key (id).
    deliver: concat!(shared_fence!("$3", "$4"), done!("$5", "$6"), count_deliveries!()),
    // Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.key, n.destination, n.state, n.attempts,
                CASE WHEN n.state = 'retry' THEN t.next_attempt_at END, n.last_error, t.created_at,
                t.status = 'sent', coalesce(t.status = 'failed' AND t.next_attempt_at >= ",
        never!(),
        ", false), $1::bigint
         FROM {schema}.row_notes AS n
         LEFT JOIN {table} AS t ON t.id = n.row_id::bigint"
    ),
    // Index: idx_event_outbox_status_sched (status, next_attempt_at), one range.
    scheduled: Some(concat!(
        "SELECT t.id::text, replace(replace(t.entity_table, '%', '%25'), '/', '%2F') || '/' || t.entity_pk, t.attempts::bigint, t.next_attempt_at, t.created_at
         FROM {table} AS t
         WHERE t.status = 'failed' AND t.next_attempt_at > statement_timestamp() AND t.next_attempt_at < ",
        never!(),
        " AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)"
    )),
    // Locked rows are left for the next call. Index: idx_event_outbox_created_at (created_at), from its beginning.
    delete_delivered: "
        DELETE FROM {table}
        WHERE id IN (SELECT id
                     FROM {table}
                     WHERE status = 'sent'
                       AND created_at < to_timestamp(0) + $1::bigint * interval '1 microsecond'
                       AND coalesce(processed_at, created_at)
                           < to_timestamp(0) + $1::bigint * interval '1 microsecond'
                     ORDER BY created_at
                     LIMIT $2
                     FOR UPDATE SKIP LOCKED)",
    // Index: idx_event_outbox_status_sched (status, next_attempt_at).
    backlog: concat!(
        "WITH open AS NOT MATERIALIZED (
             SELECT t.created_at
             FROM {table} AS t
             WHERE (t.status = 'pending'
                    OR t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < ",
        never!(),
        "          ))
               AND NOT EXISTS (SELECT FROM {schema}.row_notes AS n WHERE n.row_id = t.id::text)
         )
         ",
        count_open!()
    ),
    // Index: idx_event_outbox_created_at (created_at), its last entry.
    newest: "SELECT max(created_at) FROM {table}",
    counts: concat!(
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
    ),
    // Indexes: row_done (done_at), from its beginning, and the primary key of the table.
    delete_own: delete_own!("t.id = n.row_id::bigint", "t.status = 'sent'", "t.created_at", "true"),
    delete_own_expired: None,
    create: &[include_str!("../event_outbox.sql")],
    search: SEARCH,
    search_aggregate: SEARCH,
    search_action: None,
    // A row is due if the layout's own view shows it as due.
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type::text AS event_type, t.producer_node::text AS producer, t.created_at,
           t.processed_at AS delivered_at,
           CASE t.status WHEN 'sent' THEN 'done' ELSE t.status END AS state,
           t.status IN ('pending', 'failed')
             AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= statement_timestamp()) AS is_due,
           t.attempts::bigint AS attempts
         FROM {table} AS t"
    ),
    adopt: AdoptSql {
        // Index: uq_event_outbox_key (event_key).
        delete_returned: Some(
            "DELETE FROM {table} WHERE event_key = ANY ($1::text[]::character(36)[]) AND status = 'sent'",
        ),
        set_attempts: "UPDATE {table} SET attempts = least($2::bigint, $3::bigint - 1) WHERE id = $1::text::bigint",
    },
};
