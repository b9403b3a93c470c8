//! Events as one INSERT into a table of another layout on MySQL and MariaDB.

use super::Written;
use super::mysql::Driver;
use super::rows::{text_of, too_long, unwritable, written};
use crate::layout::{RowLayout, RowTable};
use crate::{Code, Error, Event, Result};

/// What the columns of `outbox_events` hold here.
const TEXT_CHARS_MAX: usize = 255;

/// The statement for so many rows. Uses no index but to keep them. The creation in `event_outbox` is UTC, whatever the
/// zone of the session; a TIMESTAMP is so by itself.
fn statement(table: &RowTable, rows: usize) -> Result<String> {
    let (insert, row) = match table.layout() {
        RowLayout::EventOutbox => (
            "INSERT INTO {table} (event_key, entity_table, entity_pk, event_type, payload, producer_node, created_at)
             VALUES ",
            "(?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
        ),
        RowLayout::OutboxEvents => (
            "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload) VALUES ",
            "(?, ?, ?, ?)",
        ),
        RowLayout::Outbox | RowLayout::Custom => return Err(unwritable(table)),
    };
    Ok(table.put_into_mysql(insert) + &vec![row; rows].join(", "))
}

/// The values of a row, in the order of its columns.
fn values(table: &RowTable, event: &Event) -> Result<Vec<Option<String>>> {
    let Some(aggregate) = &event.aggregate else { return Err(unwritable(table)) };
    let texts =
        [("aggregate type", &aggregate.kind), ("aggregate id", &aggregate.id), ("type", &event.event_type)];
    if let Some(why) = texts.iter().find_map(|(field, text)| too_long(field, text, TEXT_CHARS_MAX)) {
        return Err(Error::new(Code::LayoutUnfit, format!("the event does not fit its table: {why}")));
    }
    let [kind, id, event_type] = texts.map(|(_, text)| Some(text.clone()));
    let payload = Some(text_of(event)?.to_owned());
    Ok(match table.layout() {
        RowLayout::EventOutbox => {
            vec![Some(event.id.to_string()), kind, id, event_type, payload, event.producer.clone()]
        }
        _ => vec![kind, id, event_type, payload],
    })
}

/// Inserts events that fit one statement.
pub(super) async fn insert<D: Driver>(
    driver: &mut D,
    table: &RowTable,
    events: &[Event],
) -> Result<Vec<Written>> {
    let mut all = Vec::new();
    for event in events {
        all.extend(values(table, event)?);
    }
    let first = driver.insert_texts(statement(table, events.len())?, all).await?;
    // The event's id is made of the row's number and its creation, where there is no column for it. Index: the primary
    // key (id).
    let created = match table.layout() {
        RowLayout::OutboxEvents => {
            let asked = table.put_into_mysql(&format!(
                "SELECT id, CAST(UNIX_TIMESTAMP(created_at) * 1000000 AS SIGNED)
                 FROM {{table}}
                 WHERE id >= {first}
                 ORDER BY id
                 LIMIT {}",
                events.len()
            ));
            driver.numbers(asked).await?
        }
        _ => (first..).take(events.len()).map(|id| (i64::try_from(id).unwrap_or(0), 0)).collect(),
    };
    written(table, events, created)
}
