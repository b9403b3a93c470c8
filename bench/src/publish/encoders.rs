//! How fast a backlog reaches a broker with encoders that have schemas, compared with `plain` from the same rows.

use std::path::Path;

use postrider::encode::schema::Format;
use postrider::encode::{Envelope, Plain};

use super::Publish;
use super::kafka::holds_each_once;
use crate::drain::rates;
use crate::encode::{encoder, event};
use crate::kafka::{Mode, Topic, relay_with};
use crate::postgres::Fixture;
use crate::{Error, Report, Row, Usage};

/// An encoder of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedAs {
    /// Only the payload, as it is.
    Plain,
    /// JSON with all fields.
    Envelope,
    /// Avro, in the envelope `action_event`.
    Avro,
    /// Protobuf, in the envelope `action_event`.
    Protobuf,
    /// Validated JSON, in the envelope `action_event`.
    JsonSchema,
}

impl PublishedAs {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Envelope => "envelope",
            Self::Avro => "avro",
            Self::Protobuf => "protobuf",
            Self::JsonSchema => "json-schema",
        }
    }

    async fn relay(self, fixture: &Fixture, topic: &Topic, name: &str, events: u64) -> Result<Usage, Error> {
        let folder = tempfile::tempdir()?;
        let with_schema = |format| encoder(Path::new(folder.path()), format);
        let format = match self {
            Self::Plain => return relay_with(fixture, name, topic, Mode::Plain, events, Plain).await,
            Self::Envelope => return relay_with(fixture, name, topic, Mode::Plain, events, Envelope).await,
            Self::Avro => Format::Avro,
            Self::Protobuf => Format::Protobuf,
            Self::JsonSchema => Format::JsonSchema,
        };
        relay_with(fixture, name, topic, Mode::Plain, events, with_schema(format)?).await
    }
}

/// Runs it from a new schema of a server to topics of a Kafka cluster. Events have a payload of 340 bytes, an action, and a
/// key each. `progress` is called with each next step.
///
/// # Errors
/// An error of the server, the cluster or the relay, or if a topic does not contain each event once.
pub async fn encoders_to_kafka(
    url: &str,
    brokers: &str,
    encoders: &[PublishedAs],
    publish: Publish,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let Publish { events, repetitions, .. } = publish;
    progress(&format!("writing {events} events"));
    let fixture = Fixture::fill_with(url, "encoders", events, event).await?;
    // The first one is what the others are compared with.
    let mut contenders = vec![PublishedAs::Plain];
    contenders.extend(encoders.iter().filter(|encoder| **encoder != PublishedAs::Plain));
    let mut usages: Vec<Vec<Usage>> = vec![Vec::new(); contenders.len()];
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        for (contender, usages) in contenders.iter().zip(&mut usages) {
            let name = format!("{}-{run}", contender.name());
            let topic = Topic::create(brokers, &name).await?;
            usages.push(contender.relay(&fixture, &topic, &name, events).await?);
            holds_each_once(topic, events).await?;
        }
    }
    fixture.close().await?;
    let all = || contenders.iter().zip(&usages);
    let plain = usages.first().map(Vec::as_slice).unwrap_or_default();
    let ratio = |(contender, usages): (&PublishedAs, &Vec<Usage>)| {
        rates(&format!("{} / plain (at least 0.85)", contender.name()), (usages, events), (plain, events))
    };
    Ok(Report {
        title: format!(
            "PostgreSQL to Kafka with encoders: {events} events with a payload of 334 bytes and an action, a key each, {repetitions} runs in turns"
        ),
        rows: all().map(|(contender, usages)| Row::of_runs(contender.name(), events, usages)).collect(),
        ratios: all().skip(1).map(ratio).collect(),
    })
}
