//! To an MQTT broker.

use std::sync::Arc;

use postrider::sink::Sink;
use postrider_sinks::mqtt::{Mqtt, MqttConfig};

use super::{Broker, Publish, compare};
use crate::records::Record;
use crate::{Error, Report, Usage, mqtt};

struct Topics<'a> {
    host: &'a str,
    port: u16,
}

impl Broker for Topics<'_> {
    const NAMES: (&'static str, &'static str) = ("MQTT, QoS 1", "rumqttc");

    async fn create(&self, place: &str) -> Result<(), Error> {
        mqtt::keep((self.host, self.port), place).await
    }

    async fn alone(&self, place: &str, records: &[Record]) -> Result<Usage, Error> {
        mqtt::alone((self.host, self.port), place, records).await
    }

    fn sink(&self, place: &str) -> Result<Arc<dyn Sink>, Error> {
        let address = format!("{}:{}", self.host, self.port);
        Ok(Arc::new(Mqtt::open(&MqttConfig::new(address).topic(place))?))
    }

    async fn remove(&self, place: &str) -> Result<u64, Error> {
        mqtt::remove((self.host, self.port), place).await
    }
}

/// Runs it from a new schema of a server to topics of an MQTT broker at `host:port`. `progress` is called with each next
/// step.
///
/// # Errors
/// An error of a server or the relay, or if a session does not receive each event once.
pub async fn postgres_to_mqtt(
    url: &str,
    address: &str,
    publish: Publish,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let (host, port) = address.rsplit_once(':').ok_or("the address of the broker is not host:port")?;
    compare(url, &Topics { host, port: port.parse()? }, publish, progress).await
}
