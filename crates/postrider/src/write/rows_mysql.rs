//! INSERTs into a table of another layout on MySQL and MariaDB.

use super::Written;
use super::mysql_driver::InsertConnection;
use super::rows::{text_of, too_long, unwritable, utc, written};
use crate::layout::{Ability, EventField, RowInsert, RowTable};
use crate::{Code, Error, Event, Result};

/// The length of a VARCHAR(255).
const TEXT_CHARS_MAX: usize = 255;

/// The statement for this number of rows. Uses no index.
fn statement(table: &RowTable, insert: &RowInsert, rows: usize) -> String {
    table.put_into_mysql(insert.before) + &vec![insert.row; rows].join(", ")
}

/// The values of a row, in the order of its columns.
fn values(table: &RowTable, insert: &RowInsert, event: &Event) -> Result<Vec<Option<String>>> {
    let Some(aggregate) = &event.aggregate else { return Err(unwritable(table)) };
    let texts =
        [("aggregate type", &aggregate.kind), ("aggregate id", &aggregate.id), ("type", &event.event_type)];
    if let Some(why) = texts.iter().find_map(|(field, text)| too_long(field, text, TEXT_CHARS_MAX)) {
        return Err(Error::new(Code::LayoutUnfit, format!("the event does not fit its table: {why}")));
    }
    let payload = text_of(event)?;
    let action = event.action.as_ref();
    let value = |field: &EventField| match field {
        EventField::Id => Some(event.id.to_string()),
        EventField::EventType => Some(event.event_type.clone()),
        EventField::AggregateType => Some(aggregate.kind.clone()),
        EventField::AggregateId => Some(aggregate.id.clone()),
        EventField::Key => event.key.clone(),
        EventField::Payload => Some(payload.to_owned()),
        EventField::Topic => event.topic.clone(),
        EventField::MaxAttempts => event.max_attempts.map(|most| most.to_string()),
        EventField::Producer => event.producer.clone(),
        EventField::Namespace => event.namespace.clone(),
        EventField::Action => action.map(|action| action.name.clone()),
        EventField::ActionId => action.map(|action| action.id.to_string()),
        EventField::ActionParams => action.map(|action| action.params.clone()),
        EventField::ActionStarted => action.map(|action| utc(action.started)),
        EventField::ActionCompleted => action.map(|action| utc(action.completed)),
        // No layout on these servers has a column for them.
        EventField::Headers => None,
    };
    Ok(insert.fields.iter().map(value).collect())
}

/// Inserts events that fit one statement.
pub(super) async fn insert<D: InsertConnection>(
    driver: &mut D,
    table: &RowTable,
    events: &[Event],
) -> Result<Vec<Written>> {
    let spec = table.layout().spec();
    let insert = spec.inserts.mysql.ok_or_else(|| unwritable(table))?;
    let mut all = Vec::new();
    for event in events {
        all.extend(values(table, &insert, event)?);
    }
    let first = driver.insert_texts(statement(table, &insert, events.len()), all).await?;
    // Without a column for it, the event's id is derived from the row's number and creation time. Index: the primary
    // key (id).
    let created = match spec.has_column(EventField::Id) {
        false => {
            let select = table.put_into_mysql(&format!(
                "SELECT id AS number, CAST(UNIX_TIMESTAMP(created_at) * 1000000 AS SIGNED) AS created
                 FROM {{table}}
                 WHERE id >= {first}
                 ORDER BY id
                 LIMIT {}",
                events.len()
            ));
            driver.numbers(select).await?
        }
        // Rows of this layout have a UUID. The server's last number is that of another statement then.
        true if spec.has(Ability::Notifications) => vec![(0, 0); events.len()],
        true => (first..).take(events.len()).map(|id| (i64::try_from(id).unwrap_or(0), 0)).collect(),
    };
    written(table, events, created)
}
