//! Settings of the NATS sink.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use async_nats::ServerAddr;
use postrider::{Code, Error, Result};

use super::message::invalid_subject;

/// The servers, and the stream that stores the messages. Its `Debug` output contains no secrets.
///
/// ```
/// use postrider_sinks::nats::{Login, NatsConfig, NewStream};
///
/// let config = NatsConfig::new("nats://nats-1:4222,nats://nats-2:4222", "ORDERS")
///     .login(Login::CredentialsFile("relay.creds".into()))
///     .create_stream(NewStream::new(["orders.>"]).replicas(3));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsConfig {
    /// `nats://HOST:PORT`, or `tls://` for TLS; several are separated by commas. One is enough: the client learns the
    /// others.
    pub servers: String,
    /// The stream. A message that another stream would store is refused.
    pub stream: String,
    /// The subject of all messages. `None`: each message has the subject that its route names.
    pub subject: Option<String>,
    /// How the client authenticates.
    pub login: Login,
    /// The name of the connection in the server's lists.
    pub connection_name: String,
    /// How long the sink waits for an acknowledgement. Use less than the relay's lease and publish timeout.
    pub ack_timeout: Duration,
    /// Encryption and certificates.
    pub tls: Tls,
    /// Creates the stream when the sink connects, if it does not exist.
    pub create_stream: Option<NewStream>,
}

/// How the client authenticates.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Login {
    /// With what the URL contains, otherwise not at all.
    #[default]
    None,
    /// A user name and a password.
    Password(String, String),
    /// A token.
    Token(String),
    /// A file with a JWT and its key, as `nsc` creates it.
    CredentialsFile(PathBuf),
    /// The seed of an NKey.
    NKeySeed(String),
}

/// Encryption and certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// Refuses connections without encryption. It is used in any case if the server requires it.
    pub is_required: bool,
    /// CA certificates, as PEM, to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the client certificate, as PEM.
    pub key: Option<PathBuf>,
}

/// A stream to create, stored in files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewStream {
    /// The subjects that it stores.
    pub subjects: Vec<String>,
    /// The number of servers that store it.
    pub replicas: u8,
}

impl NatsConfig {
    /// Servers, and a stream that exists there.
    pub fn new(servers: impl Into<String>, stream: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            stream: stream.into(),
            subject: None,
            login: Login::None,
            connection_name: "postrider".to_owned(),
            ack_timeout: Duration::from_secs(10),
            tls: Tls::default(),
            create_stream: None,
        }
    }

    /// Sends all messages to one subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the name of the connection in the server's lists.
    #[must_use]
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.connection_name = name.into();
        self
    }

    /// Creates the stream when the sink connects, if it does not exist.
    #[must_use]
    pub fn create_stream(mut self, stream: NewStream) -> Self {
        self.create_stream = Some(stream);
        self
    }

    /// Checks the settings, without a connection.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the reason.
    pub fn check(&self) -> Result<()> {
        self.addresses()?;
        if self.stream.is_empty() || self.stream.contains([' ', '\t', '.', '*', '>', '/', '\\']) {
            return Err(invalid(format!("{:?} is not a valid name of a stream", self.stream)));
        }
        if let Some(why) = self.subject.as_deref().and_then(invalid_subject) {
            return Err(invalid(why));
        }
        if self.ack_timeout.is_zero() {
            return Err(invalid("the ack timeout is zero"));
        }
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return Err(invalid("a client certificate and its key must be set together"));
        }
        Ok(())
    }

    /// The addresses of the servers. An error does not quote them, because they may contain a password.
    pub(super) fn addresses(&self) -> Result<Vec<ServerAddr>> {
        let parse = |one: &str| {
            let known = ["nats", "tls"].iter().any(|scheme| one.starts_with(&format!("{scheme}://")));
            let parsed = ServerAddr::from_str(one).ok().filter(|_| known);
            parsed.ok_or_else(|| invalid("the servers are not valid: nats://HOST:PORT or tls://HOST:PORT"))
        };
        self.servers.split(',').map(str::trim).map(parse).collect()
    }

    /// Host and port of each server, without the login.
    pub fn address(&self) -> String {
        let shown = |address: &ServerAddr| format!("{}:{}", address.host(), address.port());
        match self.addresses() {
            Ok(addresses) => addresses.iter().map(shown).collect::<Vec<_>>().join(","),
            Err(_) => "invalid URL".to_owned(),
        }
    }
}

crate::setters! { NatsConfig:
    ack_timeout: Duration,
    login: Login,
    tls: Tls,
}

impl Tls {
    /// Refuses connections without encryption.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Also trusts the CA certificates (PEM) of this file.
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

impl NewStream {
    /// A stream with these subjects, stored by one server.
    pub fn new(subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { subjects: subjects.into_iter().map(Into::into).collect(), replicas: 1 }
    }

    /// Sets the number of servers that store it.
    #[must_use]
    pub fn replicas(mut self, replicas: u8) -> Self {
        self.replicas = replicas;
        self
    }
}

fn invalid(why: impl fmt::Display) -> Error {
    Error::new(Code::SinkOpen, format!("nats: {why}"))
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConfig")
            .field("servers", &self.address())
            .field("stream", &self.stream)
            .field("subject", &self.subject)
            .field("login", &self.login)
            .field("connection_name", &self.connection_name)
            .field("ack_timeout", &self.ack_timeout)
            .field("tls", &self.tls)
            .field("create_stream", &self.create_stream)
            .finish()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password(user, _) => f.debug_tuple("Password").field(user).finish_non_exhaustive(),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::CredentialsFile(file) => f.debug_tuple("CredentialsFile").field(file).finish(),
            Self::NKeySeed(_) => f.write_str("NKeySeed(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_the_settings_shows_no_secret() {
        let config = |servers: &str| NatsConfig::new(servers, "S");
        let secret = || "canary".to_owned();
        for config in [
            config("nats://u:canary@h:1"),
            config("no url but canary"),
            config("nats://h").login(Login::Password("u".to_owned(), secret())),
            config("nats://h").login(Login::Token(secret())),
            config("nats://h").login(Login::NKeySeed(secret())),
        ] {
            let shown = format!("{config:?} {:?}", config.check().err());
            assert!(!shown.contains("canary"), "{shown}");
        }
        assert_eq!(config("nats://u:p@h:1, tls://i").address(), "h:1,i:4222");
    }

    #[test]
    fn wrong_settings_are_refused() {
        assert!(NatsConfig::new("nats://h", "S").subject("a.b").check().is_ok());
        for wrong in [
            NatsConfig::new("http://h", "S"),
            NatsConfig::new("h:4222", "S"),
            NatsConfig::new("nats://h", ""),
            NatsConfig::new("nats://h", "a.b"),
            NatsConfig::new("nats://h", "S").subject("a.*"),
            NatsConfig::new("nats://h", "S").ack_timeout(Duration::ZERO),
        ] {
            assert_eq!(wrong.check().unwrap_err().code(), Code::SinkOpen, "{wrong:?}");
        }
    }
}
