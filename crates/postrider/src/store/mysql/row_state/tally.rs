//! What every row says of itself, one SELECT per layout; see [`tally`](crate::store::tally). Index of all: none, the
//! table is read.

use super::migrate::not_here;
use crate::Result;
use crate::layout::RowLayout;

/// The one subscription of the table, if it is there.
macro_rules! subscription {
    () => {
        "(SELECT MIN(name) FROM {schema}.subscriptions) AS subscription"
    };
}

/// Due is what the seed's own view calls so.
const EVENT_OUTBOX: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type, t.producer_node AS producer, t.created_at, t.processed_at AS delivered_at,
       CASE t.status WHEN 'sent' THEN 'done' WHEN 'failed' THEN 'failed' ELSE 'pending' END AS state,
       t.status IN ('pending', 'failed')
         AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= UTC_TIMESTAMP(6)) AS is_due,
       t.attempts
     FROM {table} AS t"
);

/// `last_attempt_at` is no time of delivery: a claim sets it.
const OUTBOX_EVENTS: &str = concat!(
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

/// A table of anybody's. When a row was delivered is not asked for.
const CUSTOM: &str = concat!(
    "SELECT ",
    subscription!(),
    ", {c.type} AS event_type, NULL AS producer, {c.made} AS created_at, NULL AS delivered_at,
       CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
            ELSE 'failed' END AS state,
       {c.is_pending} AND {c.is_not_given_up}
         AND NOT COALESCE(noted.next_attempt_at > UTC_TIMESTAMP(6), FALSE) AS is_due,
       COALESCE({c.attempts}, 0) AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
);

/// The SELECT about a table.
///
/// # Errors
/// [`LayoutDiffers`](crate::Code::LayoutDiffers) if the seed has no such table.
pub(super) fn events(layout: RowLayout) -> Result<&'static str> {
    match layout {
        RowLayout::EventOutbox => Ok(EVENT_OUTBOX),
        RowLayout::OutboxEvents => Ok(OUTBOX_EVENTS),
        RowLayout::Custom => Ok(CUSTOM),
        RowLayout::Outbox => Err(not_here(layout)),
    }
}
