//! Layout `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED.
//!
//! Times in the table are texts in the format of CURRENT_TIMESTAMP, with whole seconds. A mark is therefore identified
//! by its time and the count of attempts together; see adr/0028-claims-in-whole-seconds.md.

use super::{Marks, Search, Sql, backoff_is_over, micros, subscription};

/// Microseconds since 1970 as a time of the table.
macro_rules! time {
    ($micros:literal) => {
        concat!("datetime(", $micros, " / 1000000, 'unixepoch')")
    };
}

/// The layout's MarkEventForProcessing. Index: the primary key (id).
const MARK: &str = concat!(
    "UPDATE {table} AS t
     SET status = 'PUBLISHING',
         attempt_count = CASE WHEN attempt_count < 2147483647 THEN attempt_count + 1 ELSE attempt_count END,
         last_attempt_at = ",
    time!("?3"),
    " WHERE t.id = ?1 AND t.attempt_count = ?2 AND (t.status IN ('PENDING', 'FAILED') OR {abandoned})"
);

/// Rows of claims: id, count, time.
macro_rules! claims {
    () => {
        "SELECT json_extract(e.value, '$[0]') AS id, json_extract(e.value, '$[1]') AS marked, o.claimed_at AS at
         FROM postrider_row_claims AS o, json_each(o.ids) AS e"
    };
}

/// A row that still carries the mark of the claim `c`.
macro_rules! claimed {
    () => {
        concat!(
            "t.status = 'PUBLISHING' AND t.attempt_count = c.marked AND t.last_attempt_at = ",
            time!("c.at")
        )
    };
}

