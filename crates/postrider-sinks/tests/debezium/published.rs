//! What is in Kafka, compared with what was written.

use std::collections::BTreeMap;

use postrider::inbox::Incoming;
use postrider_testkit::servers::kafka::{Isolation, Kafka, Record};
use uuid::Uuid;

use crate::database::Database;
use crate::events::{LAST_TYPE, TYPES, Written};

/// One topic per type, and no other of this connector; in each topic every event of its type once, and no other record.
pub(crate) fn assert_published(kafka: &Kafka, database: &Database, written: &[Written]) {
    let prefix = format!("{}.", database.name);
    let all_types = TYPES.into_iter().chain([LAST_TYPE]);
    let mut expected: Vec<String> = all_types
        .clone()
        .chain(database.other_topics.iter().copied())
        .map(|topic| prefix.clone() + topic)
        .collect();
    expected.sort();
    let found: Vec<String> = kafka.topics().into_iter().filter(|topic| topic.starts_with(&prefix)).collect();
    assert_eq!(found, expected);
    for event_type in all_types {
        let records = kafka.read(&format!("{prefix}{event_type}"), Isolation::Committed);
        let events: Vec<&Written> = written.iter().filter(|event| event.event_type == event_type).collect();
        assert!(!events.is_empty());
        assert_events(&records, &events, database);
    }
}

/// The records of a topic are these events, those of one model in the order of their commits.
fn assert_events(records: &[Record], events: &[&Written], database: &Database) {
    let received_id = |event: &Written| match event.id.into_bytes() {
        mut bytes if database.shifts_ids && bytes[15] == 0 => {
            bytes.rotate_right(1);
            Uuid::from_bytes(bytes)
        }
        _ => event.id,
    };
    let mut by_model: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for event in events {
        by_model.entry(&event.model_id).or_default().push(received_id(event).to_string());
    }
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for record in records {
        let key = record.key.as_deref().map_or("none", |key| std::str::from_utf8(key).unwrap());
        found.entry(key).or_default().push(header(record, "postrider-id").to_owned());
    }
    assert_eq!(found, by_model);
    for event in events {
        let id = received_id(event);
        let record = records.iter().find(|record| header(record, "postrider-id") == id.to_string()).unwrap();
        assert_event(record, event, id);
    }
}

/// Value and headers are those of the encoder `plain`, as the page lists them.
fn assert_event(record: &Record, event: &Written, id: Uuid) {
    let payload: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(payload, event.payload());
    let pairs = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    assert_eq!(Incoming::of(pairs, &record.value).unwrap().event_id, id);
    let time = event.time().replace(' ', "T");
    let expected = [
        ("postrider-id", id.to_string()),
        ("postrider-type", event.event_type.to_owned()),
        ("postrider-time", format!("{}Z", time.trim_end_matches('0'))),
        ("postrider-namespace", "shop".to_owned()),
        ("postrider-aggregate-type", "Order".to_owned()),
        ("postrider-aggregate-id", event.model_id.clone()),
        ("postrider-action-id", event.action_id.to_string()),
        ("postrider-action-name", "PlaceOrder".to_owned()),
        ("postrider-action-started", "2026-11-15T21:34:59.9Z".to_owned()),
        ("postrider-action-completed", "2026-11-15T21:35:00.000001Z".to_owned()),
    ];
    let found: Vec<(&str, String)> =
        record.headers.iter().map(|(name, _)| (name.as_str(), header(record, name).to_owned())).collect();
    assert_eq!(found, expected);
}

fn header<'a>(record: &'a Record, name: &str) -> &'a str {
    let found = record.headers.iter().find(|(known, _)| known == name);
    found.map_or("none", |(_, value)| std::str::from_utf8(value).unwrap())
}
