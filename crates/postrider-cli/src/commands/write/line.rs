//! An event from a line of JSON.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider::{ActionContext, Aggregate, Code, Error, Event, Result, Timestamp};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The fields of the envelope, and those that only a writer uses.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    id: Option<Uuid>,
    #[serde(rename = "type")]
    event_type: String,
    aggregate: Option<AggregateFields>,
    key: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    payload_base64: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "time")]
    time: Option<Timestamp>,
    topic: Option<String>,
    max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "time")]
    expires_at: Option<Timestamp>,
    namespace: Option<String>,
    producer: Option<String>,
    #[serde(borrow)]
    action: Option<ActionFields<'a>>,
    /// The position in the envelope is ignored; the database assigns a new one.
    #[serde(rename = "position")]
    _position: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateFields {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionFields<'a> {
    id: Uuid,
    name: String,
    #[serde(borrow)]
    params: &'a RawValue,
    #[serde(deserialize_with = "needed_time")]
    started: Timestamp,
    #[serde(deserialize_with = "needed_time")]
    completed: Timestamp,
}

/// The event of a line.
///
/// # Errors
/// [`Code::EventUnreadable`], with the line's number and the column.
pub(super) fn event(number: u64, line: &[u8]) -> Result<Event> {
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|e| {
        let what = e.to_string();
        // The parser gets a single line and reports it as line 1.
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
        Error::new(Code::EventUnreadable, format!("line {number}, column {}: {what}", e.column()))
    })?;
    let wrong = |what: &str| Error::new(Code::EventUnreadable, format!("line {number}: {what}"));
    let payload = match (fields.payload, fields.payload_base64) {
        (Some(json), None) => json.get().as_bytes().to_vec(),
        (None, Some(base64)) => STANDARD.decode(base64).map_err(|_| wrong("payload_base64 is not base64"))?,
        (Some(_), Some(_)) => return Err(wrong("both payload and payload_base64 are set")),
        (None, None) => return Err(wrong("neither payload nor payload_base64 is set")),
    };
    let mut event = Event::new(fields.event_type, payload);
    event.id = fields.id.unwrap_or(event.id);
    event.aggregate = fields.aggregate.map(|AggregateFields { kind, id }| Aggregate::new(kind, id));
    event.key = fields.key;
    event.headers = fields.headers.into_iter().collect();
    event.time = fields.time.unwrap_or(event.time);
    event.topic = fields.topic;
    event.max_attempts = fields.max_attempts;
    event.expires_at = fields.expires_at;
    event.namespace = fields.namespace;
    event.producer = fields.producer;
    event.action = fields.action.map(|ActionFields { id, name, params, started, completed }| {
        ActionContext::new(name, params.get()).with_id(id).with_times(started, completed)
    });
    Ok(event)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Timestamp::from_str(&text).map_err(de::Error::custom)).transpose()
}

fn needed_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    time(deserializer)?.ok_or_else(|| de::Error::custom("a time is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_kept_byte_for_byte() {
        let event = event(1, br#"{"type": "a", "payload": { "b":1.50,  "a":[ ] }}"#).unwrap();
        assert_eq!(event.payload, r#"{ "b":1.50,  "a":[ ] }"#);
    }

    #[test]
    fn an_invalid_event_is_reported_with_line_and_column() {
        for (line, says) in [
            ("{", "line 7, column 1: EOF while parsing an object"),
            ("[]", "line 7, column "),
            (r#"{"type": 5}"#, "line 7, column 10: invalid type: integer `5`, expected a string"),
            (r#"{"payload": {}}"#, "line 7, column 15: missing field `type`"),
            (r#"{"typ": "a"}"#, "line 7, column 6: unknown field `typ`, expected one of"),
            (r#"{"type": "a", "payload": {}} x"#, "line 7, column 30: trailing characters"),
            (r#"{"type": "a"}"#, "line 7: neither payload nor payload_base64 is set"),
            (
                r#"{"type": "a", "payload": 1, "payload_base64": ""}"#,
                "line 7: both payload and payload_base64 are set",
            ),
            (r#"{"type": "a", "payload_base64": "?"}"#, "line 7: payload_base64 is not base64"),
            (r#"{"type": "a", "payload": 1, "time": "noon"}"#, "line 7, column "),
            (r#"{"type": "a", "payload": 1, "aggregate": {"id": "1"}}"#, "missing field `type`"),
        ] {
            let error = event(7, line.as_bytes()).unwrap_err();
            assert_eq!(error.code(), Code::EventUnreadable);
            assert!(error.message().contains(says), "{line}: {}", error.message());
        }
    }
}
