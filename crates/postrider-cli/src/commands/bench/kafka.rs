//! Benchmarks from PostgreSQL to Kafka.

use postrider_bench::latency::Latency;
use postrider_bench::{Error, Report};
use tokio::runtime::Runtime;

use super::{EncoderName, Events};

#[cfg(feature = "kafka")]
pub(super) fn publish(
    runtime: &Runtime,
    events: &Events,
    encoders: &[EncoderName],
    repetitions: Option<usize>,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    use postrider_bench::publish::{self, Publish, PublishedAs};

    let (url, kafka) = (super::servers::postgres_url()?, super::servers::Kafka::find()?);
    let Events { events, payload_bytes, keys } = *events;
    let repetitions = repetitions.unwrap_or(Publish::default().repetitions);
    let publish = Publish { events, payload_bytes, keys, repetitions };
    let published_as = |name: &EncoderName| match name {
        EncoderName::Plain => PublishedAs::Plain,
        EncoderName::Envelope => PublishedAs::Envelope,
        EncoderName::Avro => PublishedAs::Avro,
        EncoderName::Protobuf => PublishedAs::Protobuf,
        EncoderName::JsonSchema => PublishedAs::JsonSchema,
    };
    if !encoders.is_empty() {
        let encoders: Vec<PublishedAs> = encoders.iter().map(published_as).collect();
        let measured = publish::encoders_to_kafka(&url, &kafka.brokers, &encoders, publish, progress);
        return runtime.block_on(measured);
    }
    runtime.block_on(publish::postgres_to_kafka(&url, &kafka.brokers, publish, progress))
}

#[cfg(feature = "kafka")]
pub(super) fn latency(runtime: &Runtime, latency: Latency, progress: impl Fn(&str)) -> Result<Report, Error> {
    let (url, kafka) = (super::servers::postgres_url()?, super::servers::Kafka::find()?);
    runtime.block_on(postrider_bench::latency::postgres_to_kafka(&url, &kafka.brokers, latency, progress))
}

#[cfg(not(feature = "kafka"))]
const WITHOUT: &str = "this program was built without Kafka: build it with --features kafka";

#[cfg(not(feature = "kafka"))]
pub(super) fn publish(
    _: &Runtime,
    _: &Events,
    _: &[EncoderName],
    _: Option<usize>,
    _: impl Fn(&str),
) -> Result<Report, Error> {
    Err(WITHOUT.into())
}

#[cfg(not(feature = "kafka"))]
pub(super) fn latency(_: &Runtime, _: Latency, _: impl Fn(&str)) -> Result<Report, Error> {
    Err(WITHOUT.into())
}
