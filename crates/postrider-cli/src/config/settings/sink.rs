//! `[sink.NAME]`

use std::sync::Arc;

use postrider::encode::cloudevents::Source;

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
    /// Maximum events per second.
    pub events_per_second_max: Option<u64>,
    /// Maximum bytes per second.
    pub bytes_per_second_max: Option<u64>,
    /// The target.
    pub target: Arc<dyn Target>,
}

/// How an event becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// A JSON object with all fields of the event.
    Envelope,
    /// Only the payload.
    Plain,
    /// CloudEvents, structured.
    CloudEvents,
    /// CloudEvents, binary.
    CloudEventsBinary,
}

impl SinkSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let encodings = [
            ("envelope", Encoding::Envelope),
            ("plain", Encoding::Plain),
            ("cloudevents", Encoding::CloudEvents),
            ("cloudevents-binary", Encoding::CloudEventsBinary),
        ];
        let target = sinks::read(table)?;
        Ok(Self {
            encoding: table.choice("encoder", &encodings)?,
            source: source(table)?,
            events_per_second_max: table.optional_count("events_per_second_max")?,
            bytes_per_second_max: table.size("bytes_per_second_max")?,
            target,
        })
    }
}

fn source(table: &ConfigTable<'_>) -> Result<Source, Problem> {
    let Some(uri) = table.text("source")? else { return Ok(Source::default()) };
    Source::fixed(uri).map_err(|error| table.problem("source", error.code(), error.message()))
}
