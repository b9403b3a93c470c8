//! The event with all its fields as one JSON object.

use std::fmt::Display;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::base64::Base64;
use super::{Encoded, Encoder, JSON, Outgoing};
use crate::{Code, Error, Event, Headers, Position, Result, event};

/// Sends one JSON object with all fields of the event.
///
/// A JSON payload is embedded byte for byte, except for whitespace around it: numbers, key order and escapes do not
/// change. Any other payload is embedded as base64. Destinations that expect JSON lines refuse a body with a line
/// break, so they do not accept a JSON payload with line breaks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Envelope;

impl Encoder for Envelope {
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        let Outgoing { position, event, .. } = *outgoing;
        // With room for the other fields, so that a usual event needs one allocation.
        let mut body = Vec::with_capacity(event.payload.len() + 512);
        serde_json::to_writer(&mut body, &Fields::of(position, event)).map_err(|e| {
            Error::new(Code::Encode, format!("event {} cannot be encoded as an envelope", event.id))
                .with_source(e)
        })?;
        Ok(Encoded { body: body.into(), content_type: JSON.into() })
    }
}

/// The object, in the order of its fields. Borrows everything: it is written in one pass.
#[derive(Serialize)]
struct Fields<'a> {
    #[serde(serialize_with = "text")]
    id: &'a uuid::Uuid,
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate: Option<AggregateObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(serialize_with = "text")]
    time: crate::Timestamp,
    position: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    producer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<ActionObject<'a>>,
    #[serde(serialize_with = "headers")]
    headers: &'a Headers,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
}

#[derive(Serialize)]
struct AggregateObject<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
struct ActionObject<'a> {
    #[serde(serialize_with = "text")]
    id: &'a uuid::Uuid,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    /// Only for rows of other writers: ours refuses params that are not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    params_text: Option<&'a str>,
    #[serde(serialize_with = "text")]
    started: crate::Timestamp,
    #[serde(serialize_with = "text")]
    completed: crate::Timestamp,
}

impl<'a> Fields<'a> {
    fn of(position: Position, event: &'a Event) -> Self {
        let payload = serde_json::from_slice(&event.payload).ok();
        Self {
            id: &event.id,
            event_type: &event.event_type,
            aggregate: event.aggregate.as_ref().map(|a| AggregateObject { kind: &a.kind, id: &a.id }),
            key: event.key.as_deref(),
            time: event.time,
            position: position.get(),
            topic: event.topic.as_deref(),
            namespace: event.namespace.as_deref(),
            producer: event.producer.as_deref(),
            action: event.action.as_ref().map(ActionObject::of),
            headers: &event.headers,
            payload,
            payload_base64: payload.is_none().then_some(Base64(&event.payload)),
        }
    }
}

impl<'a> ActionObject<'a> {
    fn of(action: &'a event::ActionContext) -> Self {
        let params = serde_json::from_str(&action.params).ok();
        Self {
            id: &action.id,
            name: &action.name,
            params,
            params_text: params.is_none().then_some(&action.params),
            started: action.started,
            completed: action.completed,
        }
    }
}

fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn headers<S: Serializer>(headers: &Headers, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(payload: impl Into<bytes::Bytes>) -> String {
        let body = Envelope.encode(&Outgoing::new(Position::new(1), &Event::new("a", payload))).unwrap().body;
        String::from_utf8(body.into()).unwrap()
    }

    #[test]
    fn a_json_payload_keeps_every_byte() {
        for json in [r#"{"b":1.50,"a":1e400,"a":"\u00e9\/"}"#, "[1,\t2]", "null", "12345678901234567890123"] {
            assert!(encoded(json).ends_with(&format!(r#","payload":{json}}}"#)), "{json}");
        }
    }

    #[test]
    fn whitespace_around_the_payload_is_removed() {
        assert!(encoded(" {} \n").ends_with(r#","payload":{}}"#));
    }

    #[test]
    fn a_payload_that_is_not_json_becomes_base64() {
        for (payload, base64) in
            [(&b"\xff\x00"[..], "/wA="), (b"", ""), (b"{} {}", "e30ge30="), (b"\"\xff\"", "Iv8i")]
        {
            assert!(
                encoded(payload.to_vec()).ends_with(&format!(r#","payload_base64":"{base64}"}}"#)),
                "{payload:?}"
            );
        }
    }

    #[test]
    fn a_deeply_nested_payload_is_encoded() {
        let deep = "[".repeat(500_000) + &"]".repeat(500_000);
        assert!(encoded(deep.clone()).contains(&deep));
    }

    #[test]
    fn fields_without_a_value_are_omitted() {
        let json: serde_json::Value = serde_json::from_str(&encoded("1")).unwrap();
        let mut names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["headers", "id", "payload", "position", "time", "type"]);
    }
}