/// Index: the primary key (id).
const REMOVE_MARKS: &str = concat!(
    "UPDATE {table} AS t
     SET status = 'PENDING', attempt_count = max(attempt_count - 1, 0)
     FROM (",
    claims!(),
    ") AS c
     WHERE t.id = c.id AND ",
    claimed!()
);

/// Index: idx_outbox_events_status (status, created_at), the rows that are being published.
const FOREIGN: &str = concat!(
    "SELECT coalesce(sum(t.last_attempt_at > datetime('now', '-10 minutes')), 0), count(*)
     FROM {table} AS t
     WHERE t.status = 'PUBLISHING'
       AND NOT EXISTS (SELECT 1 FROM (",
    claims!(),
    ") AS c WHERE c.id = t.id AND ",
    claimed!(),
    ")
       AND NOT EXISTS (SELECT 1 FROM postrider_row_refused AS r WHERE r.row_id = CAST(t.id AS TEXT))"
);

/// The row `?1`, if this relay may settle it: it carries the relay's mark of `?2` and `?3`, or it has no mark and
/// waits.
macro_rules! where_owned {
    () => {
        concat!(
            " WHERE t.id = ?1
               AND (t.status = 'PUBLISHING' AND t.attempt_count = ?3 AND t.last_attempt_at = ",
            time!("?2"),
            "        OR ?2 IS NULL AND t.status IN ('PENDING', 'FAILED'))"
        )
    };
}

/// The time of the attempt. The layout's MarkEventForProcessing sets it, so a marked row has it already.
macro_rules! attempt_time {
    () => {
        "last_attempt_at = CASE WHEN ?2 IS NULL THEN CURRENT_TIMESTAMP ELSE last_attempt_at END"
    };
}

/// Index: the primary key (id), as in the statements below.
const DONE: &str = concat!(
    "UPDATE {table} AS t
     SET status = 'PUBLISHED',
         attempt_count = CASE WHEN ?2 IS NULL AND attempt_count < 2147483647 THEN attempt_count + 1
                              ELSE attempt_count END, ",
    attempt_time!(),
    where_owned!()
);

/// Retried or given up, with `?4` attempts.
const FAILED: &str = concat!(
    "UPDATE {table} AS t SET status = 'FAILED', attempt_count = ?4, ",
    attempt_time!(),
    where_owned!()
);

const UNMARKED: &str = concat!(
    "UPDATE {table} AS t SET status = 'PENDING', attempt_count = max(attempt_count - 1, 0)",
    where_owned!(),
    " AND ?2 IS NOT NULL"
);

/// Rows that are neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE (t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit})
           AND NOT EXISTS (SELECT 1 FROM postrider_row_notes AS n WHERE n.row_id = CAST(t.id AS TEXT))"
    };
}

/// The rows of one state. SQLite sorts every other value after -9e999 and before bytes, so these bounds include all.
/// Index: idx_outbox_events_status (status, created_at), backwards.
macro_rules! of_state {
    ($state:literal) => {
        concat!(
            "SELECT t.id AS id, NULL, t.event_type, t.aggregate_type, t.aggregate_id, ",
            micros!("t.created_at"),
            ", t.status, t.attempt_count, t.payload, t.created_at AS created_at
             FROM {table} AS t
             WHERE t.status = ",
            $state,
            "  AND (?1 IS NULL OR t.aggregate_type = ?1) AND (?2 IS NULL OR t.aggregate_id = ?2)
               AND (?3 IS NULL OR t.event_type = ?3)
               AND t.created_at >= coalesce(datetime(?4, 'unixepoch'), -9e999)
               AND t.created_at < coalesce(datetime(?5, 'unixepoch'), x'ff')"
        )
    };
}

/// Merges the rows of all states. On SQLite the layout has no index for aggregates, types and payloads.
const SEARCH: &str = concat!(
    of_state!("'PENDING'"),
    " UNION ALL ",
    of_state!("'PUBLISHING'"),
    " UNION ALL ",
    of_state!("'PUBLISHED'"),
    " UNION ALL ",
    of_state!("'FAILED'"),
    " ORDER BY created_at DESC, id DESC"
);

const SEARCH_STATE: &str = concat!(of_state!("?6"), " ORDER BY created_at DESC, id DESC");

pub(super) const SQL: Sql = Sql {
    // Index: idx_outbox_events_status (status, created_at), one range per
    // state, each in its order.
    list: "
        SELECT CAST(id AS TEXT)
        FROM (SELECT id, created_at
              FROM (SELECT * FROM (SELECT t.id, t.created_at FROM {table} AS t
                                   WHERE t.status = 'PENDING'
                                   ORDER BY t.created_at, t.id LIMIT ?1)
                    UNION ALL
                    SELECT * FROM (SELECT t.id, t.created_at FROM {table} AS t
                                   WHERE t.status = 'FAILED' AND t.attempt_count < {limit}
                                   ORDER BY t.created_at, t.id LIMIT ?1)
                    UNION ALL
                    SELECT * FROM (SELECT t.id, t.created_at FROM {table} AS t
                                   WHERE {abandoned}
                                   ORDER BY t.created_at, t.id LIMIT ?1))
              ORDER BY created_at, id
              LIMIT ?1)
        ORDER BY id",
    // Index: the primary key (id).
    read: concat!(
        "SELECT CAST(t.id AS TEXT), NULL, t.event_type, t.aggregate_type, t.aggregate_id,
                NULL, t.payload, NULL, ",
        micros!("t.created_at"),
        "     , NULL, {limit}, t.attempt_count,
                t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned},
                t.status <> 'PUBLISHED', NULL
         FROM {table} AS t
         WHERE t.id = ?1"
    ),
    marks: Some(Marks { mark: MARK, remove: REMOVE_MARKS, foreign: FOREIGN }),
    outcomes: [DONE, FAILED, FAILED, UNMARKED],
    // Index: the primary key (id).
    notes: concat!(
        "SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error, ",
        micros!("t.created_at"),
        ", coalesce(t.status = 'PUBLISHED', 0),
           coalesce(t.status = 'FAILED' AND t.attempt_count >= {limit}, 0), {limit}
         FROM postrider_row_notes AS n
         LEFT JOIN {table} AS t ON t.id = n.row_id"
    ),
    // The layout's DeletePublishedEventsOlderThan, in batches. Index: idx_outbox_events_status (status, created_at),
    // one range from its beginning.
    delete_delivered: concat!(
        "DELETE FROM {table}
         WHERE id IN (SELECT id
                      FROM {table}
                      WHERE status = 'PUBLISHED' AND created_at < ",
        time!("?1"),
        "             ORDER BY created_at
                      LIMIT ?2)"
    ),
    // Index: idx_outbox_events_status (status, created_at).
    backlog: concat!(
        "SELECT (SELECT count(*) FROM (SELECT 1 ",
        open!(),
        " LIMIT ?1)), (SELECT ",
        micros!("min(t.created_at)"),
        " ",
        open!(),
        ")"
    ),
    // Index: idx_outbox_events_status (status, created_at), the last entry of each state.
    newest: concat!(
        "SELECT ",
        micros!("max(newest)"),
        " FROM (SELECT max(created_at) AS newest FROM {table} WHERE status = 'PENDING'
                UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'PUBLISHING'
                UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'FAILED'
                UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'PUBLISHED')"
    ),
    counts: concat!(
        "SELECT count(*) FILTER (WHERE t.status = 'PENDING'),
                count(*) FILTER (WHERE t.status = 'PUBLISHING'),
                count(*) FILTER (WHERE t.status = 'FAILED' AND t.attempt_count < {limit}),
                count(*) FILTER (WHERE t.status = 'FAILED' AND t.attempt_count >= {limit}),
                count(*) FILTER (WHERE t.status = 'PUBLISHED'),
                (SELECT count(*) FROM postrider_row_notes WHERE state = 'unrouted'), ",
        micros!(
            "min(CASE WHEN t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit} THEN t.created_at END)"
        ),
        ", ",
        micros!(
            "max(CASE WHEN t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit} THEN t.created_at END)"
        ),
        " FROM {table} AS t"
    ),
    // Index: the primary key.
    delete_own: concat!(
        "DELETE FROM {table} AS t
         WHERE t.id = ?1 AND t.status = 'PUBLISHED' AND coalesce(",
        micros!("t.created_at"),
        " <= ?2 + 86400000000, 1)"
    ),
    create: Some(include_str!("../outbox_events.sql")),
    search: Some(Search { all: SEARCH, of_state: SEARCH_STATE }),
    // `last_attempt_at` is not the time of the delivery: a mark sets it.
    event_states: concat!(
        "SELECT ",
        subscription!(),
        ", t.event_type, NULL AS producer, ",
        micros!("t.created_at"),
        " AS created_at, NULL AS delivered_at,
           CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
           (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned}) AND ",
        backoff_is_over!(),
        "  AS is_due,
           t.attempt_count AS attempts
         FROM {table} AS t
         LEFT JOIN postrider_row_notes AS noted ON noted.row_id = CAST(t.id AS TEXT)"
    ),
};
