//! Benchmarks from PostgreSQL to an MQTT broker.

use postrider_bench::{Error, Report};
use tokio::runtime::Runtime;

use super::Events;

#[cfg(feature = "mqtt")]
pub(super) fn publish(
    runtime: &Runtime,
    events: &Events,
    repetitions: Option<usize>,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    use postrider_bench::publish::{self, Publish};

    let (url, broker) = (super::servers::postgres_url()?, super::servers::Mosquitto::find()?);
    let Events { events, payload_bytes, keys } = *events;
    let repetitions = repetitions.unwrap_or(Publish::default().repetitions);
    let publish = Publish { events, payload_bytes, keys, repetitions };
    runtime.block_on(publish::postgres_to_mqtt(&url, &broker.address, publish, progress))
}

#[cfg(not(feature = "mqtt"))]
pub(super) fn publish(_: &Runtime, _: &Events, _: Option<usize>, _: impl Fn(&str)) -> Result<Report, Error> {
    Err("this program was built without MQTT: build it with --features mqtt".into())
}
