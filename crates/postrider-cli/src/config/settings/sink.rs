//! `[sink.NAME]`

use std::path::PathBuf;

use postrider::encode::cloudevents::Source;
use postrider::sink::Destinations;

use super::{ConfigTable, KafkaSettings, WebhookSettings};
use crate::config::environment::Environment;
use crate::config::problem::Problem;

/// A place events go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSettings {
    /// How an event becomes bytes.
    pub encoding: Encoding,
    /// Where CloudEvents say they come from.
    pub source: Source,
    /// Where it goes.
    pub target: Target,
}

/// How an event becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object with everything.
    Envelope,
    /// The payload alone.
    Plain,
    /// CloudEvents, structured.
    CloudEvents,
    /// CloudEvents, binary.
    CloudEventsBinary,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Lines in a file.
    File {
        /// The file.
        path: PathBuf,
        /// Begin a new one before it grows larger.
        rotate_bytes: Option<u64>,
    },
    /// Lines on standard output.
    Stdout,
    /// Nowhere.
    Null,
    /// Apache Kafka.
    Kafka(Box<KafkaSettings>),
    /// One HTTP POST each.
    Webhook(Box<WebhookSettings>),
}

impl Target {
    /// What the sink makes of the destinations that routing names.
    pub(super) fn destinations(&self) -> Destinations {
        match self {
            Self::Kafka(kafka) if kafka.topic.is_some() => Destinations::Fixed,
            Self::Webhook(webhook) if webhook.url.is_some() => Destinations::Fixed,
            Self::Webhook(webhook) => {
                Destinations::Urls { hosts_from_events: !webhook.allow_hosts.is_empty() }
            }
            Self::File { .. } | Self::Stdout | Self::Null | Self::Kafka(_) => Destinations::Names,
        }
    }
}

impl SinkSettings {
    pub(super) fn read(table: &ConfigTable<'_>, environment: &Environment) -> Result<Self, Problem> {
        let encodings = [
            ("envelope", Encoding::Envelope),
            ("plain", Encoding::Plain),
            ("cloudevents", Encoding::CloudEvents),
            ("cloudevents-binary", Encoding::CloudEventsBinary),
        ];
        let target = match table.text("type")?.as_deref() {
            Some("file") => Target::File {
                path: table.required("path", table.path("path")?)?,
                rotate_bytes: table.size("rotate_size")?,
            },
            Some("stdout") => Target::Stdout,
            Some("null") => Target::Null,
            Some("kafka") => Target::Kafka(Box::new(KafkaSettings::read(table, environment)?)),
            Some("webhook") => Target::Webhook(Box::new(WebhookSettings::read(table, environment)?)),
            _ => return table.required("type", None),
        };
        Ok(Self { encoding: table.choice("encoder", &encodings)?, source: source(table)?, target })
    }
}

fn source(table: &ConfigTable<'_>) -> Result<Source, Problem> {
    let Some(uri) = table.text("source")? else { return Ok(Source::default()) };
    Source::fixed(uri).map_err(|error| table.problem("source", error.code(), error.message()))
}
