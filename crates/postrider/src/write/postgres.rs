//! Events as one INSERT of PostgreSQL, however many they are.

use uuid::Uuid;

use super::columns::{Columns, untold};
use super::{Batch, Written};
use crate::{Position, Result};

/// One array per column; a row is what stands at the same place in all of them. The times are microseconds
/// since 1970, split so that no digit is lost in the arithmetic of intervals. The position is the
/// database's to give, in the order of the arrays. The application's session looks names up where it likes: operators and
/// functions are named with their schema. Uses no index.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres", feature = "diesel-postgres"))]
pub(super) const INSERT: &str = "
    INSERT INTO {schema}.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                 topic, max_attempts, expires_at, action, namespace, producer)
    SELECT id, type, aggregate_type, aggregate_id, key, payload, headers::json,
           (timestamptz 'epoch' OPERATOR(pg_catalog.+)
            ((time OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) OPERATOR(pg_catalog.+)
            ((time OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond'),
           topic, max_attempts,
           (timestamptz 'epoch' OPERATOR(pg_catalog.+)
            ((expires_at OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) OPERATOR(pg_catalog.+)
            ((expires_at OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond'),
           action::json, namespace, producer
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[],
                $8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[])
         WITH ORDINALITY AS event (id, type, aggregate_type, aggregate_id, key, payload, headers,
                                   time, topic, max_attempts, expires_at, action, namespace, producer, place)
    ORDER BY place
    RETURNING id, position";

/// The same for one event alone, the usual case. Where a statement is planned at every use, the one with arrays
/// costs the server three times as much. Uses no index.
#[cfg(feature = "tokio-postgres")]
pub(super) const INSERT_ONE: &str = "
    INSERT INTO {schema}.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                 topic, max_attempts, expires_at, action, namespace, producer)
    VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::text::json,
            (timestamptz 'epoch' OPERATOR(pg_catalog.+)
            (($8::bigint OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) OPERATOR(pg_catalog.+)
            (($8::bigint OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond'),
            $9::text, $10::bigint,
            (timestamptz 'epoch' OPERATOR(pg_catalog.+)
            (($11::bigint OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) OPERATOR(pg_catalog.+)
            (($11::bigint OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond'),
            $12::text::json, $13::text, $14::text)
    RETURNING id, position";

/// The statement for so many rows of single values, for drivers without arrays.
#[cfg(feature = "sea-orm")]
pub(super) fn statement(schema: &crate::Ident, rows: usize) -> String {
    const INSERT: &str = "
        INSERT INTO {schema}.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                     topic, max_attempts, expires_at, action, namespace, producer)
        VALUES ";
    let row = |row: usize| {
        let value = |place: usize| format!("${}", row * 14 + place);
        let time = |place: usize| {
            let micros = value(place) + "::bigint";
            format!(
                "(timestamptz 'epoch' OPERATOR(pg_catalog.+) \
                 (({micros} OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) \
                 OPERATOR(pg_catalog.+) \
                 (({micros} OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond')"
            )
        };
        let types = ["text::uuid", "text", "text", "text", "text", "bytea", "text::json"];
        let rest = ["text", "bigint", "", "text::json", "text", "text"];
        let typed = |(place, kind): (usize, &&str)| format!("{}::{kind}", value(place));
        let mut values: Vec<String> = (1..).zip(&types).map(typed).collect();
        values.push(time(8));
        values.extend((9..).zip(&rest).map(|(place, kind)| match place {
            11 => time(place),
            _ => typed((place, kind)),
        }));
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    schema.put_into(INSERT) + &rows.join(", ") + " RETURNING id::text, position"
}

/// The columns of a batch, in the order of the parameters of [`INSERT`] and, each a single value, of
/// [`INSERT_ONE`].
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres", feature = "diesel-postgres"))]
#[derive(Default)]
pub(super) struct Arrays<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) types: Vec<&'a str>,
    pub(super) aggregate_types: Vec<Option<&'a str>>,
    pub(super) aggregate_ids: Vec<Option<&'a str>>,
    pub(super) keys: Vec<Option<&'a str>>,
    pub(super) payloads: Vec<&'a [u8]>,
    pub(super) headers: Vec<Option<String>>,
    pub(super) times: Vec<i64>,
    pub(super) topics: Vec<Option<&'a str>>,
    pub(super) max_attempts: Vec<Option<i64>>,
    pub(super) expires_at: Vec<Option<i64>>,
    pub(super) actions: Vec<Option<String>>,
    pub(super) namespaces: Vec<Option<&'a str>>,
    pub(super) producers: Vec<Option<&'a str>>,
}

#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres", feature = "diesel-postgres"))]
impl<'a> Arrays<'a> {
    /// All rows of a batch. An event that has no row is found before any SQL runs.
    pub(super) fn of(batch: &'a Batch) -> Result<Self> {
        let mut arrays = Self::default();
        for row in Columns::of(batch)? {
            arrays.ids.push(row.event.id);
            arrays.types.push(&row.event.event_type);
            arrays.aggregate_types.push(row.aggregate_type);
            arrays.aggregate_ids.push(row.aggregate_id);
            arrays.keys.push(row.key);
            arrays.payloads.push(&row.event.payload);
            arrays.headers.push(row.headers);
            arrays.times.push(row.event.time.as_micros());
            arrays.topics.push(row.event.topic.as_deref());
            arrays.max_attempts.push(row.event.max_attempts.map(i64::from));
            arrays.expires_at.push(row.expires_at);
            arrays.actions.push(row.action);
            arrays.namespaces.push(row.event.namespace.as_deref());
            arrays.producers.push(row.event.producer.as_deref());
        }
        Ok(arrays)
    }

    /// What was written, if the answer is about these events in this order.
    pub(super) fn written(&self, answer: Vec<(Uuid, i64)>) -> Result<Vec<Written>> {
        written(&self.ids, answer)
    }
}

/// What was written, if the answer is about these events in this order.
pub(super) fn written(ids: &[Uuid], answer: Vec<(Uuid, i64)>) -> Result<Vec<Written>> {
    let told = answer.iter().map(|(id, _)| id).eq(ids)
        && answer.is_sorted_by(|(_, before), (_, after)| before < after);
    if !told {
        return Err(untold());
    }
    let written = |(id, position)| Written { id, position: Position::new(position) };
    Ok(answer.into_iter().map(written).collect())
}
