//! Benchmarks from PostgreSQL to Kafka.

use postrider_bench::latency::Latency;
use postrider_bench::{Error, Report};
use tokio::runtime::Runtime;

use super::Events;

#[cfg(feature = "kafka")]
pub(super) fn publish(
    runtime: &Runtime,
    events: &Events,
    repetitions: Option<usize>,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    use postrider_bench::publish::{self, Publish};

    let (url, kafka) = (super::servers::postgres_url()?, super::servers::Kafka::find()?);
    let Events { events, payload_bytes, keys } = *events;
    let repetitions = repetitions.unwrap_or(Publish::default().repetitions);
    let publish = Publish { events, payload_bytes, keys, repetitions };
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
pub(super) fn publish(_: &Runtime, _: &Events, _: Option<usize>, _: impl Fn(&str)) -> Result<Report, Error> {
    Err(WITHOUT.into())
}

#[cfg(not(feature = "kafka"))]
pub(super) fn latency(_: &Runtime, _: Latency, _: impl Fn(&str)) -> Result<Report, Error> {
    Err(WITHOUT.into())
}
