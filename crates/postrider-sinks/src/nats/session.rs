//! A client, and what it knows about the stream.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{GetStreamErrorKind, PublishAckFuture, PublishError};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Info, StorageType};
use async_nats::jetstream::{Context, ContextBuilder, ErrorCode};
use async_nats::{Client, ConnectOptions, Event, ServerError};
use tokio::sync::watch;

use super::config::{Login, NatsConfig};

/// The longest time to establish a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long an idle server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How often a silent connection is checked.
const PING: Duration = Duration::from_secs(5);

/// The pause between attempts of the client to connect again.
const RECONNECT: Duration = Duration::from_millis(250);

/// Messages without an acknowledgement. More than a relay has in flight.
const IN_FLIGHT_MAX: usize = 100_000;

/// What the server says when a user may not publish: `Permissions Violation for Publish to "orders"`.
const DENIED: &str = "permissions violation for publish to \"";

pub(super) struct Session {
    client: Client,
    context: Context,
    stream: String,
    /// Subjects to which the user may not publish. The server says so without a relation to a message.
    denied: watch::Receiver<HashSet<String>>,
    retired: AtomicBool,
}

/// The stream, according to the server.
#[derive(Debug)]
pub(super) enum Found {
    Stream(Box<Info>),
    /// The server answers, and has no such stream.
    Missing,
    /// No answer, or one that says that JetStream is not available.
    Unavailable(String),
}

impl Session {
    /// Connects, and creates the stream if the settings say so. An error is a sentence without secrets.
    pub(super) async fn open(config: &NatsConfig) -> Result<Self, String> {
        let opened = tokio::time::timeout(CONNECT_MAX, Self::try_open(config)).await;
        opened.unwrap_or_else(|_| Err(format!("no answer within {CONNECT_MAX:?}")))
    }

    async fn try_open(config: &NatsConfig) -> Result<Self, String> {
        let (deny, denied) = watch::channel(HashSet::new());
        let options = options(config).await?.event_callback(move |event| {
            if let Event::ServerError(ServerError::Other(said)) = event
                && let Some(subject) = denied_subject(&said)
            {
                deny.send_modify(|denied| _ = denied.insert(subject));
            }
            std::future::ready(())
        });
        let addresses = config.addresses().map_err(|error| error.message().to_owned())?;
        let client = options.connect(addresses).await.map_err(|error| error.to_string())?;
        let context = ContextBuilder::new()
            .timeout(config.ack_timeout)
            .ack_timeout(config.ack_timeout)
            .max_ack_inflight(IN_FLIGHT_MAX)
            .build(client.clone());
        let stream = config.stream.clone();
        let session = Self { client, context, stream, denied, retired: AtomicBool::new(false) };
        session.create_stream(config).await?;
        Ok(session)
    }

    async fn create_stream(&self, config: &NatsConfig) -> Result<(), String> {
        let Some(new) = &config.create_stream else { return Ok(()) };
        let stream = Config {
            name: config.stream.clone(),
            subjects: new.subjects.clone(),
            num_replicas: usize::from(new.replicas),
            storage: StorageType::File,
            ..Config::default()
        };
        // An existing stream is not changed, whatever its settings are.
        let created = self.context.get_or_create_stream(stream).await;
        created.map(drop).map_err(|error| format!("stream {:?}: {error}", config.stream))
    }

    /// Whether further batches can use it.
    pub(super) fn is_usable(&self) -> bool {
        !self.retired.load(Ordering::Relaxed)
    }

    /// No further batch uses it.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether the client is connected. It connects again by itself, and would keep messages until then.
    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub(super) async fn send(
        &self,
        subject: &str,
        publish: PublishMessage,
    ) -> Result<PublishAckFuture, PublishError> {
        self.context.send_publish(subject.to_owned(), publish).await
    }

    /// Returns when the server has said that the user may not publish to this subject.
    pub(super) async fn denied(&self, subject: &str) {
        let mut denied = self.denied.clone();
        if denied.wait_for(|denied| denied.contains(subject)).await.is_err() {
            // The client has ended, and says nothing more.
            std::future::pending::<()>().await;
        }
    }

    /// Asks for the stream.
    pub(super) async fn find_stream(&self) -> Found {
        match tokio::time::timeout(ANSWER_MAX, self.context.get_stream(&self.stream)).await {
            Ok(Ok(stream)) => Found::Stream(Box::new(stream.cached_info().clone())),
            Ok(Err(error)) => match error.kind() {
                GetStreamErrorKind::JetStream(said) if said.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    Found::Missing
                }
                _ => Found::Unavailable(error.to_string()),
            },
            Err(_) => Found::Unavailable("the server does not answer".to_owned()),
        }
    }

    /// The version of the server.
    pub(super) fn server_version(&self) -> String {
        self.client.server_info().version
    }

    pub(super) async fn close(&self) {
        self.retire();
        _ = tokio::time::timeout(ANSWER_MAX, self.client.flush()).await;
        _ = tokio::time::timeout(ANSWER_MAX, self.client.drain()).await;
    }
}

async fn options(config: &NatsConfig) -> Result<ConnectOptions, String> {
    let options = ConnectOptions::new()
        .name(&config.connection_name)
        .connection_timeout(CONNECT_MAX)
        .ping_interval(PING)
        .reconnect_delay_callback(|_| RECONNECT)
        .require_tls(config.tls.is_required);
    let options = match &config.tls.ca {
        Some(ca) => options.add_root_certificates(ca.clone()),
        None => options,
    };
    let options = match (&config.tls.certificate, &config.tls.key) {
        (Some(certificate), Some(key)) => options.add_client_certificate(certificate.clone(), key.clone()),
        _ => options,
    };
    Ok(match &config.login {
        Login::None => match login_of_url(config) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        },
        Login::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
        Login::Token(token) => options.token(token.clone()),
        Login::NKeySeed(seed) => options.nkey(seed.clone()),
        Login::CredentialsFile(file) => options
            .credentials_file(file)
            .await
            .map_err(|error| format!("cannot read the credentials in {}: {error}", file.display()))?,
    })
}

/// User and password in the first URL, or a token in the place of the user. The client does not use them by itself.
fn login_of_url(config: &NatsConfig) -> Option<(String, Option<String>)> {
    let addresses = config.addresses().ok()?;
    let first = addresses.first()?;
    Some((first.username()?.to_owned(), first.password().map(str::to_owned)))
}

/// The subject in what the server says about a missing permission.
fn denied_subject(said: &str) -> Option<String> {
    let start = said.to_ascii_lowercase().find(DENIED)? + DENIED.len();
    let (subject, _) = said.get(start..)?.split_once('"')?;
    Some(subject.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_missing_permission_is_found() {
        let said = "Permissions Violation for Publish to \"orders.placed\"";
        assert_eq!(denied_subject(said).as_deref(), Some("orders.placed"));
        assert_eq!(denied_subject("Permissions Violation for Subscription to \"a\""), None);
    }
}
