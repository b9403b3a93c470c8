//! Layout `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED.
//!
//! `last_attempt_at` has whole seconds, so a claim is known by it and the count of attempts together; see
//! adr/0028-claims-in-whole-seconds.md.

use super::{Adopt, ByState, Ids, Marks, Search, Sql, delete_own, micros, rows_of, subscription};

pub(super) const SQL: Sql = Sql {
    ids: Ids::Numbers,
    list: LIST,
    read: READ,
    payloads: PAYLOADS,
    marks: Some(Marks { lock: LOCK, mark: MARK, give_back: GIVE_BACK, foreign: FOREIGN }),
    outcomes: [DONE, RETRIED, ENDED, RETURNED],
    load: LOAD,
    waiting: None,
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    create: Some(include_str!("../outbox_events.sql")),
    search: Some(Search {
        statement: SEARCH,
        aggregate: ["t.aggregate_type = ?", "t.aggregate_id = ?"],
        by_state: Some(ByState {
            states: &["PENDING", "PUBLISHING", "PUBLISHED", "FAILED"],
            index: "idx_{name}_status_created_at",
        }),
    }),
    event_states: EVENT_STATES,
    adopt: Adopt { make_way: None, tried: "UPDATE {table} SET attempt_count = LEAST(?, ?) WHERE id = ?" },
};

/// Index: idx_outbox_events_status_created_at (status, created_at), one range per state, each in its order.
const LIST: &str = "
    SELECT page.id
    FROM (SELECT due.id, due.created_at
          FROM ((SELECT t.id, t.created_at FROM {table} AS t
                 WHERE t.status = 'PENDING'
                 ORDER BY t.created_at, t.id LIMIT {most})
                UNION ALL
                (SELECT t.id, t.created_at FROM {table} AS t
                 WHERE t.status = 'FAILED' AND t.attempt_count < {limit}
                 ORDER BY t.created_at, t.id LIMIT {most})
                UNION ALL
                (SELECT t.id, t.created_at FROM {table} AS t
                 WHERE {abandoned}
                 ORDER BY t.created_at, t.id LIMIT {most})) AS due
          ORDER BY due.created_at, due.id
          LIMIT {most}) AS page
    ORDER BY page.id";

/// Index: the primary key (id).
const READ: &str = concat!(
    "SELECT t.id, NULL, t.event_type, t.aggregate_type, t.aggregate_id,
            NULL,
            CASE WHEN LENGTH(t.payload) <= {payload_max} THEN t.payload END, LENGTH(t.payload), NULL, ",
    micros!("t.created_at"),
    "     , NULL, {limit}, NULL, t.attempt_count,
            t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned},
            t.status <> 'PUBLISHED'
     FROM {table} AS t
     WHERE t.id IN ({ids})"
);

/// Index: the primary key (id).
const PAYLOADS: &str = "SELECT id, payload FROM {table} WHERE id IN ({ids})";

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

/// A row as a claim `o` left it, which has the row in its list as `c`.
macro_rules! claimed {
    () => {
        "t.status = 'PUBLISHING' AND t.attempt_count = c.m AND t.last_attempt_at = o.claimed_at"
    };
}

/// Index: the primary key (id).
const GIVE_BACK: &str = concat!(
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

/// A row that is ours: as we claimed it, or not claimed at all and waiting.
macro_rules! ours {
    () => {
        concat!(
            "@postrider_owns = 1
             AND (t.status = 'PUBLISHING' AND t.attempt_count = c.m AND ",
            micros!("t.last_attempt_at"),
            " = c.s OR c.s IS NULL AND t.status IN ('PENDING', 'FAILED'))"
        )
    };
}

/// What a try leaves behind, as the layout's MarkEventForProcessing does; a claim has done so already.
macro_rules! tried {
    () => {
        "t.last_attempt_at = CASE WHEN c.s IS NULL THEN UTC_TIMESTAMP() ELSE t.last_attempt_at END"
    };
}

/// Index: the primary key (id), as of those below.
const DONE: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_done"),
    " SET t.status = 'PUBLISHED',
          t.attempt_count = CASE WHEN c.s IS NULL AND t.attempt_count < 2147483647 THEN t.attempt_count + 1
                                 ELSE t.attempt_count END, ",
    tried!(),
    " WHERE ",
    ours!()
);

const RETRIED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_retried"),
    " SET t.status = 'FAILED', t.attempt_count = c.a, ",
    tried!(),
    " WHERE ",
    ours!()
);

