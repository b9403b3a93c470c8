//! The limit: librdkafka alone, with the same records, created before the measurement starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider::Position;
use postrider::encode::{Encoder, Envelope};
use postrider::sink::Message;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;

use super::Topic;
use crate::machine::Meter;
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
pub(crate) struct Alone(Vec<Ready>);

struct Ready {
    key: Option<String>,
    body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Alone {
    /// The records that the relay would send for these events.
    pub(crate) fn new(workload: &Workload) -> Result<Self, Error> {
        let encoder: Arc<dyn Encoder> = Arc::new(Envelope);
        let ready = |number| {
            let position = Position::new(i64::try_from(number)? + 1);
            let event = Arc::new(workload.event(number));
            let message = Message::encode(&encoder, position, event, "bench".into())?;
            let mut headers = message.headers();
            headers.set("content-type", message.content_type.clone());
            let headers = headers.into_iter().collect();
            Ok(Ready { key: message.key().map(str::to_owned), body: message.body.to_vec(), headers })
        };
        Ok(Self((0..workload.events).map(ready).collect::<Result<_, Error>>()?))
    }

    /// Publishes all records and waits for the last acknowledgement.
    pub(crate) fn publish(&self, topic: &Topic) -> Result<Usage, Error> {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", &topic.brokers);
        SETTINGS.iter().for_each(|(name, value)| _ = settings.set(*name, *value));
        let reported = Told::default();
        let producer = ThreadedProducer::from_config_and_context(&settings, reported.clone())?;
        let meter = Meter::start();
        for ready in &self.0 {
            send(&producer, &topic.name, ready)?;
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

fn send(producer: &ThreadedProducer<Told>, topic: &str, ready: &Ready) -> Result<(), Error> {
    loop {
        let headers = OwnedHeaders::new_with_capacity(ready.headers.len());
        let insert = |all: OwnedHeaders, (key, value): &(String, String)| {
            all.insert(Header { key, value: Some(value) })
        };
        let headers = ready.headers.iter().fold(headers, insert);
        let record: BaseRecord<'_, str, [u8]> =
            BaseRecord::to(topic).payload(&ready.body[..]).headers(headers);
        let record = match &ready.key {
            Some(key) => record.key(key.as_str()),
            None => record,
        };
        match producer.send(record) {
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
