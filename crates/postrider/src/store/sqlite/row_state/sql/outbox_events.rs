//! Layout `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED.
//!
//! Times in the table are texts in the format of CURRENT_TIMESTAMP, with whole seconds; so a claim is known by its time and
//! the count of attempts together, see adr/0028-claims-in-whole-seconds.md.

use super::{Marks, Search, Sql, micros};

pub(super) const SQL: Sql = Sql {
    list: LIST,
    read: READ,
    marks: Some(Marks { mark: MARK, give_back: GIVE_BACK, foreign: FOREIGN }),
    outcomes: [DONE, FAILED, FAILED, RETURNED],
    load: LOAD,
    delete_delivered: TRIM,
    backlog: BACKLOG,
    newest: NEWEST,
    counts: COUNTS,
    delete_own: DELETE_OWN,
    create: Some(include_str!("../outbox_events.sql")),
    search: Some(Search { all: SEARCH, of_state: SEARCH_STATE }),
    event_states: EVENT_STATES,
};

/// Microseconds since 1970 as a time of the table.
macro_rules! time {
    ($micros:literal) => {
        concat!("datetime(", $micros, " / 1000000, 'unixepoch')")
    };
}

/// Ids of due rows in their order: `?1` of them. Index: idx_outbox_events_status (status, created_at), one range per
/// state, each in its order.
const LIST: &str = "
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
    ORDER BY id";

/// Index: the primary key (id).
const READ: &str = concat!(
    "SELECT CAST(t.id AS TEXT), NULL, t.event_type, t.aggregate_type, t.aggregate_id,
            NULL, t.payload, NULL, ",
    micros!("t.created_at"),
    "     , NULL, {limit}, t.attempt_count,
            t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned},
            t.status <> 'PUBLISHED', NULL
     FROM {table} AS t
     WHERE t.id = ?1"
);

/// The layout's MarkEventForProcessing, for a row that was seen with `?2` attempts, at `?3`. Index: the primary key (id).
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

/// A row as the claim `c` left it.
macro_rules! claimed {
    () => {
        concat!(
            "t.status = 'PUBLISHING' AND t.attempt_count = c.marked AND t.last_attempt_at = ",
            time!("c.at")
        )
    };
}

