//! The client's settings, and the producer.

use std::sync::Arc;
use std::time::Duration;

use postrider::{Code, Error, Result};
use rdkafka::ClientConfig;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, ThreadedProducer};

use super::config::{KafkaConfig, Tls};
use super::delivery::Context;

pub(super) type Client = ThreadedProducer<Context>;

/// A producer. Dropping the last clone waits for the client's threads, so this happens outside the async runtime.
#[derive(Clone)]
pub(super) struct Producer(Option<Arc<Client>>);

/// Longest wait between two connection attempts, and thus the longest delay after a broker is back.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// How long the client waits for an unknown topic: metadata of a new topic takes a moment to propagate.
const UNKNOWN_TOPIC_MAX: Duration = Duration::from_secs(2);
/// Shortest transaction timeout that a broker accepts.
const TRANSACTION_MIN: Duration = Duration::from_secs(1);

/// No timeout: the client would leave out a message that timed out, and go on with the next one. The sink has its own
/// deadline.
const NEVER: &str = "0";

/// Properties that the guarantees depend on. Users cannot set them.
const FIXED: [(&str, &str); 8] = [
    // One record per message, in the order of sending, even with retries.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // The hash of Java clients, so that a key has the same partition whichever program writes it.
    ("partitioner", "murmur2_random"),
    ("allow.auto.create.topics", "false"),
    ("socket.nagle.disable", "true"),
    ("socket.keepalive.enable", "true"),
    ("log.connection.close", "false"),
    // The relay's window is smaller; this limits messages that the client still holds after the relay stopped waiting.
    ("queue.buffering.max.kbytes", "262144"),
];

/// Properties that are derived from other settings of the sink.
const MANAGED: [&str; 23] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "request.required.acks",
    "compression.type",
    "compression.codec",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "message.send.max.retries",
    "retries",
    "enable.gapless.guarantee",
    "linger.ms",
    "queue.buffering.max.ms",
    "message.max.bytes",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.key.password",
    "transactional.id",
    "transaction.timeout.ms",
    "batch.num.messages",
];

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Batches records. A message that is not written keeps the later ones of its partition from being written.
    Plain,
    /// Sends each record in a separate request, so that none is refused because of another; in any order, and once.
    SingleRecord,
    /// Uses transactions, for an owner with this lease duration.
    Transactional(Duration),
}

/// The settings of a client of this kind.
///
/// # Errors
/// [`Code::SinkOpen`] for a property that is not the user's to set.
pub(super) fn settings(config: &KafkaConfig, kind: Kind) -> Result<ClientConfig> {
    let mut client = ClientConfig::new();
    for (name, value) in &config.properties {
        if MANAGED.contains(&name.as_str()) || FIXED.iter().any(|(fixed, _)| fixed == name) {
            let what = format!("kafka: the property {name} cannot be overridden");
            return Err(Error::new(Code::SinkOpen, what).with_hint(
                "remove it; Postrider has a separate setting for it, or its guarantees depend on it",
            ));
        }
        client.set(name, value);
    }
    for (name, value) in FIXED {
        client.set(name, value);
    }
    let timeout = match kind {
        Kind::Transactional(lease) => config.delivery_timeout.min(lease.max(TRANSACTION_MIN)),
        Kind::Plain | Kind::SingleRecord => config.delivery_timeout,
    };
    let ms = |duration: Duration| duration.as_millis().to_string();
    client
        .set("bootstrap.servers", &config.brokers)
        .set("client.id", &config.client_id)
        .set("compression.type", config.compression.name())
        .set("message.timeout.ms", if kind == Kind::Plain { NEVER.to_owned() } else { ms(timeout) })
        .set("linger.ms", ms(config.linger))
        .set("message.max.bytes", config.message_bytes_max.to_string())
        .set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in [
        ("reconnect.backoff.ms", ms(RECONNECT_MAX / 10)),
        ("reconnect.backoff.max.ms", ms(RECONNECT_MAX)),
        ("topic.metadata.propagation.max.ms", ms(UNKNOWN_TOPIC_MAX.min(timeout))),
        ("socket.timeout.ms", ms(timeout.max(Duration::from_secs(1)))),
        ("socket.connection.setup.timeout.ms", ms(timeout.max(Duration::from_secs(1)))),
    ] {
        if !config.properties.contains_key(name) {
            client.set(name, value);
        }
    }
    secure(&mut client, config);
    match (kind, &config.transactional_id) {
        // A refused message is a fatal error, instead of a gap before the next messages.
        (Kind::Plain, _) => _ = client.set("enable.gapless.guarantee", "true"),
        // No sequence, which every refused record would interrupt, and therefore no retries: the relay decides.
        (Kind::SingleRecord, _) => {
            client.set("batch.num.messages", "1").set("enable.idempotence", "false");
            client.set("message.send.max.retries", "0");
        }
        (Kind::Transactional(lease), Some(id)) => {
            client.set("transactional.id", id);
            client.set("transaction.timeout.ms", ms(lease.max(TRANSACTION_MIN)));
        }
        _ => {}
    }
    Ok(client)
}

fn secure(client: &mut ClientConfig, config: &KafkaConfig) {
    let protocol = match (&config.sasl, &config.tls) {
        (None, None) => "plaintext",
        (Some(_), None) => "sasl_plaintext",
        (None, Some(_)) => "ssl",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    client.set("security.protocol", protocol);
    if let Some(sasl) = &config.sasl {
        client.set("sasl.mechanism", &sasl.mechanism);
        client.set("sasl.username", &sasl.username).set("sasl.password", &sasl.password);
    }
    let Some(Tls { ca, certificate, key, key_password }) = &config.tls else { return };
    for (name, path) in
        [("ssl.ca.location", ca), ("ssl.certificate.location", certificate), ("ssl.key.location", key)]
    {
        if let Some(path) = path {
            client.set(name, path.to_string_lossy());
        }
    }
    if let Some(password) = key_password {
        client.set("ssl.key.password", password);
    }
}

impl Producer {
    /// Connects in the background.
    pub(super) fn make(settings: &ClientConfig) -> Result<Self, KafkaError> {
        let client = Client::from_config_and_context(settings, Context::default())?;
        Ok(Self(Some(Arc::new(client))))
    }

    /// Whether it had a fatal error and must be replaced.
    pub(super) fn is_broken(&self) -> bool {
        self.client().is_none_or(|client| client.client().fatal_error().is_some())
    }

    pub(super) fn client(&self) -> Option<&Arc<Client>> {
        self.0.as_ref()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let Some(last) = self.0.take().and_then(Arc::into_inner) else { return };
        // Messages that it still holds are purged: no process waits for their delivery reports.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || drop(last)),
            Err(_) => drop(last),
        }
    }
}
