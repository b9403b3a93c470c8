//! `processed_events` of layout `outbox` as an inbox, as it is.
//!
//! The layout's key is `event_id` alone. With that key a second consumer group would find its events done by the first and
//! lose its effect. So the key is read from the catalog with every delivery, and a group is refused if the table cannot
//! remember its events next to those of another.

use super::InboxStep;
use super::statements::StepConnection;
use crate::write::Value;
use crate::{Code, Error, Ident, Result};

/// Whether the table can remember events of the group `$1`: 1 if it can, 0 if no unique key recognises a duplicate, 2 if the
/// key is `event_id` alone and the table has rows of another group. `$2` is the table's name in quotes. Indexes: those of
/// the catalog; idx_processed_events_consumer (consumer_group), one row below and one above the group.
const FIT: &str = "
    SELECT CASE WHEN NOT one_group AND NOT every_group THEN 0
                WHEN NOT one_group THEN 1
                WHEN EXISTS (SELECT FROM {processed} WHERE consumer_group OPERATOR(pg_catalog.<) $1::text) THEN 2
                WHEN EXISTS (SELECT FROM {processed} WHERE consumer_group OPERATOR(pg_catalog.>) $1::text) THEN 2
                ELSE 1 END::bigint
    FROM (SELECT coalesce(pg_catalog.bool_or(columns OPERATOR(pg_catalog.=) ARRAY['event_id']), false) AS one_group,
                 coalesce(pg_catalog.bool_or(columns OPERATOR(pg_catalog.=) ARRAY['consumer_group', 'event_id']), false)
                     AS every_group
          FROM (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname) AS columns
                FROM pg_catalog.pg_index AS i
                CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, ordinal)
                JOIN pg_catalog.pg_attribute AS a
                  ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid AND a.attnum OPERATOR(pg_catalog.=) k.number
                WHERE i.indrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($2::text)
                  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                  AND k.ordinal OPERATOR(pg_catalog.<=) i.indnkeyatts
                GROUP BY i.indexrelid) AS key) AS keys";

/// Inserts the row of a group `$1` and an event `$2`, which expires `$3` microseconds from now. Waits for another
/// transaction that inserts the same key. Index: the table's unique keys.
const RECEIVE: &str = "
    INSERT INTO {processed} (consumer_group, event_id, processed_at, expires_at)
    VALUES ($1::text, $2::text::uuid, pg_catalog.clock_timestamp(),
            pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
            ($3::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'))
    ON CONFLICT DO NOTHING";

/// For every row of the event `$2`, whether it is of the group `$1`. Index: the key with event_id.
const ROWS_OF_EVENT: &str = "
    SELECT CASE WHEN consumer_group OPERATOR(pg_catalog.=) $1::text THEN 1 ELSE 0 END::bigint
    FROM {processed}
    WHERE event_id OPERATOR(pg_catalog.=) $2::text::uuid";

/// Deletes up to `$1` rows that have expired. Each row by itself: rows of other groups for the same event may expire later.
/// Every partition has a row of the same `ctid`. Index: idx_processed_events_expires (expires_at), from its begin.
pub(crate) const DELETE_EXPIRED: &str = "
    WITH old AS MATERIALIZED (
        SELECT tableoid AS part, ctid AS tuple
        FROM {processed}
        WHERE expires_at < pg_catalog.statement_timestamp()
        ORDER BY expires_at
        LIMIT $1::bigint
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM {processed}
    WHERE ctid = ANY (ARRAY(SELECT tuple FROM old))
      AND (tableoid, ctid) IN (SELECT part, tuple FROM old)
      AND expires_at < pg_catalog.statement_timestamp()";

fn named(schema: &Ident, statement: &str) -> String {
    statement.replace("{processed}", &name(schema))
}

fn name(schema: &Ident) -> String {
    format!("{schema}.\"processed_events\"")
}

/// Runs a step on the table. Returns the number of rows that it inserted or deleted. `id` is the event's id as text.
pub(super) async fn run<X: StepConnection>(tx: &mut X, step: &InboxStep, id: &str) -> Result<u64> {
    match step {
        InboxStep::Receive { table, group, retention_micros, .. } => {
            receive(tx, table.schema(), group, id, *retention_micros).await
        }
        InboxStep::DeleteExpired { table, rows_max } => {
            let statement = named(table.schema(), DELETE_EXPIRED);
            tx.execute(statement, &[Value::Number(Some(*rows_max))]).await
        }
    }
}

async fn receive<X: StepConnection>(
    tx: &mut X,
    schema: &Ident,
    group: &str,
    event_id: &str,
    retention_micros: i64,
) -> Result<u64> {
    let (group_value, id_value) = (Value::Text(Some(group)), Value::Text(Some(event_id)));
    let table = name(schema);
    let fit = tx.numbers(named(schema, FIT), &[group_value, Value::Text(Some(&table))]).await?;
    match fit.first() {
        Some(1) => {}
        Some(2) => return Err(of_another_group(&table, group)),
        _ => return Err(without_key(&table)),
    }
    let values = [group_value, id_value, Value::Number(Some(retention_micros))];
    let inserted = tx.execute(named(schema, RECEIVE), &values).await?;
    if inserted > 0 {
        return Ok(inserted);
    }
    // A new snapshot: the row may have been committed after the first one, and by another group.
    let rows = tx.numbers(named(schema, ROWS_OF_EVENT), &[group_value, id_value]).await?;
    match rows.as_slice() {
        [] => Err(Error::new(Code::StoreBusy, "the row of the event was deleted meanwhile")
            .with_effect("nothing was written")
            .with_hint("roll back, and deliver the event again")),
        rows if rows.contains(&1) => Ok(0),
        _ => Err(of_another_group(&table, group)),
    }
}

fn of_another_group(table: &str, group: &str) -> Error {
    let what = format!(
        "{table} has the key (event_id) and rows of another consumer group: {group:?} would take its events for done"
    );
    Error::new(Code::InboxUnfit, what)
}

fn without_key(table: &str) -> Error {
    let what = format!("{table} has no unique key that recognises a duplicate");
    Error::new(Code::InboxUnfit, what).with_hint("add the primary key (consumer_group, event_id)")
}
