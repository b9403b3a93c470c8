//! Settings of the RabbitMQ sink.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lapin::uri::AMQPUri;
use postrider::{Code, Error, Result};

/// The longest name that the protocol can express.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// The server, and how messages are routed on it. Its `Debug` output contains no secrets.
///
/// ```
/// use std::time::Duration;
///
/// use postrider_sinks::rabbitmq::{NewQueue, RabbitMqConfig};
///
/// let config = RabbitMqConfig::new("amqps://rabbit.internal:5671/shop")
///     .login("relay", "a password from somewhere safe")
///     .exchange("orders")
///     .declare_queue(NewQueue::quorum("billing").bound_with("order.#"))
///     .confirm_timeout(Duration::from_secs(5));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RabbitMqConfig {
    /// `amqp://HOST:PORT/VHOST`, or `amqps://` for TLS. It may contain user and password.
    pub url: String,
    /// User name and password. `None`: those of the URL, otherwise `guest`.
    pub login: Option<Login>,
    /// The name of the connection in the server's lists.
    pub connection_name: String,
    /// The exchange of all messages. Empty: the default exchange, where the routing key is the name of a queue.
    pub exchange: String,
    /// The exchanges that routing may select. If it is not empty, a destination is `EXCHANGE/ROUTING_KEY`.
    pub exchanges: Vec<String>,
    /// The routing key of all messages. `None`: each message has the routing key that its route names.
    pub routing_key: Option<String>,
    /// How long the sink waits for a confirm. Use less than the relay's lease and publish timeout.
    pub confirm_timeout: Duration,
    /// Messages larger than this are rejected without a request. The server's limit applies too.
    pub message_bytes_max: usize,
    /// Certificates for `amqps`.
    pub tls: Tls,
    /// Declares [`exchange`](Self::exchange), durable and with this type, when the sink connects.
    pub declare_exchange: Option<ExchangeType>,
    /// Queues to declare when the sink connects.
    pub declare_queues: Vec<NewQueue>,
}

/// User name and password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Certificates for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// CA certificates, as PEM, to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the client certificate, as PEM.
    pub key: Option<PathBuf>,
}

/// How an exchange routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum ExchangeType {
    Direct,
    Fanout,
    Topic,
    Headers,
}

/// A durable queue to declare.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewQueue {
    /// Its name.
    pub name: String,
    /// A quorum queue, which stores messages on several nodes; otherwise a classic one.
    pub is_quorum: bool,
    /// The binding key with which it is bound to the exchange. `None`: it is not bound.
    pub binding_key: Option<String>,
}

impl RabbitMqConfig {
    /// A server, with the default exchange.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            login: None,
            connection_name: "postrider".to_owned(),
            exchange: String::new(),
            exchanges: Vec::new(),
            routing_key: None,
            confirm_timeout: Duration::from_secs(10),
            // The default limit of RabbitMQ 4; the one of version 3 is 128 MiB.
            message_bytes_max: 16 * 1024 * 1024,
            tls: Tls::default(),
            declare_exchange: None,
            declare_queues: Vec::new(),
        }
    }

    /// Authenticates with a user name and a password.
    #[must_use]
    pub fn login(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some(Login { username: username.into(), password: password.into() });
        self
    }

    /// Sends all messages to one exchange.
    #[must_use]
    pub fn exchange(mut self, exchange: impl Into<String>) -> Self {
        self.exchange = exchange.into();
        self
    }

    /// Lets routing select among these exchanges.
    #[must_use]
    pub fn exchanges(mut self, exchanges: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exchanges = exchanges.into_iter().map(Into::into).collect();
        self
    }

    /// Sends all messages with one routing key.
    #[must_use]
    pub fn routing_key(mut self, routing_key: impl Into<String>) -> Self {
        self.routing_key = Some(routing_key.into());
        self
    }

    /// Sets the name of the connection in the server's lists.
    #[must_use]
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.connection_name = name.into();
        self
    }

    /// Declares the exchange when the sink connects.
    #[must_use]
    pub fn declare_exchange(mut self, exchange_type: ExchangeType) -> Self {
        self.declare_exchange = Some(exchange_type);
        self
    }

    /// Adds a queue that is declared when the sink connects.
    #[must_use]
    pub fn declare_queue(mut self, queue: NewQueue) -> Self {
        self.declare_queues.push(queue);
        self
    }

    /// Checks the settings, without a connection.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the reason.
    pub fn check(&self) -> Result<()> {
        self.uri().map(drop)?;
        let names = self.exchanges.iter().chain([&self.exchange]).chain(&self.routing_key);
        let queues =
            self.declare_queues.iter().flat_map(|queue| [Some(&queue.name), queue.binding_key.as_ref()]);
        for name in names.chain(queues.flatten()) {
            if name.len() > NAME_BYTES_MAX {
                return Err(invalid(format!("{name:?} is longer than {NAME_BYTES_MAX} bytes")));
            }
        }
        if !self.exchanges.is_empty() && (!self.exchange.is_empty() || self.routing_key.is_some()) {
            return Err(invalid(
                "`exchanges` excludes `exchange` and `routing_key`: a destination names both",
            ));
        }
        if self.exchange.is_empty() && self.declare_exchange.is_some() {
            return Err(invalid("the exchange to declare has no name"));
        }
        let unbound = self.exchange.is_empty();
        if unbound && self.declare_queues.iter().any(|queue| queue.binding_key.is_some()) {
            return Err(invalid("a queue cannot be bound without `exchange`"));
        }
        if self.confirm_timeout.is_zero() {
            return Err(invalid("the confirm timeout is zero"));
        }
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return Err(invalid("a client certificate and its key must be set together"));
        }
        Ok(())
    }

    /// The address, with the login. An error does not quote the URL, which may contain a password.
    pub(super) fn uri(&self) -> Result<AMQPUri> {
        let invalid_url = "the URL is not valid: amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST";
        let mut uri: AMQPUri = self.url.parse().map_err(|_| invalid(invalid_url))?;
        if let Some(Login { username, password }) = &self.login {
            uri.authority.userinfo.username.clone_from(username);
            uri.authority.userinfo.password.clone_from(password);
        }
        Ok(uri)
    }

    /// Host, port and virtual host, without the login.
    pub fn address(&self) -> String {
        self.uri().map_or_else(
            |_| "invalid URL".to_owned(),
            |uri| {
                let vhost = if uri.vhost == "/" { "" } else { uri.vhost.as_str() };
                format!("{}://{}:{}/{vhost}", uri.scheme, uri.authority.host, uri.authority.port)
            },
        )
    }
}

