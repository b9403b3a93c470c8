//! The encoder: the schema of the event, the payload in it, and what surrounds it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Rules;
use super::action_event::{self, ActionEvent};
use super::avro::AvroWriter;
use super::bindings::{Binding, Bindings, Compiled};
use super::config::{Format, Framing, SchemaConfig, SchemaEnvelope, Unbound, UnionRule, UnknownFields};
use super::frame::Frame;
use super::json::Document;
use super::json_schema::JsonSchema;
use super::registry::{Ids, Registry, SchemaText};
use crate::encode::plain::facts;
use crate::encode::{Encoded, Encoder, Outgoing};
use crate::{BoxFuture, Code, Error, Event, Headers, Result};

/// Encodes JSON payloads as Avro or Protobuf, or validates them by a JSON Schema.
///
/// Files are read and compiled when it is created, and ids of a registry are asked for in
/// [`prepare`](Encoder::prepare), before the first message: encoding an event does no I/O. Clones share all of it.
///
/// An event whose payload does not fit its schema is dead, with the path and what the schema wants. An event of a type
/// without a schema is parked as unrouted, unless [`SchemaConfig::unbound`] says otherwise.
///
/// ```no_run
/// use postrider::encode::schema::{Format, SchemaBinding, SchemaConfig, SchemaEncoder};
///
/// # fn main() -> postrider::Result<()> {
/// let mut config = SchemaConfig::new(Format::Avro);
/// config.schemas.push(SchemaBinding::new("OrderPlaced", "schemas/OrderPlaced.avsc"));
/// let encoder = SchemaEncoder::open(&config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SchemaEncoder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    format: Format,
    framing: Framing,
    envelope: SchemaEnvelope,
    rules: Rules,
    unbound: Unbound,
    pub(super) bindings: Bindings,
    pub(super) registry: Option<Registry>,
    /// The schema of the envelope for the registry.
    pub(super) envelope_text: Option<SchemaText>,
    frames: OnceLock<Frames>,
}

/// What precedes the bytes of each schema.
#[derive(Debug)]
struct Frames {
    bindings: Vec<Frame>,
    envelope: Frame,
}

