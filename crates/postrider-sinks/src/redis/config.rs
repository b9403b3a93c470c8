//! Settings of the Redis sink.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use postrider::{Code, Error, Result};

/// The server, and how events are added to its streams. Its `Debug` output contains no secrets.
///
/// ```
/// use std::num::NonZeroU64;
///
/// use postrider_sinks::redis::RedisConfig;
///
/// let config = RedisConfig::new("redis-1:6379").stream("orders").max_len(NonZeroU64::new(1_000_000));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `host:port` of the primary.
    pub address: String,
    /// The number of the database.
    pub database: u32,
    /// The ACL user. `None`: the default user.
    pub username: Option<String>,
    /// The password. `None`: the client does not authenticate.
    pub password: Option<String>,
    /// TLS encryption. `None`: the connection is not encrypted.
    pub tls: Option<Tls>,
    /// The stream of all messages. `None`: each message goes to the stream of its route.
    pub stream: Option<String>,
    /// Whether a missing stream is created by the first event. Otherwise the event fails.
    pub create_streams: bool,
    /// Trims each stream to about this many entries, whether they were read or not. `None`: streams are not trimmed.
    pub max_len: Option<NonZeroU64>,
    /// Messages larger than this are rejected without a request.
    pub message_bytes_max: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the server may take to respond. Use less than the relay's publish timeout.
    pub timeout: Duration,
    /// Acknowledge only what this many replicas have. `None`: what the primary has.
    pub replicas: Option<Replicas>,
    /// The key that holds the token of the lease's owner. Use a separate one for each outbox, shard and subscription.
    /// `None`: no fencing.
    pub fence: Option<String>,
}

/// TLS encryption.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// CA certificates that sign the server's certificate, as PEM. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the client certificate, as PEM.
    pub key: Option<PathBuf>,
}

/// Replicas that must have an event before it is acknowledged, with the command `WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replicas {
    /// Their number.
    pub count: u16,
    /// How long to wait for them.
    pub timeout: Duration,
}

impl RedisConfig {
    /// A server without authentication or encryption.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            database: 0,
            username: None,
            password: None,
            tls: None,
            stream: None,
            create_streams: true,
            max_len: None,
            message_bytes_max: 8 * 1024 * 1024,
            connect_timeout: Duration::from_secs(3),
            timeout: Duration::from_secs(5),
            replicas: None,
            fence: None,
        }
    }

    /// Adds all messages to one stream.
    #[must_use]
    pub fn stream(mut self, stream: impl Into<String>) -> Self {
        self.stream = Some(stream.into());
        self
    }

    /// Authenticates with a password, as the default user.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Authenticates as an ACL user.
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

    /// Acknowledges only what this many replicas have.
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Fences with the token in this key. Use a separate one for each outbox, shard and subscription.
    #[must_use]
    pub fn fence(mut self, key: impl Into<String>) -> Self {
        self.fence = Some(key.into());
        self
    }

    /// Checks the settings without connecting.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the setting that is wrong.
    pub fn check(&self) -> Result<()> {
        self.host_and_port()?;
        let problem = if self.username.is_some() && self.password.is_none() {
            "a user name needs a password"
        } else if self.stream.as_deref() == Some("") {
            "the name of the stream is empty"
        } else if self.fence.as_deref() == Some("") {
            "the key of the fence is empty"
        } else if self.fence.is_some() && self.fence == self.stream {
            "the stream and the key of the fence have the same name"
        } else if self.tls.as_ref().is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            "a client certificate and its key must be set together"
        } else if self.replicas.is_some_and(|replicas| replicas.count == 0) {
            "the number of replicas is 0"
        } else {
            return Ok(());
        };
        Err(Error::new(Code::SinkOpen, format!("redis {}: {problem}", self.address)))
    }

    /// The parts of the address; an IPv6 address is in brackets.
    pub(super) fn host_and_port(&self) -> Result<(&str, u16)> {
        crate::address::host_and_port(&self.address).ok_or_else(|| {
            // The address may contain a password by mistake, so it is not repeated here.
            let what = "redis: the address is not `host:port`; user, password and database are separate keys";
            Error::new(Code::SinkOpen, what)
        })
    }
}

crate::setters! { RedisConfig:
    database: u32,
    create_streams: bool,
    max_len: Option<NonZeroU64>,
    message_bytes_max: usize,
    connect_timeout: Duration,
    timeout: Duration,
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

impl Replicas {
    /// This many, within this time.
    pub fn new(count: u16, timeout: Duration) -> Self {
        Self { count, timeout }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("address", &self.address)
            .field("database", &self.database)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("stream", &self.stream)
            .field("create_streams", &self.create_streams)
            .field("max_len", &self.max_len)
            .field("message_bytes_max", &self.message_bytes_max)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("replicas", &self.replicas)
            .field("fence", &self.fence)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_the_settings_shows_no_secret() {
        let shown = format!("{:?}", RedisConfig::new("h:1").user("relay", "canary"));
        assert!(shown.contains("relay") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_showing_it() {
        let error = RedisConfig::new("redis://relay:canary@h:6379").check().unwrap_err().report();
        assert!(error.contains("host:port") && !error.contains("canary"), "{error}");
    }
}
