//! Whether an event fits the columns of another layout; checked before any SQL.

use std::fmt;

use serde::de::IgnoredAny;
use uuid::Uuid;

use crate::event::{TEXT_FIELDS, TextField};
use crate::layout::{Ability, EventField, LayoutSpec, RowLayout, RowTable};
use crate::{Code, Error, Event, Result};

/// Whether the layout has a column for the machine or process an event came from.
pub(super) fn has_producer(table: &RowTable) -> bool {
    table.layout().spec().has_column(EventField::Producer)
}

/// The error of a table that does not exist on the driver's database.
#[cfg(feature = "_writer")]
pub(super) fn unwritable(table: &RowTable) -> Error {
    let what = format!("this database has no layout {}", table.layout().name());
    Error::new(Code::LayoutUnfit, what).with_hint("use a database that has the layout")
}

/// The payload as text.
#[cfg(feature = "_writer")]
pub(super) fn text_of(event: &Event) -> Result<&str> {
    std::str::from_utf8(&event.payload)
        .map_err(|e| Error::new(Code::LayoutUnfit, "the payload is not text").with_source(e))
}

/// A time for a column without a zone, in UTC.
#[cfg(feature = "_writer")]
pub(super) fn utc(time: crate::Timestamp) -> String {
    time.to_string().replace('T', " ").trim_end_matches('Z').to_owned()
}

/// Combines the events with the numbers and creation times of their rows, in the same order. A row whose id is a UUID
/// has no number.
#[cfg(feature = "_writer")]
pub(super) fn written(
    table: &RowTable,
    events: &[Event],
    reported: Vec<(i64, i64)>,
) -> Result<Vec<super::Written>> {
    if reported.len() != events.len() {
        return Err(Error::new(Code::OutcomeUnknown, "the database did not return the ids of the rows"));
    }
    let written = events.iter().zip(reported).map(|(event, (number, created))| {
        // Without a column for it, the id is derived from the row.
        let has_id = table.layout().spec().has_column(EventField::Id);
        let id = match &event.aggregate {
            Some(aggregate) if !has_id => {
                let created = crate::Timestamp::from_micros(created);
                crate::layout::derived_id::derived_id(
                    created,
                    &number.to_string(),
                    Some(aggregate),
                    &event.event_type,
                )
            }
            _ => event.id,
        };
        super::Written { id, position: crate::Position::new(number) }
    });
    Ok(written.collect())
}

/// Refuses the first event that does not fit.
pub(super) fn check(table: &RowTable, events: &[Event]) -> Result<()> {
    let name =
        |index: usize| if events.len() == 1 { "the event".to_owned() } else { format!("event {index}") };
    events.iter().enumerate().try_for_each(|(index, event)| check_one(table, event, &name(index)))
}

/// Refuses an event that does not fit. The error names the event by `label`.
pub(super) fn check_one(table: &RowTable, event: &Event, label: &dyn fmt::Display) -> Result<()> {
    let layout = table.layout();
    unfit(layout, event).map_or(Ok(()), |why| {
        Err(Error::new(Code::LayoutUnfit, format!("{label} does not fit layout {}: {why}", layout.name())))
    })
}

/// Why the event does not fit; `None` if it does.
fn unfit(layout: RowLayout, event: &Event) -> Option<String> {
    let Some(aggregate) = &event.aggregate else { return Some("it has no aggregate".to_owned()) };
    if serde_json::from_slice::<IgnoredAny>(&event.payload).is_err() {
        return Some("its payload is not JSON".to_owned());
    }
    let spec = layout.spec();
    if spec.has(Ability::Expiry) && event.expires_at.is_some() {
        let why = "its expires_at is the time after which it must not be delivered, but the column expires_at \
                   defines when a published row is deleted";
        return Some(why.to_owned());
    }
    if let Some(field) = without_column(spec, event) {
        return Some(format!("there is no column for its {field}"));
    }
    if spec.columns.is_empty() {
        return Some("Postrider does not write to such tables; use your program's own INSERT".to_owned());
    }
    if spec.has_column(EventField::Topic) && event.topic.is_none() {
        return Some("it has no topic".to_owned());
    }
    if spec.has_column(EventField::Namespace) && event.namespace.is_none() {
        return Some("it has no namespace".to_owned());
    }
    let action = match &event.action {
        None if spec.has_column(EventField::Action) => return Some("it has no action".to_owned()),
        action => action.as_ref(),
    };
    if spec.has(Ability::Uuids) && Uuid::parse_str(&aggregate.id).is_err() {
        return Some("its aggregate id is not a UUID".to_owned());
    }
    let texts = [
        ("aggregate type", EventField::AggregateType, aggregate.kind.as_str()),
        ("aggregate id", EventField::AggregateId, &aggregate.id),
        ("type", EventField::EventType, &event.event_type),
        ("topic", EventField::Topic, event.topic.as_deref().unwrap_or_default()),
        ("key", EventField::Key, event.key.as_deref().unwrap_or_default()),
        ("producer", EventField::Producer, event.producer.as_deref().unwrap_or_default()),
        ("namespace", EventField::Namespace, event.namespace.as_deref().unwrap_or_default()),
        ("action name", EventField::Action, action.map_or("", |action| &action.name)),
    ];
    let too_long = texts.iter().find_map(|(name, field, text)| too_long(name, text, spec.chars_max(*field)?));
    too_long.or_else(|| too_many_attempts(event)).or_else(|| lost_key(spec, event))
}

