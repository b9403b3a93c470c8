//! What every row says of itself, one SELECT per layout; see [`tally`](crate::store::tally).
//!
//! `{limit}` stands for tries after which a row is given up, `{abandoned}` for whether the claim of somebody else on the
//! row `t` is over. Index of all: none, the table is read.

use crate::Ident;
use crate::layout::{RowLayout, RowTable};

/// The one subscription of the table, if it is there.
macro_rules! subscription {
    () => {
        "(SELECT min(name) FROM {schema}.subscriptions) AS subscription"
    };
}

/// A note does not say that the row waits.
macro_rules! backoff_is_over {
    () => {
        "NOT coalesce(noted.next_attempt_at > statement_timestamp(), false)"
    };
}

/// Due is what the seed's own view calls so.
const EVENT_OUTBOX: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type::text AS event_type, t.producer_node::text AS producer, t.created_at,
       t.processed_at AS delivered_at,
       CASE t.status WHEN 'sent' THEN 'done' ELSE t.status END AS state,
       t.status IN ('pending', 'failed')
         AND (t.next_attempt_at IS NULL OR t.next_attempt_at <= statement_timestamp()) AS is_due,
       t.attempts::bigint AS attempts
     FROM {table} AS t"
);

const OUTBOX: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type::text AS event_type, NULL::text AS producer, t.created_at, t.published_at AS delivered_at,
       CASE t.status WHEN 'published' THEN 'done' ELSE t.status END AS state,
       t.status = 'pending' AND ",
    backoff_is_over!(),
    "    AS is_due,
       t.retry_count::bigint AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id::text"
);

/// `last_attempt_at` is no time of delivery: a claim sets it. The limit of a row is its own column `max_attempts` where the
/// table has one: a name that the table does not know is looked for one level further out, where there is a NULL.
const OUTBOX_EVENTS: &str = concat!(
    "SELECT ",
    subscription!(),
    ", t.event_type::text AS event_type, NULL::text AS producer, t.created_at, NULL::timestamptz AS delivered_at,
       CASE t.status WHEN 'PUBLISHED' THEN 'done' WHEN 'FAILED' THEN 'failed' ELSE 'pending' END AS state,
       (t.status = 'PENDING' OR t.status = 'FAILED' AND t.attempt_count < t.own_limit OR {abandoned}) AND ",
    backoff_is_over!(),
    "    AS is_due,
       t.attempt_count::bigint AS attempts
     FROM (SELECT NULL::bigint AS max_attempts) AS unlimited
     CROSS JOIN LATERAL (
         SELECT t.id, event_type, created_at, status, attempt_count, last_attempt_at,
                coalesce(max_attempts, {limit}) AS own_limit
         FROM {table} AS t
     ) AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = t.id::text"
);

/// A table of anybody's. When a row was delivered is not asked for.
const CUSTOM: &str = concat!(
    "SELECT ",
    subscription!(),
    ", {c.type} AS event_type, NULL::text AS producer, {c.created} AS created_at, NULL::timestamptz AS delivered_at,
       CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
            ELSE 'failed' END AS state,
       {c.is_pending} AND {c.is_not_given_up} AND ",
    backoff_is_over!(),
    "    AS is_due,
       coalesce({c.attempts}, 0)::bigint AS attempts
     FROM {table} AS t
     LEFT JOIN {schema}.row_notes AS noted ON noted.row_id = {c.id_text}"
);

/// The SELECT about a table.
pub(super) fn events(schema: &Ident, table: &RowTable) -> String {
    let events = match table.layout {
        RowLayout::EventOutbox => EVENT_OUTBOX,
        RowLayout::Outbox => OUTBOX,
        RowLayout::OutboxEvents => OUTBOX_EVENTS,
        RowLayout::Custom => CUSTOM,
    };
    let abandoned = match table.foreign_claim_timeout {
        Some(timeout) => format!(
            "t.status = 'PUBLISHING'
               AND t.last_attempt_at < statement_timestamp() - {} * interval '1 microsecond'",
            i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX)
        ),
        None => "false".to_owned(),
    };
    let events =
        events.replace("{limit}", &table.max_attempts.to_string()).replace("{abandoned}", &abandoned);
    schema.put_into(&table.put_into(&events))
}