crate::setters! { RabbitMqConfig:
    confirm_timeout: Duration,
    message_bytes_max: usize,
    tls: Tls,
}

impl Tls {
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

impl NewQueue {
    /// A quorum queue: durable, and stored on several nodes of a cluster.
    pub fn quorum(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_quorum: true, binding_key: None }
    }

    /// A durable classic queue, stored on one node.
    pub fn classic(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_quorum: false, binding_key: None }
    }

    /// Binds it to the exchange of the sink with this key.
    #[must_use]
    pub fn bound_with(mut self, binding_key: impl Into<String>) -> Self {
        self.binding_key = Some(binding_key.into());
        self
    }
}

fn invalid(why: impl fmt::Display) -> Error {
    Error::new(Code::SinkOpen, format!("rabbitmq: {why}"))
}

impl fmt::Debug for RabbitMqConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqConfig")
            .field("address", &self.address())
            .field("login", &self.login)
            .field("connection_name", &self.connection_name)
            .field("exchange", &self.exchange)
            .field("exchanges", &self.exchanges)
            .field("routing_key", &self.routing_key)
            .field("confirm_timeout", &self.confirm_timeout)
            .field("message_bytes_max", &self.message_bytes_max)
            .field("tls", &self.tls)
            .field("declare_exchange", &self.declare_exchange)
            .field("declare_queues", &self.declare_queues)
            .finish()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_the_settings_shows_no_secret() {
        for config in [
            RabbitMqConfig::new("amqp://u:canary@h:1/v"),
            RabbitMqConfig::new("amqp://h:1/v").login("u", "canary"),
            RabbitMqConfig::new("no url but canary"),
        ] {
            let shown = format!("{config:?} {:?}", config.check().err());
            assert!(!shown.contains("canary"), "{shown}");
        }
        assert_eq!(RabbitMqConfig::new("amqp://u:p@h:1/v").address(), "amqp://h:1/v");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let config = || RabbitMqConfig::new("amqp://h:1/v");
        assert!(config().exchange("e").routing_key("k").check().is_ok());
        for wrong in [
            RabbitMqConfig::new("http://h:1/v"),
            config().exchange("e").exchanges(["f"]),
            config().exchanges(["f"]).routing_key("k"),
            config().exchange("e".repeat(256)),
            config().declare_exchange(ExchangeType::Topic),
            config().declare_queue(NewQueue::quorum("q").bound_with("#")),
            config().confirm_timeout(Duration::ZERO),
        ] {
            assert_eq!(wrong.check().unwrap_err().code(), Code::SinkOpen, "{wrong:?}");
        }
    }
}
