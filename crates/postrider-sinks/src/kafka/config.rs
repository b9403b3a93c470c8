//! Settings of the Kafka sink.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster, and how to speak to it. Printing it shows no secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaConfig {
    /// Some of the cluster's brokers: `host:port,host:port`.
    pub brokers: String,
    /// What brokers call this client in their logs and quotas.
    pub client_id: String,
    /// All messages go to this topic. `None`: each to the topic that its routing names.
    pub topic: Option<String>,
    /// How batches of records are compressed.
    pub compression: Compression,
    /// How long the client tries to deliver a message. Best below the relay's lease and its publish timeout. The
    /// client does not keep it to the second.
    pub delivery_timeout: Duration,
    /// How long the client waits for more messages before it sends what it has.
    pub linger: Duration,
    /// Messages larger than this are rejected without asking the broker, whose own limit holds too.
    pub message_bytes_max: usize,
    /// A name and a password.
    pub sasl: Option<Sasl>,
    /// Encryption.
    pub tls: Option<Tls>,
    /// Each batch is a transaction of this id; one id per outbox, shard and subscription, and none for two of them.
    pub transactional_id: Option<String>,
    /// Topics that are created at the start if they are not there. The sink creates no other.
    pub create_topics: Vec<NewTopic>,
    /// Other settings of librdkafka, by its names. Those that promises rest on are refused.
    pub properties: BTreeMap<String, String>,
}

/// How batches of records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
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

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Sasl {
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. The last two need the feature `kafka-tls`.
    pub mechanism: String,
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Encryption. Needs the feature `kafka-tls`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The certificates that vouch for the brokers, as PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Our own certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of our own certificate, as PEM.
    pub key: Option<PathBuf>,
    /// The password of that key.
    pub key_password: Option<String>,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None`: as many as the cluster gives by default.
    pub partitions: Option<u16>,
    /// On how many brokers; `None`: as many as the cluster gives by default.
    pub replication: Option<u16>,
}

impl KafkaConfig {
    /// A cluster without password or encryption.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            client_id: "postrider".to_owned(),
            topic: None,
            compression: Compression::None,
            delivery_timeout: Duration::from_secs(10),
            linger: Duration::from_millis(1),
            // What a broker takes unless told otherwise.
            message_bytes_max: 1_048_588,
            sasl: None,
            tls: None,
            transactional_id: None,
            create_topics: Vec::new(),
            properties: BTreeMap::new(),
        }
    }

    /// With each batch a transaction of this id.
    #[must_use]
    pub fn with_transactional_id(mut self, id: impl Into<String>) -> Self {
        self.transactional_id = Some(id.into());
        self
    }

    /// With all messages to one topic.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// With so much time for each message.
    #[must_use]
    pub fn with_delivery_timeout(mut self, timeout: Duration) -> Self {
        self.delivery_timeout = timeout;
        self
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of other properties the values may be secrets.
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
        config.sasl = Some(Sasl { mechanism: "PLAIN".into(), username: "u".into(), password: secret() });
        config.tls = Some(Tls { key_password: Some(secret()), ..Tls::default() });
        config.properties.insert("sasl.oauthbearer.client.secret".into(), secret());
        let shown = format!("{config:?}");
        assert!(shown.contains("PLAIN") && !shown.contains("canary"), "{shown}");
    }
}
