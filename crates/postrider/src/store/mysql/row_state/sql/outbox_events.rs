//! Layout `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED.
//!
//! `last_attempt_at` has whole seconds, so a mark is identified by it and the count of attempts together; see
//! adr/0028-claims-in-whole-seconds.md.

use super::{
    AdoptSql, ByState, Ids, List, Marks, Search, Sql, backlog, backoff_is_over, delete_own, micros, open,
    rows_of, subscription,
};

/// Index: the primary key (id).
const LOCK: &str = "
    SELECT t.id, t.attempt_count
    FROM {table} AS t
    WHERE t.id IN ({ids}) AND (t.status IN ('PENDING', 'FAILED') OR {abandoned})
    FOR UPDATE";

/// The layout's MarkEventForProcessing for a batch. Index: the primary key (id).
const MARK: &str = "
    UPDATE {table} AS t
    SET t.status = 'PUBLISHING',
        t.attempt_count = CASE WHEN t.attempt_count < 2147483647 THEN t.attempt_count + 1 ELSE t.attempt_count END,
        t.last_attempt_at = TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    WHERE t.id IN ({ids})";

/// A row that still carries the mark of the claim `o`, whose list contains the row as `c`.
macro_rules! claimed {
    () => {
        "t.status = 'PUBLISHING' AND t.attempt_count = c.m AND t.last_attempt_at = o.claimed_at"
    };
}

/// Index: the primary key (id).
const REMOVE_MARKS: &str = concat!(
    "UPDATE {schema}.row_claims AS o
     STRAIGHT_JOIN JSON_TABLE(o.ids, '$[*]' COLUMNS (i BIGINT PATH '$[0]', m BIGINT PATH '$[1]')) AS c
     STRAIGHT_JOIN {table} AS t ON t.id = c.i
     SET t.status = 'PENDING', t.attempt_count = GREATEST(t.attempt_count - 1, 0)
     WHERE ",
    claimed!()
);

/// Index: idx_outbox_events_status_created_at (status, created_at), the rows being published.
const FOREIGN: &str = concat!(
    "SELECT COALESCE(SUM(t.last_attempt_at > UTC_TIMESTAMP() - INTERVAL 10 MINUTE), 0), COUNT(*)
     FROM {table} AS t
     WHERE t.status = 'PUBLISHING'
       AND NOT EXISTS (SELECT 1
                       FROM {schema}.row_claims AS o
                       JOIN JSON_TABLE(o.ids, '$[*]' COLUMNS (i BIGINT PATH '$[0]', m BIGINT PATH '$[1]')) AS c
                       WHERE c.i = t.id AND ",
    claimed!(),
    ")
       AND NOT EXISTS (SELECT 1 FROM {schema}.row_refused AS r WHERE r.row_id = t.id)"
);

/// A row that this relay may settle: it carries the relay's mark, or it has no mark and waits.
macro_rules! owned_row {
    () => {
        concat!(
            "@postrider_owns = 1
             AND (t.status = 'PUBLISHING' AND t.attempt_count = c.m AND ",
            micros!("t.last_attempt_at"),
            " = c.s OR c.s IS NULL AND t.status IN ('PENDING', 'FAILED'))"
        )
    };
}

/// The time of the attempt. The layout's MarkEventForProcessing sets it, so a marked row has it already.
macro_rules! attempt_time {
    () => {
        "t.last_attempt_at = CASE WHEN c.s IS NULL THEN UTC_TIMESTAMP() ELSE t.last_attempt_at END"
    };
}

/// Index: the primary key (id), as in the statements below.
const DONE: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_done"),
    " SET t.status = 'PUBLISHED',
          t.attempt_count = CASE WHEN c.s IS NULL AND t.attempt_count < 2147483647 THEN t.attempt_count + 1
                                 ELSE t.attempt_count END, ",
    attempt_time!(),
    " WHERE ",
    owned_row!()
);

const RETRIED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_retried"),
    " SET t.status = 'FAILED', t.attempt_count = c.a, ",
    attempt_time!(),
    " WHERE ",
    owned_row!()
);

const GIVEN_UP: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_given_up"),
    " SET t.status = 'FAILED', t.attempt_count = c.a, ",
    attempt_time!(),
    " WHERE ",
    owned_row!()
);

const UNMARKED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_unmarked"),
    " SET t.status = 'PENDING', t.attempt_count = GREATEST(t.attempt_count - 1, 0)
      WHERE c.s IS NOT NULL AND ",
    owned_row!()
);

/// Index: idx_outbox_events_aggregate (aggregate_type, aggregate_id), which is optional, for an aggregate; else
/// idx_outbox_events_status_created_at (status, created_at), the newest of one state. None for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id, NULL, t.event_type, t.aggregate_type, t.aggregate_id, ",
    micros!("t.created_at"),
    ", t.status, t.attempt_count, t.payload, t.created_at
     FROM {table} AS t {index_hint}
     WHERE TRUE{conditions}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

