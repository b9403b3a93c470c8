//! The connection to the broker: made when it is needed, used once, and replaced after an error.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider::Result;
use rumqttc::{
    AsyncClient, Broker as Address, ConnAck, ConnectReturnCode, Event, EventLoop, MqttOptions, Packet,
    TlsConfiguration, Transport,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;

use super::config::{MqttConfig, Tls};
use super::error::{not_opened, short};

/// An idle connection that is dead is noticed after about this many seconds.
const KEEP_ALIVE_SECONDS: u16 = 10;
/// Messages between the sink and the client. More wait in the sink.
const QUEUE_MESSAGES_MAX: usize = 256;

/// The connection that all batches share.
pub(super) struct Connection {
    options: MqttOptions,
    client_id: String,
    connect_timeout: Duration,
    current: Mutex<Option<Open>>,
    /// The number of connections that were made.
    connections: AtomicU64,
}

/// An open connection.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) client: AsyncClient,
    pub(super) broker: Broker,
    /// Raised by each confirmation.
    pub(super) confirmed: Arc<AtomicU64>,
    ended: watch::Receiver<Option<String>>,
    number: u64,
    _task: Arc<Task>,
}

/// The task that drives the connection; it ends with the last handle to it.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a broker reports about itself when a client connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broker {
    /// The highest QoS that it supports.
    pub qos_max: u8,
    /// Whether it keeps retained messages.
    pub retains: bool,
    /// The largest packet it accepts, in bytes; `None`: no limit.
    pub packet_bytes_max: Option<u32>,
    /// The number of messages it accepts before it has confirmed the first of them.
    pub receive_max: u16,
}

impl Broker {
    fn of(accepted: &ConnAck) -> Self {
        let properties = accepted.properties.as_ref();
        Self {
            qos_max: properties.and_then(|given| given.max_qos).unwrap_or(2),
            retains: properties.and_then(|given| given.retain_available).unwrap_or(1) == 1,
            packet_bytes_max: properties.and_then(|given| given.max_packet_size),
            receive_max: properties.and_then(|given| given.receive_max).unwrap_or(u16::MAX),
        }
    }
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QoS up to {}, {} messages in flight", self.qos_max, self.receive_max)?;
        match self.packet_bytes_max {
            Some(bytes) => write!(f, ", packets up to {bytes} bytes"),
            None => Ok(()),
        }
    }
}

impl Connection {
    pub(super) fn new(config: &MqttConfig) -> Result<Self> {
        config.check()?;
        let (host, port) = config.host_and_port()?;
        let mut options = MqttOptions::new(&config.client_id, Address::tcp(host, port));
        options.set_clean_start(true).set_keep_alive(KEEP_ALIVE_SECONDS);
        options.set_connect_timeout(config.connect_timeout);
        options.set_outgoing_inflight_upper_limit(config.in_flight_max);
        // The broker sends only confirmations.
        options.set_receive_maximum(Some(1));
        if let (Some(username), Some(password)) = (&config.username, &config.password) {
            options.set_credentials(username, password.clone().into_bytes());
        }
        if let Some(tls) = &config.tls {
            let tls = client_config(&config.address, tls)?;
            options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(tls))));
        }
        Ok(Self {
            options,
            client_id: config.client_id.clone(),
            connect_timeout: config.connect_timeout,
            current: Mutex::new(None),
            connections: AtomicU64::new(0),
        })
    }

    /// The connection; a new one if there is none. The error is a description.
    pub(super) async fn open(&self) -> Result<Open, String> {
        let mut current = self.current.lock().await;
        if let Some(open) = current.as_ref().filter(|open| !open.has_ended()) {
            return Ok(open.clone());
        }
        *current = None;
        let open = self.connect().await?;
        *current = Some(open.clone());
        Ok(open)
    }

    /// A separate connection.
    pub(super) async fn connect(&self) -> Result<Open, String> {
        let mut options = self.options.clone();
        options.set_client_id(format!("{}-{}", self.client_id, uuid::Uuid::now_v7().simple()));
        let built = AsyncClient::builder(options).capacity(QUEUE_MESSAGES_MAX).try_build();
        let (client, mut events) = built.map_err(|error| short(&error.to_string()))?;
        let accepted = tokio::time::timeout(self.connect_timeout, accepted(&mut events));
        let broker = accepted.await.map_err(|_| "no answer to the connection in time".to_owned())??;
        let (end, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = events.poll().await {
                    // The client would connect again and repeat packets whose outcome was already reported.
                    end.send_replace(Some(short(&error.to_string())));
                    return;
                }
            }
        });
        Ok(Open {
            client,
            broker,
            confirmed: Arc::default(),
            ended,
            number: self.connections.fetch_add(1, Ordering::Relaxed),
            _task: Arc::new(Task(task.abort_handle())),
        })
    }

    /// Does not use this connection again. Its successor stays.
    pub(super) async fn forget(&self, broken: &Open) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|open| open.number == broken.number) {
            *current = None;
        }
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        if let Some(open) = self.current.lock().await.take() {
            let mut ended = open.ended.clone();
            if open.client.disconnect().await.is_ok() {
                _ = tokio::time::timeout(self.connect_timeout, ended.wait_for(Option::is_some)).await;
            }
        }
    }
}

impl Open {
    fn has_ended(&self) -> bool {
        // The task may also have been dropped with its runtime.
        self.ended.borrow().is_some() || self.ended.has_changed().is_err()
    }

    /// Why it ended.
    pub(super) fn why_ended(&self) -> String {
        self.ended.borrow().clone().unwrap_or_else(|| "no confirmation in time".to_owned())
    }
}

/// Waits until the broker accepts the connection.
async fn accepted(events: &mut EventLoop) -> Result<Broker, String> {
    loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(accepted))) if accepted.code == ConnectReturnCode::Success => {
                return Ok(Broker::of(&accepted));
            }
            Ok(Event::Incoming(Packet::ConnAck(refused))) => {
                return Err(format!("the broker refused the connection: {:?}", refused.code));
            }
            Ok(_) => {}
            Err(error) => return Err(short(&error.to_string())),
        }
    }
}

/// TLS with ring, independent of the default provider of the process.
fn client_config(address: &str, tls: &Tls) -> Result<ClientConfig> {
    let failed = |path: &Path, why: &dyn fmt::Display| {
        not_opened(address, &format!("cannot use {}: {why}", path.display()))
    };
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        match read {
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(failed(path, &error)),
        }
    };
    let mut roots = RootCertStore::empty();
    match &tls.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| failed(path, &error))?;
            }
            if roots.is_empty() {
                return Err(failed(path, &"it contains no certificate"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| not_opened(address, &error.to_string()))?
        .with_root_certificates(roots);
    match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
            let with = builder.with_client_auth_cert(certificates(certificate)?, private);
            with.map_err(|error| failed(certificate, &error))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}
