//! What every row of `outbox_events` says of itself; see [`tally`](crate::store::tally).

/// `last_attempt_at` is no time of delivery: a claim sets it. Index: none, the table is read.
pub(super) const EVENTS: &str = "
    SELECT (SELECT min(name) FROM postrider_subscriptions) AS subscription, t.event_type, NULL AS producer,
           CAST(round((julianday(t.created_at) - 2440587.5) * 86400000) AS INTEGER) * 1000 AS created_at,
           NULL AS delivered_at,
           CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
           (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < {limit} OR {abandoned})
             AND NOT coalesce(noted.next_attempt_at
                              > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, 0) AS is_due,
           t.attempt_count AS attempts
    FROM {table} AS t
    LEFT JOIN postrider_row_notes AS noted ON noted.row_id = t.id";
