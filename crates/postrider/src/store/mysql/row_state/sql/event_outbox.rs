//! Layout `event_outbox`: pending, sent, failed.

use super::{
    AdoptSql, Ids, List, NOTHING_UNMARKED, Search, Sql, backlog, delete_own, micros, open, rows_of,
    subscription,
};

/// A row that a claim may hand out.
macro_rules! due {
    () => {
        "t.status IN ('pending', 'failed') AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= UTC_TIMESTAMP(6))"
    };
}

/// A row that no publisher has delivered.
macro_rules! undelivered_row {
    () => {
        " WHERE @postrider_owns = 1 AND t.status IN ('pending', 'failed')"
    };
}

/// Index: the primary key (id), as in the statements below.
const DONE: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_done"),
    " SET t.status = 'sent', t.processed_at = UTC_TIMESTAMP(6), t.next_attempt_at = NULL",
    undelivered_row!()
);

const RETRIED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_retried"),
    " SET t.status = 'failed', t.attempts = c.a, t.next_attempt_at = TIMESTAMPADD(MICROSECOND, c.n, '1970-01-01')",
    undelivered_row!()
);

const GIVEN_UP: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_given_up"),
    " SET t.status = 'failed', t.attempts = c.a, t.next_attempt_at = '9999-12-31'",
    undelivered_row!()
);

/// Indexes: idx_event_outbox_entity_time (entity_table, entity_pk, created_at) for an aggregate,
/// idx_event_outbox_created_at (created_at) for a time and for the newest of all. None for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id, t.event_key, t.event_type, t.entity_table, t.entity_pk, ",
    micros!("t.created_at"),
    ", t.status, t.attempts, t.payload, t.created_at
     FROM {table} AS t
     WHERE TRUE{conditions}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

pub(super) const SQL: Sql = Sql {
    ids: Ids::Numbers,
    // Index: idx_event_outbox_status_sched (status, next_attempt_at), all due rows; no index of the layout also has
    // their order.
    list: List::InOrder(concat!(
        "SELECT page.id
         FROM (SELECT t.id
               FROM {table} AS t
               WHERE ",
        due!(),
        "      ORDER BY t.created_at, t.id
               LIMIT {rows_max}) AS page
         ORDER BY page.id"
    )),
    reads_binary: false,
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id, t.event_key, t.event_type, t.entity_table, t.entity_pk, NULL,
                CASE WHEN LENGTH(t.payload) <= {payload_max} THEN t.payload END, LENGTH(t.payload), NULL, ",
        micros!("t.created_at"),
        "     , NULL, {limit}, t.producer_node, t.attempts, ",
        due!(),
        "     , t.status <> 'sent'
         FROM {table} AS t
         WHERE t.id IN ({ids})"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id, payload FROM {table} WHERE id IN ({ids})",
    // Index: the primary key (id).
    lock: Some(concat!(
        "SELECT t.id, t.attempts, ",
        micros!("UTC_TIMESTAMP(6)"),
        " FROM {table} AS t FORCE INDEX (PRIMARY) WHERE t.id IN ({ids}) AND t.status <> 'sent'"
    )),
    marks: None,
    outcomes: [DONE, RETRIED, GIVEN_UP, NOTHING_UNMARKED],
    // Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts,
                CASE WHEN n.state = 'retry' THEN ",
        micros!("t.next_attempt_at"),
        " END, n.last_error, ",
        micros!("t.created_at"),
        ", t.status = 'sent', t.status = 'failed' AND COALESCE(t.next_attempt_at >= '9999-12-31', FALSE), {limit}
         FROM {schema}.row_notes AS n
         LEFT JOIN {table} AS t ON t.id = n.row_id"
    ),
    // Index: idx_event_outbox_status_sched (status, next_attempt_at), one range.
    scheduled: Some(concat!(
        "SELECT t.id, CONCAT(REPLACE(REPLACE(t.entity_table, '%', '%25'), '/', '%2F'), '/', t.entity_pk), t.attempts, ",
        micros!("t.next_attempt_at"),
        ", ",
        micros!("t.created_at"),
        " FROM {table} AS t
          WHERE t.status = 'failed' AND t.next_attempt_at > UTC_TIMESTAMP(6) AND t.next_attempt_at < '9999-12-31'
            AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = t.id)"
    )),
    // Index: idx_event_outbox_created_at (created_at), from its beginning: no row is delivered before it is created.
    delete_delivered: "
        DELETE FROM {table}
        WHERE status = 'sent' AND created_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
          AND COALESCE(processed_at, created_at) < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
        ORDER BY created_at
        LIMIT {rows_max}",
    // Index: idx_event_outbox_status_sched (status, next_attempt_at).
    backlog: backlog!(
        WHERE "t.status = 'pending'
               OR t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < '9999-12-31')"
    ),
    // Index: idx_event_outbox_created_at (created_at), its last entry.
    newest: concat!("SELECT ", micros!("MAX(created_at)"), " FROM {table}"),
    counts: concat!(
        "SELECT COALESCE(SUM(counted.state = 'pending'), 0), 0, COALESCE(SUM(counted.state = 'retry'), 0),
                COALESCE(SUM(counted.state = 'given up'), 0), COALESCE(SUM(counted.state = 'sent'), 0),
                (SELECT COUNT(*) FROM {schema}.row_notes WHERE state = 'unrouted'), ",
        micros!("MIN(CASE WHEN counted.state IN ('pending', 'retry') THEN counted.created_at END)"),
        ", ",
        micros!("MAX(CASE WHEN counted.state IN ('pending', 'retry') THEN counted.created_at END)"),
        " FROM (SELECT t.created_at,
                       CASE WHEN t.status <> 'failed' THEN t.status
                            WHEN COALESCE(t.next_attempt_at >= '9999-12-31', FALSE) THEN 'given up'
                            ELSE 'retry' END AS state
                FROM {table} AS t) AS counted"
    ),
    // Indexes: the primary keys.
    delete_own: delete_own!("t.id = n.row_id", "t.status = 'sent'", "t.created_at"),
    create: Some(include_str!("../event_outbox.sql")),
    search: Some(Search {
        statement: SEARCH,
        aggregate: ["t.entity_table = ?", "t.entity_pk = ?"],
        action: "",
        by_state: None,
    }),
    // A row is due if the layout's own view shows it as due.
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type, t.producer_node AS producer, t.created_at, t.processed_at AS delivered_at,
           CASE t.status WHEN 'sent' THEN 'done' WHEN 'failed' THEN 'failed' ELSE 'pending' END AS state,
           t.status IN ('pending', 'failed')
             AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= UTC_TIMESTAMP(6)) AS is_due,
           t.attempts
         FROM {table} AS t"
    ),
    adopt: AdoptSql {
        // Index: uq_event_outbox_key (event_key).
        delete_returned: Some("DELETE FROM {table} WHERE event_key IN ({ids}) AND status = 'sent'"),
        set_attempts: "UPDATE {table} SET attempts = LEAST(?, ?) WHERE id = ?",
    },
};