impl SchemaEncoder {
    /// Reads and compiles the schemas. Connects to nothing.
    ///
    /// # Errors
    /// [`Code::SchemaInvalid`] if a file, a binding or a combination of settings cannot be used.
    pub fn open(config: &SchemaConfig) -> Result<Self> {
        let framing = config.effective_framing();
        let invalid = |what: String| Err(Error::new(Code::SchemaInvalid, what));
        if framing == Framing::SingleObject && config.format != Format::Avro {
            return invalid(format!(
                "framing {:?} is for Avro, not for {:?}",
                framing.name(),
                config.format.name()
            ));
        }
        if framing == Framing::Confluent && config.registry.is_none() {
            return invalid(format!("framing {:?} needs a registry, and none is configured", framing.name()));
        }
        let envelope_text = (config.envelope == SchemaEnvelope::ActionEvent)
            .then(|| envelope_text(config.format))
            .transpose()?;
        let shared = Shared {
            format: config.format,
            framing,
            envelope: config.envelope,
            rules: Rules {
                refuses_unknown_fields: config.unknown_fields == UnknownFields::Error,
                refuses_ties: config.unions == UnionRule::Strict,
            },
            unbound: config.unbound,
            bindings: Bindings::read(config.format, &config.schemas)?,
            registry: config.registry.as_ref().map(Registry::open).transpose()?,
            envelope_text,
            frames: OnceLock::new(),
        };
        if shared.registry.is_none() {
            let frames = shared.frames(&|_| Ok(0))?;
            _ = shared.frames.set(frames);
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    /// Whether messages contain ids of the registry.
    fn has_ids(&self) -> bool {
        self.framing == Framing::Confluent
    }

    /// The frames, given the ids of schemas.
    fn frames(&self, id: &dyn Fn(&SchemaText) -> Result<u32>) -> Result<Frames> {
        let of_binding = |binding: &Binding| {
            Ok(match (&binding.schema, self.framing) {
                (_, Framing::Bare) => Frame::bare(),
                (Compiled::Avro(writer), Framing::SingleObject) => Frame::single_object(writer.fingerprint()),
                (Compiled::Protobuf(writer), Framing::Confluent) => {
                    Frame::confluent_protobuf(id(&binding.text)?, writer.indexes())
                }
                (_, Framing::Confluent) => Frame::confluent(id(&binding.text)?),
                (_, Framing::SingleObject) => Frame::bare(),
            })
        };
        let bindings = self.bindings.iter().map(of_binding).collect::<Result<_>>()?;
        let envelope = match (&self.envelope_text, self.framing) {
            (None, _) | (_, Framing::Bare) => Frame::bare(),
            (Some(text), Framing::SingleObject) => {
                let compiled = AvroWriter::compile(&text.text);
                let compiled = compiled.map_err(|why| Error::new(Code::SchemaInvalid, why))?;
                Frame::single_object(compiled.fingerprint())
            }
            (Some(text), Framing::Confluent) => match self.format {
                Format::Protobuf => Frame::confluent_protobuf(id(text)?, &[0]),
                Format::Avro | Format::JsonSchema => Frame::confluent(id(text)?),
            },
        };
        Ok(Frames { bindings, envelope })
    }

    /// Asks the registry for all ids. What it has answered is kept if it fails later.
    async fn resolve(&self, registry: &Registry) -> Result<()> {
        let mut ids = Ids::new();
        let mut of_id: HashMap<u32, &SchemaText> = HashMap::new();
        let texts = self.bindings.iter().map(|binding| &binding.text).chain(&self.envelope_text);
        for text in texts {
            let id = registry.id(text).await?;
            let first = of_id.entry(id).or_insert(text);
            if first.content != text.content {
                return Err(ambiguous(registry.address(), id, &first.subject, &text.subject));
            }
            ids.insert(text.key(), id);
        }
        let unknown = |subject: &str| {
            Error::new(Code::SchemaUnavailable, format!("a schema of subject {subject:?} has no id"))
        };
        let frames = self.frames(&|of| {
            let id = ids.get(&of.key()).copied();
            id.ok_or_else(|| unknown(&of.subject))
        })?;
        // Another subscription with the same encoder may have been faster, with the same result.
        _ = self.frames.set(frames);
        Ok(())
    }

    /// Appends the payload in its schema, with its frame.
    fn payload(&self, event: &Event, binding: &Binding, frame: &Frame, out: &mut Vec<u8>) -> Result<()> {
        let misfit = |what: &dyn std::fmt::Display| {
            let what = format!("{what} ({}, {})", binding.config.words(), binding.config.file.display());
            Error::new(Code::SchemaMisfit, what)
        };
        out.extend_from_slice(frame.bytes());
        let document =
            Document::parse(&event.payload).map_err(|why| misfit(&format!("the payload {why}")))?;
        let written = match &binding.schema {
            Compiled::Avro(writer) => writer.write(&document, self.rules, &binding.dropped, out),
            Compiled::Protobuf(writer) => writer.write(&document, self.rules, &binding.dropped, out),
            Compiled::Json(schema) => schema.write(&document, &event.payload, out),
        };
        written.map_err(|what| misfit(&what))
    }

    fn encode(&self, event: &Event) -> Result<Vec<u8>> {
        let frames = self.frames.get().ok_or_else(|| {
            Error::new(Code::SchemaUnavailable, "the encoder was used before its ids were known")
        })?;
        let number = self.bindings.find(event).ok_or_else(|| unbound(event))?;
        let (Some(binding), Some(frame)) = (self.bindings.get(number), frames.bindings.get(number)) else {
            return Err(unbound(event));
        };
        let mut body = Vec::with_capacity(event.payload.len() + 32);
        if self.envelope == SchemaEnvelope::None {
            self.payload(event, binding, frame, &mut body)?;
            return Ok(body);
        }
        // The payload in a JSON object is an object, without a frame.
        let framed = if self.format == Format::JsonSchema { &Frame::bare() } else { frame };
        let has_payload = !event.payload.is_empty();
        if has_payload {
            self.payload(event, binding, framed, &mut body)?;
        }
        let envelope = ActionEvent::of(event, has_payload.then_some(&body))?;
        let mut message = Vec::with_capacity(body.len() + event.payload.len() + 512);
        message.extend_from_slice(frames.envelope.bytes());
        match self.format {
            Format::Avro => envelope.write_avro(&mut message),
            Format::Protobuf => envelope.write_protobuf(&mut message),
            Format::JsonSchema => envelope.write_json(&mut message).map_err(|error| {
                Error::new(Code::Encode, "the envelope cannot be written").with_source(error)
            })?,
        }
        Ok(message)
    }
}

/// Consumers would read one of the two schemas with the other one.
fn ambiguous(registry: &str, id: u32, one: &str, other: &str) -> Error {
    let what = format!(
        "the schema registry {registry} answers the id {id} for two different schemas, of the subjects {one:?} and {other:?}"
    );
    Error::new(Code::SchemaRefused, what)
        .with_hint("check that the URL is that of the registry, and what it has under both subjects")
}

fn unbound(event: &Event) -> Error {
    Error::new(Code::SchemaUnbound, missing(event))
}

fn missing(event: &Event) -> String {
    match &event.namespace {
        Some(namespace) => {
            format!("no schema is configured for type {:?} of namespace {namespace:?}", event.event_type)
        }
        None => format!("no schema is configured for type {:?}", event.event_type),
    }
}

/// The schema of the envelope.
fn envelope_text(format: Format) -> Result<SchemaText> {
    let (kind, text) = match format {
        Format::Avro => (None, action_event::AVRO),
        Format::Protobuf => (Some("PROTOBUF"), action_event::PROTOBUF),
        Format::JsonSchema => (Some("JSON"), action_event::JSON_SCHEMA),
    };
    let content = match format {
        Format::Avro => AvroWriter::compile(text).map(|writer| writer.content()),
        // No payload has the schema of the envelope.
        Format::Protobuf => Ok(u64::MAX),
        Format::JsonSchema => JsonSchema::compile(text).map(|schema| schema.content()),
    };
    let content = content.map_err(|why| Error::new(Code::SchemaInvalid, why))?;
    let subject = action_event::subject(format).to_owned();
    Ok(SchemaText { kind, text: text.to_owned(), content, subject, imports: Vec::new() })
}

impl Encoder for SchemaEncoder {
    fn prepare(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match &self.shared.registry {
                Some(registry) if self.shared.frames.get().is_none() => self.shared.resolve(registry).await,
                _ => Ok(()),
            }
        })
    }

    fn missing_for(&self, event: &Event) -> Option<String> {
        let is_missing = self.shared.unbound == Unbound::Park && self.shared.bindings.find(event).is_none();
        is_missing.then(|| missing(event))
    }

    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        let body = Bytes::from(self.shared.encode(outgoing.event)?);
        let content_type = match (self.shared.format, self.shared.has_ids()) {
            (Format::Avro, _) => "application/avro",
            (Format::Protobuf, _) => "application/protobuf",
            (Format::JsonSchema, false) => crate::encode::JSON,
            // A frame before it.
            (Format::JsonSchema, true) => "application/octet-stream",
        };
        Ok(Encoded::new(body, content_type))
    }

    fn headers(&self, outgoing: &Outgoing<'_>) -> Headers {
        facts(outgoing.position, outgoing.event)
    }
}