/// Gives back what was claimed and is not settled. Index: the primary key (id).
const GIVE_BACK: &str = concat!(
    "UPDATE {table} AS t
     SET status = 'PENDING', attempt_count = max(attempt_count - 1, 0)
     FROM (",
    claims!(),
    ") AS c
     WHERE t.id = c.id AND ",
    claimed!()
);

/// Rows that another publisher is publishing: how many since ten minutes ago, and how many in all. Index:
/// idx_outbox_events_status (status, created_at), the rows being published.
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

/// A row `?1` that is ours: as we claimed it at `?2` with count `?3`, or not claimed at all and waiting.
macro_rules! ours {
    () => {
        concat!(
            " WHERE t.id = ?1
               AND (t.status = 'PUBLISHING' AND t.attempt_count = ?3 AND t.last_attempt_at = ",
            time!("?2"),
            "        OR ?2 IS NULL AND t.status IN ('PENDING', 'FAILED'))"
        )
    };
}

/// What a try leaves behind, as the layout's MarkEventForProcessing does; a claim has done so already.
macro_rules! tried {
    () => {
        "last_attempt_at = CASE WHEN ?2 IS NULL THEN CURRENT_TIMESTAMP ELSE last_attempt_at END"
    };
}

/// Index: the primary key (id), as of those below.
const DONE: &str = concat!(
    "UPDATE {table} AS t
     SET status = 'PUBLISHED',
         attempt_count = CASE WHEN ?2 IS NULL AND attempt_count < 2147483647 THEN attempt_count + 1
                              ELSE attempt_count END, ",
    tried!(),
    ours!()
);

/// Retried or given up, with `?4` attempts.
const FAILED: &str =
    concat!("UPDATE {table} AS t SET status = 'FAILED', attempt_count = ?4, ", tried!(), ours!());

const RETURNED: &str = concat!(
    "UPDATE {table} AS t SET status = 'PENDING', attempt_count = max(attempt_count - 1, 0)",
    ours!(),
    " AND ?2 IS NOT NULL"
);

/// Noted rows beside what the table says of them. Index: the primary key (id).
const LOAD: &str = concat!(
    "SELECT n.row_id, n.key, n.destination, n.state, n.attempts, n.next_attempt_at, n.last_error, ",
    micros!("t.created_at"),
    ", coalesce(t.status = 'PUBLISHED', 0),
       coalesce(t.status = 'FAILED' AND t.attempt_count >= {limit}, 0), {limit}
     FROM postrider_row_notes AS n
     LEFT JOIN {table} AS t ON t.id = n.row_id"
);

/// The layout's DeletePublishedEventsOlderThan, `?2` at most. Index: idx_outbox_events_status (status, created_at), one
/// range from its begin.
const TRIM: &str = concat!(
    "DELETE FROM {table}
     WHERE id IN (SELECT id
                  FROM {table}
                  WHERE status = 'PUBLISHED' AND created_at < ",
    time!("?1"),
    "             ORDER BY created_at
                  LIMIT ?2)"
);

/// What is neither done nor noted.
macro_rules! open {
    () => {
        "FROM {table} AS t
         WHERE (t.status IN ('PENDING', 'PUBLISHING') OR t.status = 'FAILED' AND t.attempt_count < {limit})
           AND NOT EXISTS (SELECT 1 FROM postrider_row_notes AS n WHERE n.row_id = CAST(t.id AS TEXT))"
    };
}

/// Their number up to `?1`, and the creation of the first. Index: idx_outbox_events_status (status, created_at).
const BACKLOG: &str = concat!(
    "SELECT (SELECT count(*) FROM (SELECT 1 ",
    open!(),
    " LIMIT ?1)), (SELECT ",
    micros!("min(t.created_at)"),
    " ",
    open!(),
    ")"
);

/// All rows by state: pending, being published, failed and due again, given up, delivered, those given up that wait for
/// a route, and the creation of the first and last that is undelivered. No index: all of the table is read.
const COUNTS: &str = concat!(
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
);

/// Creation of the newest row. Index: idx_outbox_events_status (status, created_at), the last entry of each state.
const NEWEST: &str = concat!(
    "SELECT ",
    micros!("max(newest)"),
    " FROM (SELECT max(created_at) AS newest FROM {table} WHERE status = 'PENDING'
            UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'PUBLISHING'
            UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'FAILED'
            UNION ALL SELECT max(created_at) FROM {table} WHERE status = 'PUBLISHED')"
);

/// Index: the primary key.
const DELETE_OWN: &str = concat!(
    "DELETE FROM {table} AS t
     WHERE t.id = ?1 AND t.status = 'PUBLISHED' AND coalesce(",
    micros!("t.created_at"),
    " <= ?2 + 86400000000, 1)"
);

/// A state's rows. Every value is behind the least number and before any bytes. Index: idx_outbox_events_status (status, created_at), backwards.
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

/// Merges the states, row by row. The layout has no index for aggregates, types and payloads on SQLite.
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

/// Of one state, `?6`.
const SEARCH_STATE: &str = concat!(of_state!("?6"), " ORDER BY created_at DESC, id DESC");

/// `last_attempt_at` is no time of delivery: a claim sets it. Index: none, the table is read.
const EVENT_STATES: &str = "
    SELECT (SELECT min(name) FROM postrider_row_subscriptions) AS subscription, t.event_type, NULL AS producer,
           CAST(round((julianday(t.created_at) - 2440587.5) * 86400000) AS INTEGER) * 1000 AS created_at,
           NULL AS delivered_at,
           CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
           (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned})
             AND NOT coalesce(noted.next_attempt_at
                              > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, 0) AS is_due,
           t.attempt_count AS attempts
    FROM {table} AS t
    LEFT JOIN postrider_row_notes AS noted ON noted.row_id = CAST(t.id AS TEXT)";
