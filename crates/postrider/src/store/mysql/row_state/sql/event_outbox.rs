//! Layout `event_outbox`: pending, sent, failed.

use super::{Adopt, Ids, Search, Sql, delete_own, micros, rows_of, subscription};

pub(super) const SQL: Sql = Sql {
    ids: Ids::Numbers,
    list: LIST,
    read: READ,
    payloads: PAYLOADS,
    marks: None,
    outcomes: [DONE, RETRIED, ENDED, NOTHING],
    load: LOAD,
    waiting: Some(WAITING),
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    create: Some(include_str!("../event_outbox.sql")),
    search: Some(Search {
        statement: SEARCH,
        aggregate: ["t.entity_table = ?", "t.entity_pk = ?"],
        by_state: None,
    }),
    event_states: EVENT_STATES,
    adopt: Adopt {
        // Index: uq_event_outbox_key (event_key).
        make_way: Some("DELETE FROM {table} WHERE event_key IN ({ids}) AND status = 'sent'"),
        tried: "UPDATE {table} SET attempts = LEAST(?, ?) WHERE id = ?",
    },
};

/// A row that may be handed out.
macro_rules! due {
    () => {
        "t.status IN ('pending', 'failed') AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= UTC_TIMESTAMP(6))"
    };
}

/// Index: idx_event_outbox_status_sched (status, next_attempt_at), all that is due; the layout has none that is in
/// order too.
const LIST: &str = concat!(
    "SELECT page.id
     FROM (SELECT t.id
           FROM {table} AS t
           WHERE ",
    due!(),
    "      ORDER BY t.created_at, t.id
           LIMIT {most}) AS page
     ORDER BY page.id"
);

/// Index: the primary key (id).
const READ: &str = concat!(
    "SELECT t.id, t.event_key, t.event_type, t.entity_table, t.entity_pk, NULL,
            CASE WHEN LENGTH(t.payload) <= {payload_max} THEN t.payload END, LENGTH(t.payload), NULL, ",
    micros!("t.created_at"),
    "     , NULL, {limit}, t.producer_node, t.attempts, ",
    due!(),
    "     , t.status <> 'sent'
     FROM {table} AS t
     WHERE t.id IN ({ids})"
);

/// Index: the primary key (id).
const PAYLOADS: &str = "SELECT id, payload FROM {table} WHERE id IN ({ids})";

/// A row that was not delivered in the meantime.
macro_rules! ours {
    () => {
        " WHERE @postrider_owns = 1 AND t.status IN ('pending', 'failed')"
    };
}

/// Index: the primary key (id), as of those below.
const DONE: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_done"),
    " SET t.status = 'sent', t.processed_at = UTC_TIMESTAMP(6), t.next_attempt_at = NULL",
    ours!()
);

const RETRIED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_retried"),
    " SET t.status = 'failed', t.attempts = c.a, t.next_attempt_at = TIMESTAMPADD(MICROSECOND, c.n, '1970-01-01')",
    ours!()
);

const ENDED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_ended"),
    " SET t.status = 'failed', t.attempts = c.a, t.next_attempt_at = '9999-12-31'",
    ours!()
);

/// Nothing was marked, so nothing is given back.
const NOTHING: &str = "SET @postrider_nothing = 0";

/// Index: the primary key (id).
const LOAD: &str = concat!(
    "SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts,
            CASE WHEN n.state = 'retry' THEN ",
    micros!("t.next_attempt_at"),
    " END, n.last_error, ",
    micros!("t.created_at"),
    ", t.status = 'sent', t.status = 'failed' AND COALESCE(t.next_attempt_at >= '9999-12-31', FALSE), {limit}
     FROM {schema}.row_notes AS n
     LEFT JOIN {table} AS t ON t.id = n.row_id"
);

/// Index: idx_event_outbox_status_sched (status, next_attempt_at), one range.
const WAITING: &str = concat!(
    "SELECT t.id, CONCAT(REPLACE(REPLACE(t.entity_table, '%', '%25'), '/', '%2F'), '/', t.entity_pk), t.attempts, ",
    micros!("t.next_attempt_at"),
    ", ",
    micros!("t.created_at"),
    " FROM {table} AS t
      WHERE t.status = 'failed' AND t.next_attempt_at > UTC_TIMESTAMP(6) AND t.next_attempt_at < '9999-12-31'
        AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = t.id)"
);

/// Index: idx_event_outbox_created_at (created_at), from its begin: nothing is delivered before it is made.
const TRIM: &str = "
    DELETE FROM {table}
    WHERE status = 'sent' AND created_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
      AND COALESCE(processed_at, created_at) < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    ORDER BY created_at
    LIMIT {most}";

/// What is neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE (t.status = 'pending'
                OR t.status = 'failed' AND (t.next_attempt_at IS NULL OR t.next_attempt_at < '9999-12-31'))
           AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = t.id)"
    };
}

/// Index: idx_event_outbox_status_sched (status, next_attempt_at).
const BACKLOG: &str = concat!(
    "SELECT (SELECT COUNT(*) FROM (SELECT t.id ",
    open!(),
    " LIMIT {most}) AS counted), (SELECT ",
    micros!("MIN(t.created_at)"),
    " ",
    open!(),
    ")"
);

/// Index: idx_event_outbox_created_at (created_at), its last entry.
const NEWEST: &str = concat!("SELECT ", micros!("MAX(created_at)"), " FROM {table}");

const COUNTS: &str = concat!(
    "SELECT COALESCE(SUM(counted.state = 'pending'), 0), 0, COALESCE(SUM(counted.state = 'again'), 0),
            COALESCE(SUM(counted.state = 'ended'), 0), COALESCE(SUM(counted.state = 'sent'), 0),
            (SELECT COUNT(*) FROM {schema}.row_notes WHERE state = 'unrouted'), ",
    micros!("MIN(CASE WHEN counted.state IN ('pending', 'again') THEN counted.created_at END)"),
    ", ",
    micros!("MAX(CASE WHEN counted.state IN ('pending', 'again') THEN counted.created_at END)"),
    " FROM (SELECT t.created_at,
                   CASE WHEN t.status <> 'failed' THEN t.status
                        WHEN COALESCE(t.next_attempt_at >= '9999-12-31', FALSE) THEN 'ended'
                        ELSE 'again' END AS state
            FROM {table} AS t) AS counted"
);

/// Indexes: the primary keys.
const DELETE_OWN: &str = delete_own!("t.id = n.row_id", "t.status = 'sent'", "t.created_at");

/// Indexes: idx_event_outbox_entity_time (entity_table, entity_pk, created_at) for an aggregate,
/// idx_event_outbox_created_at (created_at) for a time and for the newest of all. None for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id, t.event_key, t.event_type, t.entity_table, t.entity_pk, ",
    micros!("t.created_at"),
    ", t.status, t.attempts, t.payload, t.created_at
     FROM {table} AS t
     WHERE TRUE{asked}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

/// Due is what the layout's own view calls so.
const EVENT_STATES: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type, t.producer_node AS producer, t.created_at, t.processed_at AS delivered_at,
       CASE t.status WHEN 'sent' THEN 'done' WHEN 'failed' THEN 'failed' ELSE 'pending' END AS state,
       t.status IN ('pending', 'failed')
         AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= UTC_TIMESTAMP(6)) AS is_due,
       t.attempts
     FROM {table} AS t"
);