/// The first field of the event that the layout has no column for: it would be lost without an error. [`lost_key`]
/// checks the key.
fn without_column(spec: &LayoutSpec, event: &Event) -> Option<&'static str> {
    let others = [
        ("expires_at", event.expires_at.is_some()),
        ("action", event.action.is_some() && !spec.has_column(EventField::Action)),
        ("headers", !event.headers.is_empty() && !spec.has_column(EventField::Headers)),
        ("max_attempts", event.max_attempts.is_some() && !spec.has_column(EventField::MaxAttempts)),
    ];
    let texts = TEXT_FIELDS.iter().filter(|field| field.name != "key").map(|field| {
        let has_column = column_of(field).is_some_and(|column| spec.has_column(column));
        (field.name, field.of(event).is_some() && !has_column)
    });
    others.into_iter().chain(texts).find(|(_, is_lost)| *is_lost).map(|(name, _)| name)
}

/// The column for an optional text, where some layout has one.
fn column_of(field: &TextField) -> Option<EventField> {
    match field.name {
        "key" => Some(EventField::Key),
        "topic" => Some(EventField::Topic),
        "producer" => Some(EventField::Producer),
        "namespace" => Some(EventField::Namespace),
        _ => None,
    }
}

/// Why the event's `max_attempts` does not fit its column; `None` if it does.
fn too_many_attempts(event: &Event) -> Option<String> {
    let most = i16::MAX.unsigned_abs().into();
    event.max_attempts.filter(|n| *n > most).map(|n| format!("its max_attempts is {n}; the limit is {most}"))
}

/// A layout without a key column orders events by aggregate, so the key of an event would be lost.
fn lost_key(spec: &LayoutSpec, event: &Event) -> Option<String> {
    let is_lost = event.key.is_some() && !spec.has_column(EventField::Key);
    is_lost.then(|| "there is no column for its key; the layout orders events by aggregate".to_owned())
}

/// Why a text does not fit a column; `None` if it does.
pub(super) fn too_long(field: &str, text: &str, most: usize) -> Option<String> {
    let found = text.chars().count();
    (found > most).then(|| format!("its {field} has {found} characters; the limit is {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn reported(layout: RowLayout, event: Event) -> String {
        let table = RowTable::new(layout);
        check(&table, &[event]).map_or_else(|error| error.one_line(), |()| "fits".to_owned())
    }

    fn order(id: &str) -> Event {
        Event::new("order.placed", "{}").with_aggregate("Order", id)
    }

    #[test]
    fn an_event_that_fits_is_accepted() {
        assert_eq!(reported(RowLayout::EventOutbox, order("7")), "fits");
        assert_eq!(reported(RowLayout::OutboxEvents, order("7")), "fits");
        let id = Uuid::nil().to_string();
        assert_eq!(reported(RowLayout::Outbox, order(&id).with_topic("orders").with_max_attempts(3)), "fits");
    }

    #[test]
    fn the_error_names_what_does_not_fit() {
        use RowLayout::{EventOutbox, Outbox, OutboxEvents};
        let id = Uuid::nil().to_string();
        for (layout, event, why) in [
            (OutboxEvents, Event::new("a", "{}"), "it has no aggregate"),
            (OutboxEvents, Event::new("a", "{").with_aggregate("A", "1"), "its payload is not JSON"),
            (OutboxEvents, order("1").with_topic("t"), "no column for its topic"),
            (OutboxEvents, order("1").with_header("a", "b"), "no column for its headers"),
            (OutboxEvents, order("1").with_key("k"), "no column for its key"),
            (EventOutbox, order(&"x".repeat(65)), "its aggregate id has 65 characters; the limit is 64"),
            (EventOutbox, order("1").with_max_attempts(2), "no column for its max_attempts"),
            (
                EventOutbox,
                order("1").with_expires_at(Timestamp::from_micros(1)),
                "no column for its expires_at",
            ),
            (
                Outbox,
                order(&id).with_topic("t").with_expires_at(Timestamp::from_micros(1)),
                "its expires_at is the time after which it must not be delivered",
            ),
            (Outbox, order(&id), "it has no topic"),
            (Outbox, order("7").with_topic("t"), "its aggregate id is not a UUID"),
            (
                Outbox,
                order(&id).with_topic("é".repeat(101)),
                "its topic has 101 characters; the limit is 100",
            ),
            (Outbox, order(&id).with_topic("t").with_max_attempts(40_000), "its max_attempts is 40000"),
        ] {
            let reported = reported(layout, event);
            assert!(reported.contains(why), "{why:?} is not in {reported:?}");
        }
    }
}