pub(super) const SQL: Sql = Sql {
    ids: Ids::Numbers,
    // Index: idx_outbox_events_status_created_at (status, created_at), one range per state, each in its order.
    list: List::InOrder(
        "
        SELECT page.id
        FROM (SELECT due.id, due.created_at
              FROM ((SELECT t.id, t.created_at FROM {table} AS t
                     WHERE t.status = 'PENDING'
                     ORDER BY t.created_at, t.id LIMIT {rows_max})
                    UNION ALL
                    (SELECT t.id, t.created_at FROM {table} AS t
                     WHERE t.status = 'FAILED' AND t.attempt_count < {limit}
                     ORDER BY t.created_at, t.id LIMIT {rows_max})
                    UNION ALL
                    (SELECT t.id, t.created_at FROM {table} AS t
                     WHERE {abandoned}
                     ORDER BY t.created_at, t.id LIMIT {rows_max})) AS due
              ORDER BY due.created_at, due.id
              LIMIT {rows_max}) AS page
        ORDER BY page.id",
    ),
    reads_binary: false,
    // Index: the primary key (id).
    read: concat!(
        "SELECT t.id, NULL, t.event_type, t.aggregate_type, t.aggregate_id,
                NULL,
                CASE WHEN LENGTH(t.payload) <= {payload_max} THEN t.payload END, LENGTH(t.payload), NULL, ",
        micros!("t.created_at"),
        "     , NULL, {limit}, NULL, t.attempt_count,
                t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned},
                t.status <> 'PUBLISHED'
         FROM {table} AS t
         WHERE t.id IN ({ids})"
    ),
    // Index: the primary key (id).
    payloads: "SELECT id, payload FROM {table} WHERE id IN ({ids})",
    lock: None,
    marks: Some(Marks { lock: LOCK, mark: MARK, remove: REMOVE_MARKS, foreign: FOREIGN }),
    outcomes: [DONE, RETRIED, GIVEN_UP, UNMARKED],
    // Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts, ",
        micros!("n.next_attempt_at"),
        ", n.last_error, ",
        micros!("t.created_at"),
        ", t.status = 'PUBLISHED', t.status = 'FAILED' AND t.attempt_count >= {limit}, {limit}
         FROM {schema}.row_notes AS n
         LEFT JOIN {table} AS t ON t.id = n.row_id"
    ),
    scheduled: None,
    // The layout's DeletePublishedEventsOlderThan, in batches. Index: idx_outbox_events_status_created_at (status,
    // created_at), one range from its beginning.
    delete_delivered: "
        DELETE FROM {table}
        WHERE status = 'PUBLISHED' AND created_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
        ORDER BY created_at
        LIMIT {rows_max}",
    // Index: idx_outbox_events_status_created_at (status, created_at).
    backlog: backlog!(
        WHERE "t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit}"
    ),
    // Index: idx_outbox_events_status_created_at (status, created_at), the last entry of each state.
    newest: concat!(
        "SELECT ",
        micros!("MAX(newest)"),
        " FROM (SELECT MAX(created_at) AS newest FROM {table} WHERE status = 'PENDING'
                UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'PUBLISHING'
                UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'FAILED'
                UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'PUBLISHED') AS states"
    ),
    counts: concat!(
        "SELECT COALESCE(SUM(counted.state = 'PENDING'), 0), COALESCE(SUM(counted.state = 'PUBLISHING'), 0),
                COALESCE(SUM(counted.state = 'RETRY'), 0), COALESCE(SUM(counted.state = 'GIVEN UP'), 0),
                COALESCE(SUM(counted.state = 'PUBLISHED'), 0),
                (SELECT COUNT(*) FROM {schema}.row_notes WHERE state = 'unrouted'), ",
        micros!(
            "MIN(CASE WHEN counted.state IN ('PENDING', 'PUBLISHING', 'RETRY') THEN counted.created_at END)"
        ),
        ", ",
        micros!(
            "MAX(CASE WHEN counted.state IN ('PENDING', 'PUBLISHING', 'RETRY') THEN counted.created_at END)"
        ),
        " FROM (SELECT t.created_at,
                       CASE WHEN t.status <> 'FAILED' THEN t.status
                            WHEN t.attempt_count >= {limit} THEN 'GIVEN UP'
                            ELSE 'RETRY' END AS state
                FROM {table} AS t) AS counted"
    ),
    // Indexes: the primary keys.
    delete_own: delete_own!("t.id = n.row_id", "t.status = 'PUBLISHED'", "t.created_at"),
    create: Some(include_str!("../outbox_events.sql")),
    search: Some(Search {
        statement: SEARCH,
        aggregate: ["t.aggregate_type = ?", "t.aggregate_id = ?"],
        action: "",
        by_state: Some(ByState {
            states: &["PENDING", "PUBLISHING", "PUBLISHED", "FAILED"],
            index: "idx_{name}_status_created_at",
        }),
    }),
    // `last_attempt_at` is not the time of the delivery: a mark sets it.
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type, NULL AS producer, t.created_at, NULL AS delivered_at,
           CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
           (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned})
             AND ",
        backoff_is_over!(),
        "  AS is_due,
           t.attempt_count AS attempts
         FROM {table} AS t
         LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id"
    ),
    adopt: AdoptSql {
        delete_returned: None,
        set_attempts: "UPDATE {table} SET attempt_count = LEAST(?, ?) WHERE id = ?",
    },
};
