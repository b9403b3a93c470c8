//! Settings of the Kafka sink.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The cluster, and the settings of its client. Its `Debug` output contains no secrets.
///
/// ```
/// use postrider_sinks::kafka::{Compression, KafkaConfig, NewTopic};
///
/// let config = KafkaConfig::new("broker-1:9092,broker-2:9092")
///     .topic("orders")
///     .compression(Compression::Zstd)
///     .create_topic(NewTopic::new("orders").partitions(12));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaConfig {
    /// Bootstrap brokers: `host:port,host:port`.
    pub brokers: String,
    /// The client's name in the logs and quotas of the brokers.
    pub client_id: String,
    /// The topic of all messages. `None`: each message goes to the topic of its route.
    pub topic: Option<String>,
    /// How batches of records are compressed.
    pub compression: Compression,
    /// How long the client tries to deliver a message. Use less than the relay's lease and publish timeout. The client
    /// does not keep this time exactly.
    pub delivery_timeout: Duration,
    /// How long the client waits for more messages before it sends what it has.
    pub linger: Duration,
    /// Messages larger than this are rejected without a request. The broker's limit applies too.
    pub message_bytes_max: usize,
    /// SASL authentication. `None`: the client does not authenticate.
    pub sasl: Option<Sasl>,
    /// TLS encryption. `None`: the connection is not encrypted.
    pub tls: Option<Tls>,
    /// Makes each batch a transaction with this id. Use a separate id for each outbox, shard and subscription.
    pub transactional_id: Option<String>,
    /// Topics to create at startup if they do not exist. The sink creates no other topics.
    pub create_topics: Vec<NewTopic>,
    /// Other librdkafka properties. Properties that the guarantees depend on are refused.
    pub properties: BTreeMap<String, String>,
}

/// How batches of records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// SASL authentication with user name and password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sasl {
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. The last two need the feature `kafka-tls`.
    pub mechanism: String,
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// TLS encryption. Needs the feature `kafka-tls`.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// CA certificates that sign the brokers' certificates, as PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the client certificate, as PEM.
    pub key: Option<PathBuf>,
    /// The password of that key.
    pub key_password: Option<String>,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Number of partitions; `None`: the default of the cluster.
    pub partitions: Option<u16>,
    /// Replication factor; `None`: the default of the cluster.
    pub replication: Option<u16>,
}

impl KafkaConfig {
    /// A cluster without authentication or encryption.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            client_id: "postrider".to_owned(),
            topic: None,
            compression: Compression::None,
            delivery_timeout: Duration::from_secs(10),
            linger: Duration::from_millis(1),
            // The default limit of a broker.
            message_bytes_max: 1_048_588,
            sasl: None,
            tls: None,
            transactional_id: None,
            create_topics: Vec::new(),
            properties: BTreeMap::new(),
        }
    }

    /// Sends all messages to one topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Makes each batch a transaction with this id. Use a separate id for each outbox, shard and subscription.
    #[must_use]
    pub fn transactional_id(mut self, id: impl Into<String>) -> Self {
        self.transactional_id = Some(id.into());
        self
    }

    /// Sets the client's name in the logs and quotas of the brokers.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = id.into();
        self
    }

    /// Authenticates with a user name and a password.
    #[must_use]
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = Some(sasl);
        self
    }

    /// Encrypts the connections.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Adds a topic that is created at startup if it does not exist.
    #[must_use]
    pub fn create_topic(mut self, topic: NewTopic) -> Self {
        self.create_topics.push(topic);
        self
    }

    /// Sets another librdkafka property. Properties that the guarantees depend on are refused when the sink is opened.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }
}

crate::setters! { KafkaConfig:
    compression: Compression,
    delivery_timeout: Duration,
    linger: Duration,
    message_bytes_max: usize,
}

impl Sasl {
    /// `mechanism` is `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub fn new(
        mechanism: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self { mechanism: mechanism.into(), username: username.into(), password: password.into() }
    }
}

impl Tls {
    /// Trusts the CA certificates (PEM) of this file instead of those of the system.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Sets the client certificate and its key, both as PEM.
    #[must_use]
    pub fn client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.certificate, self.key) = (Some(certificate.into()), Some(key.into()));
        self
    }

    /// Sets the password of the client's key.
    #[must_use]
    pub fn key_password(mut self, password: impl Into<String>) -> Self {
        self.key_password = Some(password.into());
        self
    }
}

impl NewTopic {
    /// A topic with the defaults of the cluster.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), partitions: None, replication: None }
    }

    /// Sets the number of partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Sets the replication factor.
    #[must_use]
    pub fn replication(mut self, replicas: u16) -> Self {
        self.replication = Some(replicas);
        self
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of other properties may be secrets.
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("topic", &self.topic)
            .field("compression", &self.compression)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("linger", &self.linger)
            .field("message_bytes_max", &self.message_bytes_max)
            .field("sasl", &self.sasl)
            .field("tls", &self.tls)
            .field("transactional_id", &self.transactional_id)
            .field("create_topics", &self.create_topics)
            .field("properties", &self.properties.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, username, password: _ } = self;
        f.debug_struct("Sasl")
            .field("mechanism", mechanism)
            .field("username", username)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ca, certificate, key, key_password } = self;
        f.debug_struct("Tls")
            .field("ca", ca)
            .field("certificate", certificate)
            .field("key", key)
            .field("key_password", &key_password.as_ref().map(|_| "***"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_the_settings_shows_no_secret() {
        let mut config = KafkaConfig::new("h:1");
        let secret = || "canary".to_owned();
        config.sasl = Some(Sasl::new("PLAIN", "u", secret()));
        config.tls = Some(Tls::default().key_password(secret()));
        config.properties.insert("sasl.oauthbearer.client.secret".into(), secret());
        let shown = format!("{config:?}");
        assert!(shown.contains("PLAIN") && !shown.contains("canary"), "{shown}");
    }
}
