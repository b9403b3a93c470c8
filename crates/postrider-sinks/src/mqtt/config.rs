//! Settings of the MQTT sink.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postrider::{Code, Error, Result};

use super::message::invalid_topic;

/// The broker, and how events are published. Its `Debug` output contains no secrets.
///
/// ```
/// use postrider_sinks::mqtt::{MqttConfig, Qos};
///
/// let config = MqttConfig::new("broker-1:1883").topic("shop/orders").qos(Qos::ExactlyOnce);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MqttConfig {
    /// `host:port` of the broker.
    pub address: String,
    /// The beginning of the client id; a random part follows, so that two relays do not end each other's connections.
    pub client_id: String,
    /// The user name. `None`: the client does not authenticate.
    pub username: Option<String>,
    /// The password of that user.
    pub password: Option<String>,
    /// TLS encryption. `None`: the connection is not encrypted.
    pub tls: Option<Tls>,
    /// The topic of all messages. `None`: each message goes to the topic of its route.
    pub topic: Option<String>,
    /// How the broker confirms a message.
    pub qos: Qos,
    /// Whether the broker keeps the last message of each topic for future subscribers.
    pub retain: bool,
    /// Whether a message without any subscriber fails. The broker discards it. Not all brokers report this.
    pub require_subscriber: bool,
    /// Packets larger than this are rejected without a request. The broker's own limit also applies.
    pub message_bytes_max: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the broker may take to confirm a message. Use less than the relay's publish timeout.
    pub timeout: Duration,
    /// Maximum number of messages that wait for a confirmation. The broker's own limit also applies.
    pub in_flight_max: u16,
}

/// How the broker confirms a message. There is no variant without confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Qos {
    /// QoS 1: the broker has it. One exchange per message.
    #[default]
    AtLeastOnce,
    /// QoS 2: the broker has it, and repeated packets of one connection are recognised. Two exchanges per message.
    ExactlyOnce,
}

/// TLS encryption.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// CA certificates that sign the broker's certificate, as PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the client certificate, as PEM.
    pub key: Option<PathBuf>,
}

impl Qos {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::AtLeastOnce => 1,
            Self::ExactlyOnce => 2,
        }
    }
}

impl MqttConfig {
    /// A broker without authentication or encryption.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            client_id: "postrider".to_owned(),
            username: None,
            password: None,
            tls: None,
            topic: None,
            qos: Qos::AtLeastOnce,
            retain: false,
            require_subscriber: true,
            message_bytes_max: 1024 * 1024,
            connect_timeout: Duration::from_secs(3),
            timeout: Duration::from_secs(5),
            in_flight_max: 1_000,
        }
    }

    /// Publishes all messages to one topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the beginning of the client id.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = id.into();
        self
    }

    /// Authenticates with a user name and a password.
    #[must_use]
    pub fn user(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        (self.username, self.password) = (Some(username.into()), Some(password.into()));
        self
    }

    /// Encrypts the connection.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Checks the settings without connecting.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the setting that is wrong.
    pub fn check(&self) -> Result<()> {
        self.host_and_port()?;
        let topic = self.topic.as_deref().and_then(|topic| invalid_topic(topic, true));
        let problem = if let Some(why) = topic {
            why
        } else if self.username.is_some() != self.password.is_some() {
            "user name and password must be set together".to_owned()
        } else if self.tls.as_ref().is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            "a client certificate and its key must be set together".to_owned()
        } else if self.in_flight_max == 0 {
            "the maximum number of messages in flight is 0".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(Code::SinkOpen, format!("mqtt {}: {problem}", self.address)))
    }

    /// The parts of the address; an IPv6 address is in brackets.
    pub(super) fn host_and_port(&self) -> Result<(&str, u16)> {
        crate::address::host_and_port(&self.address).ok_or_else(|| {
            // The address may contain a password by mistake, so it is not repeated here.
            let what = "mqtt: the address is not `host:port`; user and password are separate keys";
            Error::new(Code::SinkOpen, what)
        })
    }
}

crate::setters! { MqttConfig:
    qos: Qos,
    retain: bool,
    require_subscriber: bool,
    message_bytes_max: usize,
    connect_timeout: Duration,
    timeout: Duration,
    in_flight_max: u16,
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
}

impl fmt::Debug for MqttConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqttConfig")
            .field("address", &self.address)
            .field("client_id", &self.client_id)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("topic", &self.topic)
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("require_subscriber", &self.require_subscriber)
            .field("message_bytes_max", &self.message_bytes_max)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("in_flight_max", &self.in_flight_max)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_the_settings_shows_no_secret() {
        let shown = format!("{:?}", MqttConfig::new("h:1").user("relay", "canary"));
        assert!(shown.contains("relay") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let config = || MqttConfig::new("h:1883");
        config().topic("$aws/rules/orders").check().unwrap();
        for wrong in [
            config().topic("a/+/b"),
            config().topic("a/#"),
            config().topic(""),
            config().in_flight_max(0),
            MqttConfig::new("mqtt://u:canary@h:1883"),
            MqttConfig { username: Some("u".into()), ..config() },
        ] {
            let error = wrong.check().unwrap_err().report();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
