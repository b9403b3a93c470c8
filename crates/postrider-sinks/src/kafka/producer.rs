//! The client: its settings, and a producer made of them.

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

/// A producer. Dropping the last one waits for the client's threads, so that is done beside the runtime.
#[derive(Clone)]
pub(super) struct Producer(Option<Arc<Client>>);

/// Longest wait between two tries to connect: so soon is it back after its broker.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a topic it is unknown is waited for: metadata of a new one takes a moment to spread.
const UNKNOWN_TOPIC_MAX: Duration = Duration::from_secs(2);
/// Shortest transaction a broker takes.
const TRANSACTION_MIN: Duration = Duration::from_secs(1);

/// What promises rest on. No other process may set these.
const FIXED: [(&str, &str); 8] = [
    // One record per message, in the order of sending, whatever has to be sent again.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // As Java's clients do it, so that a key has one partition no matter which program writes it.
    ("partitioner", "murmur2_random"),
    ("allow.auto.create.topics", "false"),
    ("socket.nagle.disable", "true"),
    ("socket.keepalive.enable", "true"),
    ("log.connection.close", "false"),
    // The relay's window is smaller; this bounds what it gave up on and the client still holds.
    ("queue.buffering.max.kbytes", "262144"),
];

/// What other settings are made into.
const OURS: [&str; 20] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "request.required.acks",
    "compression.type",
    "compression.codec",
    "message.timeout.ms",
    "delivery.timeout.ms",
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

/// How a client differs from the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The usual one.
    Plain,
    /// Each record is sent by itself, so that none is refused for the sake of another.
    Apart,
    /// For the transactions of an owner whose lease lasts so long.
    Transactional(Duration),
}

/// The settings of a client of this kind.
///
/// # Errors
/// [`Code::SinkOpen`] for a property that is not the user's to set.
pub(super) fn settings(config: &KafkaConfig, kind: Kind) -> Result<ClientConfig> {
    let mut client = ClientConfig::new();
    for (name, value) in &config.properties {
        if OURS.contains(&name.as_str()) || FIXED.iter().any(|(fixed, _)| fixed == name) {
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
        Kind::Plain | Kind::Apart => config.delivery_timeout,
    };
    let ms = |duration: Duration| duration.as_millis().to_string();
    client
        .set("bootstrap.servers", &config.brokers)
        .set("client.id", &config.client_id)
        .set("compression.type", config.compression.name())
        .set("message.timeout.ms", ms(timeout))
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
        (Kind::Apart, _) => _ = client.set("batch.num.messages", "1"),
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

    /// Whether it can do nothing more.
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
        // What it still held is purged: nothing may be written by a producer without a listener.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || drop(last)),
            Err(_) => drop(last),
        }
    }
}
