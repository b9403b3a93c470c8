//! The envelope `ActionEvent`: 13 fields, byte for byte as the streaming messages of layout `eventlog`'s documents.

use serde::Serialize;
use serde_json::value::RawValue;

use super::avro::{put_long, put_text};
use super::config::Format;
use super::protobuf::{put_time, put_varint};
use crate::{ActionContext, Code, Error, Event, Result, Timestamp};

/// The schema of the envelope as Avro. Its fingerprint is that of the documents' schema.
pub(super) const AVRO: &str = include_str!("action_event.avsc");
/// As Protobuf.
pub(super) const PROTOBUF: &str = include_str!("action_event.proto");
/// As JSON Schema.
pub(super) const JSON_SCHEMA: &str = include_str!("action_event.json");

/// The subject of the envelope in the registry, which is the full name of its type.
pub(super) const fn subject(format: Format) -> &'static str {
    match format {
        Format::Avro => "io.ekbatan.events.streaming.actionevent.avro.ActionEvent",
        Format::Protobuf => "io.ekbatan.events.streaming.actionevent.protobuf.ActionEvent",
        Format::JsonSchema => "io.ekbatan.events.streaming.actionevent.json.ActionEvent",
    }
}

/// The fields of an event, with those that the envelope requires.
pub(super) struct ActionEvent<'a> {
    event: &'a Event,
    namespace: &'a str,
    action: &'a ActionContext,
    /// The framed payload; `None` if the event has none.
    payload: Option<&'a [u8]>,
}

impl<'a> ActionEvent<'a> {
    /// # Errors
    /// [`Code::SchemaMisfit`] if the event has no namespace or no action.
    pub(super) fn of(event: &'a Event, payload: Option<&'a [u8]>) -> Result<Self> {
        let missing = |field: &str| {
            let what = format!(
                "an event of type {:?} has no {field}, which the envelope action_event requires",
                event.event_type
            );
            Error::new(Code::SchemaMisfit, what)
                .with_hint(format!("write it with a {field}, or use envelope = \"none\""))
        };
        let namespace = event.namespace.as_deref().ok_or_else(|| missing("namespace"))?;
        let action = event.action.as_ref().ok_or_else(|| missing("action"))?;
        Ok(Self { event, namespace, action, payload })
    }

    pub(super) fn write_avro(&self, out: &mut Vec<u8>) {
        let Self { event, namespace, action, payload } = *self;
        let mut id = uuid::Uuid::encode_buffer();
        put_text(event.id.hyphenated().encode_lower(&mut id), out);
        put_text(namespace, out);
        put_text(action.id.hyphenated().encode_lower(&mut id), out);
        put_text(&action.name, out);
        put_text(&action.params, out);
        put_long(action.started.as_micros(), out);
        put_long(action.completed.as_micros(), out);
        let (model_id, model_type) = self.model();
        for text in [model_id, model_type, Some(event.event_type.as_str())] {
            put_long(text.is_some().into(), out);
            text.iter().for_each(|text| put_text(text, out));
        }
        put_long(payload.is_some().into(), out);
        if let Some(payload) = payload {
            put_long(i64::try_from(payload.len()).unwrap_or(i64::MAX), out);
            out.extend_from_slice(payload);
        }
        put_long(event.time.as_micros(), out);
        // `delivered` is false in every message: it is a column for the fan-out.
        out.push(0);
    }

    pub(super) fn write_protobuf(&self, out: &mut Vec<u8>) {
        let Self { event, namespace, action, payload } = *self;
        let (model_id, model_type) = self.model();
        let mut id = uuid::Uuid::encode_buffer();
        put_field(1, Some(event.id.hyphenated().encode_lower(&mut id).as_bytes()), false, out);
        put_field(2, Some(namespace.as_bytes()), false, out);
        put_field(3, Some(action.id.hyphenated().encode_lower(&mut id).as_bytes()), false, out);
        put_field(4, Some(action.name.as_bytes()), false, out);
        put_field(5, Some(action.params.as_bytes()), false, out);
        put_field(6, Some(&timestamp(action.started)), true, out);
        put_field(7, Some(&timestamp(action.completed)), true, out);
        put_field(8, model_id.map(str::as_bytes), true, out);
        put_field(9, model_type.map(str::as_bytes), true, out);
        put_field(10, Some(event.event_type.as_bytes()), true, out);
        put_field(11, payload, true, out);
        put_field(12, Some(&timestamp(event.time)), true, out);
    }

    /// The payload as an object in it.
    ///
    /// # Errors
    /// Only if memory is exhausted.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let Self { event, namespace, action, payload } = *self;
        let (model_id, model_type) = self.model();
        let payload = payload.map(serde_json::from_slice).transpose()?;
        serde_json::to_writer(
            out,
            &JsonObject {
                id: event.id,
                namespace,
                action_id: action.id,
                action_name: &action.name,
                action_params: &action.params,
                started_date: action.started,
                completion_date: action.completed,
                model_id,
                model_type,
                event_type: &event.event_type,
                payload,
                event_date: event.time,
                delivered: false,
            },
        )
    }

    fn model(&self) -> (Option<&'a str>, Option<&'a str>) {
        let aggregate = self.event.aggregate.as_ref();
        (aggregate.map(|aggregate| aggregate.id.as_str()), aggregate.map(|aggregate| aggregate.kind.as_str()))
    }
}

#[derive(Serialize)]
struct JsonObject<'a> {
    id: uuid::Uuid,
    namespace: &'a str,
    action_id: uuid::Uuid,
    action_name: &'a str,
    action_params: &'a str,
    started_date: Timestamp,
    completion_date: Timestamp,
    model_id: Option<&'a str>,
    model_type: Option<&'a str>,
    event_type: &'a str,
    payload: Option<&'a RawValue>,
    event_date: Timestamp,
    delivered: bool,
}

/// Appends a field with a length. Without presence an empty value is not written.
fn put_field(number: u64, value: Option<&[u8]>, has_presence: bool, out: &mut Vec<u8>) {
    let Some(value) = value.filter(|value| has_presence || !value.is_empty()) else { return };
    put_varint(number << 3 | 2, out);
    put_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn timestamp(time: Timestamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(13);
    let micros = i128::from(time.as_micros());
    put_time(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1_000, &mut bytes);
    bytes
}
