//! What every row says of itself, one SELECT per layout; see [`tally`](crate::store::tally).

use crate::layout::RowLayout;

/// `last_attempt_at` is no time of delivery: a claim sets it. Index: none, the table is read.
const OUTBOX_EVENTS: &str = "
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

/// A table of anybody's. When a row was delivered is not asked for.
const CUSTOM: &str = "
    SELECT (SELECT min(name) FROM postrider_row_subscriptions) AS subscription, {c.type} AS event_type, NULL AS producer,
           {c.created} AS created_at, NULL AS delivered_at,
           CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
                ELSE 'failed' END AS state,
           {c.is_pending} AND {c.is_not_given_up}
             AND NOT coalesce(noted.next_attempt_at
                              > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, 0) AS is_due,
           coalesce({c.attempts}, 0) AS attempts
    FROM {table} AS t
    LEFT JOIN postrider_row_notes AS noted ON noted.row_id = {c.id_text}";

/// The SELECT about a table.
pub(super) const fn events(layout: RowLayout) -> &'static str {
    match layout {
        RowLayout::Custom => CUSTOM,
        RowLayout::EventOutbox | RowLayout::Outbox | RowLayout::OutboxEvents => OUTBOX_EVENTS,
    }
}
