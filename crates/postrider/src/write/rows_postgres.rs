//! Events as one INSERT into a table of another layout on PostgreSQL.

use super::rows::{text_of, written};
use super::{Batch, Written};
use crate::Result;
use crate::event::columns::headers_to_json;
use crate::layout::{RowLayout, RowTable};

/// Every value as text, one array per column, so that both drivers send the same. The creation is the time of the
/// INSERT, not of the transaction's begin: written under the lock of the key's row, it keeps the key's order.
macro_rules! insert {
    ($columns:literal, $values:literal) => {
        concat!(
            "INSERT INTO {table} (",
            $columns,
            ", created_at) SELECT ",
            $values,
            ", pg_catalog.clock_timestamp()
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[])
                  WITH ORDINALITY AS e (id, type, aggregate_type, aggregate_id, key, payload, headers, topic,
                                        max_attempts, producer, place)
             ORDER BY place
             RETURNING id::text, (extract(epoch FROM created_at) OPERATOR(pg_catalog.*) 1000000)::bigint"
        )
    };
}

/// Uses no index but to keep them.
const EVENT_OUTBOX: &str = insert!(
    "event_key, entity_table, entity_pk, event_type, payload, producer_node",
    "e.id, e.aggregate_type, e.aggregate_id, e.type, e.payload::jsonb, e.producer"
);

const OUTBOX: &str = insert!(
    "id, aggregate_type, aggregate_id, event_type, topic, partition_key, payload, headers, max_retries",
    "e.id::uuid, e.aggregate_type, e.aggregate_id::uuid, e.type, e.topic, e.key, e.payload::jsonb,
     coalesce(e.headers, '{}')::jsonb, coalesce(e.max_attempts, '5')::smallint"
);

const OUTBOX_EVENTS: &str = insert!(
    "aggregate_type, aggregate_id, event_type, payload",
    "e.aggregate_type, e.aggregate_id, e.type, e.payload::jsonb"
);

/// The columns of a batch whose events fit the layout.
pub(super) struct RowColumns([Vec<Option<String>>; 10]);

impl RowColumns {
    pub(super) fn of(batch: &Batch) -> Result<Self> {
        let mut columns: [Vec<Option<String>>; 10] = Default::default();
        for event in batch.events() {
            let aggregate = event.aggregate.as_ref();
            let payload = text_of(event)?;
            let row = [
                Some(event.id.to_string()),
                Some(event.event_type.clone()),
                aggregate.map(|aggregate| aggregate.kind.clone()),
                aggregate.map(|aggregate| aggregate.id.clone()),
                event.key.clone(),
                Some(payload.to_owned()),
                headers_to_json(&event.headers)?,
                event.topic.clone(),
                event.max_attempts.map(|number| number.to_string()),
                event.producer.clone(),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Ok(Self(columns))
    }

    pub(super) fn statement(&self, table: &RowTable) -> String {
        table.put_into(match table.layout() {
            RowLayout::EventOutbox => EVENT_OUTBOX,
            RowLayout::Outbox => OUTBOX,
            RowLayout::OutboxEvents => OUTBOX_EVENTS,
            // No event fits it; see `check` of rows.rs.
            RowLayout::Custom => "",
        })
    }

    /// The columns in the order of the parameters.
    pub(super) fn all(&self) -> impl IntoIterator<Item = &Vec<Option<String>>> {
        &self.0
    }

    /// What was written, of ids and creations told in the order of the events. A row with a UUID has no position.
    pub(super) fn written(&self, batch: &Batch, told: Vec<(String, i64)>) -> Result<Vec<Written>> {
        let told = told.into_iter().map(|(row, created)| (row.parse().unwrap_or(0), created)).collect();
        match batch.rows() {
            Some(table) => written(table, batch.events(), told),
            None => Ok(Vec::new()),
        }
    }
}