const ENDED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_ended"),
    " SET t.status = 'FAILED', t.attempt_count = c.a, ",
    tried!(),
    " WHERE ",
    ours!()
);

const RETURNED: &str = concat!(
    "UPDATE ",
    rows_of!("@postrider_returned"),
    " SET t.status = 'PENDING', t.attempt_count = GREATEST(t.attempt_count - 1, 0)
      WHERE c.s IS NOT NULL AND ",
    ours!()
);

/// Index: the primary key (id).
const LOAD: &str = concat!(
    "SELECT n.row_id, n.`key`, n.destination, n.state, n.attempts, ",
    micros!("n.next_attempt_at"),
    ", n.last_error, ",
    micros!("t.created_at"),
    ", t.status = 'PUBLISHED', t.status = 'FAILED' AND t.attempt_count >= {limit}, {limit}
     FROM {schema}.row_notes AS n
     LEFT JOIN {table} AS t ON t.id = n.row_id"
);

/// The layout's DeletePublishedEventsOlderThan, in batches. Index: idx_outbox_events_status_created_at (status,
/// created_at), one range from its begin.
const TRIM: &str = "
    DELETE FROM {table}
    WHERE status = 'PUBLISHED' AND created_at < TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')
    ORDER BY created_at
    LIMIT {most}";

/// What is neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE (t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit})
           AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = t.id)"
    };
}

/// Index: idx_outbox_events_status_created_at (status, created_at).
const BACKLOG: &str = concat!(
    "SELECT (SELECT COUNT(*) FROM (SELECT t.id ",
    open!(),
    " LIMIT {most}) AS counted), (SELECT ",
    micros!("MIN(t.created_at)"),
    " ",
    open!(),
    ")"
);

/// Index: idx_outbox_events_status_created_at (status, created_at), the last entry of each state.
const NEWEST: &str = concat!(
    "SELECT ",
    micros!("MAX(newest)"),
    " FROM (SELECT MAX(created_at) AS newest FROM {table} WHERE status = 'PENDING'
            UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'PUBLISHING'
            UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'FAILED'
            UNION ALL SELECT MAX(created_at) FROM {table} WHERE status = 'PUBLISHED') AS states"
);

const COUNTS: &str = concat!(
    "SELECT COALESCE(SUM(counted.state = 'PENDING'), 0), COALESCE(SUM(counted.state = 'PUBLISHING'), 0),
            COALESCE(SUM(counted.state = 'AGAIN'), 0), COALESCE(SUM(counted.state = 'ENDED'), 0),
            COALESCE(SUM(counted.state = 'PUBLISHED'), 0),
            (SELECT COUNT(*) FROM {schema}.row_notes WHERE state = 'unrouted'), ",
    micros!("MIN(CASE WHEN counted.state IN ('PENDING', 'PUBLISHING', 'AGAIN') THEN counted.created_at END)"),
    ", ",
    micros!("MAX(CASE WHEN counted.state IN ('PENDING', 'PUBLISHING', 'AGAIN') THEN counted.created_at END)"),
    " FROM (SELECT t.created_at,
                   CASE WHEN t.status <> 'FAILED' THEN t.status
                        WHEN t.attempt_count >= {limit} THEN 'ENDED'
                        ELSE 'AGAIN' END AS state
            FROM {table} AS t) AS counted"
);

/// Indexes: the primary keys.
const DELETE_OWN: &str = delete_own!("t.id = n.row_id", "t.status = 'PUBLISHED'", "t.created_at");

/// Index: idx_outbox_events_aggregate (aggregate_type, aggregate_id), which is optional, for an aggregate; else
/// idx_outbox_events_status_created_at (status, created_at), the newest of one state. None for payloads.
const SEARCH: &str = concat!(
    "SELECT t.id, NULL, t.event_type, t.aggregate_type, t.aggregate_id, ",
    micros!("t.created_at"),
    ", t.status, t.attempt_count, t.payload, t.created_at
     FROM {table} AS t {forced}
     WHERE TRUE{asked}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

/// `last_attempt_at` is no time of delivery: a claim sets it.
const EVENT_STATES: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type, NULL AS producer, t.created_at, NULL AS delivered_at,
       CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
       (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned})
         AND NOT COALESCE(noted.next_attempt_at > UTC_TIMESTAMP(6), FALSE) AS is_due,
       t.attempt_count AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id"
);
