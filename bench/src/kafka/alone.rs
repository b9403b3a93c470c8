//! The limit: librdkafka alone, with the same records, created before the measurement starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;

use super::Topic;
use crate::machine::Meter;
use crate::records::{Record, records};
use crate::workload::Workload;
use crate::{Error, Usage};

/// The settings of the sink that affect throughput.
const SETTINGS: [(&str, &str); 6] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("partitioner", "murmur2_random"),
    ("compression.type", "none"),
    ("linger.ms", "1"),
    ("socket.nagle.disable", "true"),
];

/// The records of a run.
pub(crate) struct Alone(Vec<Record>);

impl Alone {
    /// The records that the relay would send for these events.
    pub(crate) fn new(workload: &Workload) -> Result<Self, Error> {
        Ok(Self(records(workload)?))
    }

    /// Publishes all records and waits for the last acknowledgement.
    pub(crate) fn publish(&self, topic: &Topic) -> Result<Usage, Error> {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", &topic.brokers);
        SETTINGS.iter().for_each(|(name, value)| _ = settings.set(*name, *value));
        let reported = Told::default();
        let producer = ThreadedProducer::from_config_and_context(&settings, reported.clone())?;
        let meter = Meter::start();
        for record in &self.0 {
            send(&producer, &topic.name, record)?;
        }
        let all = self.0.len() as u64;
        producer.flush(Timeout::Never)?;
        let usage = meter.stop();
        match all - reported.acknowledged.load(Ordering::Relaxed) {
            0 => Ok(usage),
            failed => Err(format!("{failed} of {all} records were not acknowledged").into()),
        }
    }
}

fn send(producer: &ThreadedProducer<Told>, topic: &str, record: &Record) -> Result<(), Error> {
    loop {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        let insert = |all: OwnedHeaders, (key, value): &(String, String)| {
            all.insert(Header { key, value: Some(value) })
        };
        let headers = record.headers.iter().fold(headers, insert);
        let base: BaseRecord<'_, str, [u8]> =
            BaseRecord::to(topic).payload(&record.body[..]).headers(headers);
        let base = match &record.key {
            Some(key) => base.key(key.as_str()),
            None => base,
        };
        match producer.send(base) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "librdkafka does not signal when its queue has room again"
                )]
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// Counts the delivery reports.
#[derive(Clone, Default)]
struct Told {
    acknowledged: Arc<AtomicU64>,
}

impl ClientContext for Told {}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        self.acknowledged.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
    }
}
