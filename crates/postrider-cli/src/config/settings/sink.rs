//! `[sink.NAME]`

use std::sync::Arc;

use postrider::Code;
use postrider::encode::cloudevents::Source;

#[cfg(feature = "schemas")]
use postrider::encode::schema::{Format, Framing, SchemaConfig};

use super::ConfigTable;
use crate::config::problem::Problem;
use crate::sinks::{self, Target};

/// A destination of events.
#[derive(Debug, Clone)]
pub struct SinkSettings {
    /// How an event becomes bytes.
    pub encoding: Encoding,
    /// The `source` of CloudEvents.
    pub source: Source,
    /// The parameters of actions are sent with `plain` and CloudEvents.
    pub action_params: bool,
    /// Maximum events per second.
    pub events_per_second_max: Option<u64>,
    /// Maximum bytes per second.
    pub bytes_per_second_max: Option<u64>,
    /// The target.
    pub target: Arc<dyn Target>,
}

/// How an event becomes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    /// A JSON object with all fields of the event.
    Envelope,
    /// Only the payload.
    Plain,
    /// CloudEvents, structured.
    CloudEvents,
    /// CloudEvents, binary.
    CloudEventsBinary,
    /// Avro, Protobuf or validated JSON.
    #[cfg(feature = "schemas")]
    Schema(Box<SchemaConfig>),
}

impl Encoding {
    /// Whether messages are other bytes than a text.
    fn is_binary(&self) -> bool {
        match self {
            Self::Envelope | Self::Plain | Self::CloudEvents | Self::CloudEventsBinary => false,
            #[cfg(feature = "schemas")]
            Self::Schema(config) => {
                config.format != Format::JsonSchema || config.effective_framing() == Framing::Confluent
            }
        }
    }
}

impl SinkSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let target = sinks::read(table)?;
        let encoding = encoding(table)?;
        if target.writes_lines() && encoding.is_binary() {
            let name = table.text("encoder")?.unwrap_or_default();
            let why = format!("this sink writes lines of text, and {name} writes binary messages");
            return Err(table.problem("encoder", Code::ConfigValue, &why).with_hint(
                "use an encoder of texts such as envelope, or json-schema without a frame, or another sink",
            ));
        }
        Ok(Self {
            encoding,
            source: source(table)?,
            action_params: table.bool("action_params")?,
            events_per_second_max: table.optional_count("events_per_second_max")?,
            bytes_per_second_max: table.size("bytes_per_second_max")?,
            target,
        })
    }
}

/// Keys that only encoders with schemas have.
const OF_SCHEMAS: [&str; 7] =
    ["schemas", "envelope", "framing", "unknown_fields", "unions", "unbound", "registry"];

fn encoding(table: &ConfigTable<'_>) -> Result<Encoding, Problem> {
    let name = table.required("encoder", table.text("encoder")?)?;
    let encoding = match name.as_str() {
        "plain" => Encoding::Plain,
        "cloudevents" => Encoding::CloudEvents,
        "cloudevents-binary" => Encoding::CloudEventsBinary,
        "avro" | "protobuf" | "json-schema" => return with_schemas(table, &name),
        _ => Encoding::Envelope,
    };
    match OF_SCHEMAS.into_iter().find(|key| table.is_given(key)) {
        None => Ok(encoding),
        Some(key) => {
            let why =
                format!("only for the encoders avro, protobuf and json-schema, and the encoder is {name}");
            Err(table.problem(key, Code::ConfigValue, &why).with_hint("remove it, or change the encoder"))
        }
    }
}

#[cfg(feature = "schemas")]
fn with_schemas(table: &ConfigTable<'_>, name: &str) -> Result<Encoding, Problem> {
    if table.bool("action_params")? {
        let why = "only for the encoders plain, cloudevents and cloudevents-binary";
        return Err(table.problem("action_params", Code::ConfigValue, why));
    }
    super::schemas::read(table, name).map(|config| Encoding::Schema(Box::new(config)))
}

#[cfg(not(feature = "schemas"))]
fn with_schemas(table: &ConfigTable<'_>, name: &str) -> Result<Encoding, Problem> {
    let why = format!("this program was built without support for {name}");
    Err(table.problem("encoder", Code::ConfigValue, &why).with_hint("build it with --features schemas"))
}

fn source(table: &ConfigTable<'_>) -> Result<Source, Problem> {
    let Some(uri) = table.text("source")? else { return Ok(Source::default()) };
    Source::fixed(uri).map_err(|error| table.problem("source", error.code(), error.message()))
}
