//! Structured mode: the whole event as one JSON object.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::super::base64::Base64;
use super::super::{Encoded, Encoder, JSON, Outgoing};
use super::Source;
use super::attributes::{Attributes, attributes};
use crate::{Code, Error, Result};

/// Media type of a structured CloudEvent.
const CLOUDEVENTS_JSON: &str = "application/cloudevents+json";
/// Media type of a payload that is not JSON and has no `content-type` header.
const BYTES: &str = "application/octet-stream";

/// Sends a CloudEvent in structured mode: attributes and data in one JSON object.
///
/// A payload that is JSON, by its media type and its content, is in `data`, byte for byte except for whitespace around
/// it. Any other payload is in `data_base64`.
#[derive(Debug, Clone, Default)]
pub struct CloudEvents {
    source: Source,
    sends_action_params: bool,
}

impl CloudEvents {
    /// With this source.
    pub fn new(source: Source) -> Self {
        Self { source, ..Self::default() }
    }

    /// Whether the parameters of an event's action are sent too, as the attribute `actionparams`. They may be larger than a
    /// destination allows for headers.
    #[must_use]
    pub fn action_params(mut self, sends: bool) -> Self {
        self.sends_action_params = sends;
        self
    }
}

impl Encoder for CloudEvents {
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        let event = outgoing.event;
        let own = outgoing.own_content_type();
        let json = own.is_none_or(is_json).then(|| serde_json::from_slice(&event.payload).ok()).flatten();
        let object = Object {
            attributes: attributes(outgoing, &self.source, self.sends_action_params),
            content_type: own.unwrap_or(if json.is_some() { JSON } else { BYTES }),
            json,
            payload: &event.payload,
        };
        let mut body = Vec::with_capacity(event.payload.len() + 768);
        serde_json::to_writer(&mut body, &object).map_err(|e| {
            Error::new(Code::Encode, format!("event {} cannot be encoded as a CloudEvent", event.id))
                .with_source(e)
        })?;
        Ok(Encoded { body: body.into(), content_type: Cow::Borrowed(CLOUDEVENTS_JSON) })
    }
}

/// `application/json`, `text/json` or any type with the suffix `+json`, with any parameters.
fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// The object, written in one pass.
struct Object<'a> {
    attributes: Attributes<'a>,
    content_type: &'a str,
    json: Option<&'a RawValue>,
    payload: &'a [u8],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.attributes {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("datacontenttype", self.content_type)?;
        match self.json {
            Some(json) => map.serialize_entry("data", json)?,
            None => map.serialize_entry("data_base64", &Base64(self.payload))?,
        }
        map.end()
    }
}
