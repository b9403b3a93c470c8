//! The connection to the server: made when it is needed, and replaced after an error.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::Result;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates, Value,
};
use tokio::sync::Mutex;

use super::config::{RedisConfig, Tls};
use super::error::not_opened;
use super::server::Server;

/// The connection that all batches share.
pub(super) struct Connection {
    address: String,
    client: Client,
    config: AsyncConnectionConfig,
    current: Mutex<Current>,
    described: AtomicBool,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// Raised with each connection.
    number: u64,
}

/// An open connection, and its number.
#[derive(Clone)]
pub(super) struct Open {
    connection: MultiplexedConnection,
    number: u64,
}

impl Connection {
    pub(super) fn new(config: &RedisConfig) -> Result<Self> {
        config.check()?;
        let failed = |error: RedisError| not_opened(&config.address, &error.to_string());
        let (host, port) = config.host_and_port()?;
        let mut login = RedisConnectionInfo::default().set_db(i64::from(config.database));
        if let Some(username) = &config.username {
            login = login.set_username(username);
        }
        if let Some(password) = &config.password {
            login = login.set_password(password);
        }
        let info = |address: ConnectionAddr| -> Result<ConnectionInfo> {
            Ok(address.into_connection_info().map_err(failed)?.set_redis_settings(login))
        };
        let host = host.to_owned();
        let client = match &config.tls {
            None => Client::open(info(ConnectionAddr::Tcp(host, port))?),
            Some(tls) => {
                let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
                // The client takes the provider of the process. With another one installed, that one is used.
                _ = rustls::crypto::ring::default_provider().install_default();
                Client::build_with_tls(info(address)?, certificates(&config.address, tls)?)
            }
        };
        let wait = config.replicas.map_or(Duration::ZERO, |replicas| replicas.timeout);
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.connect_timeout))
            .set_response_timeout(Some(config.timeout + wait));
        Ok(Self {
            address: config.address.clone(),
            client: client.map_err(failed)?,
            config: settings,
            current: Mutex::default(),
            described: AtomicBool::new(false),
        })
    }

    /// The connection; a new one if there is none.
    pub(super) async fn open(&self) -> Result<Open, RedisError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok(Open { connection: connection.clone(), number: current.number });
        }
        let connection = self.connect().await?;
        current.number += 1;
        current.connection = Some(connection.clone());
        let open = Open { connection, number: current.number };
        drop(current);
        if !self.described.swap(true, Ordering::Relaxed) {
            self.describe(&open).await;
        }
        Ok(open)
    }

    /// A separate connection.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        self.client.get_multiplexed_async_connection_with_config(&self.config).await
    }

    /// Does not use this connection again. Its successor stays.
    pub(super) async fn forget(&self, broken: &Open) {
        let mut current = self.current.lock().await;
        if current.number == broken.number {
            current.connection = None;
        }
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        self.current.lock().await.connection = None;
    }

    /// Logs once what the settings of the server mean for events.
    async fn describe(&self, open: &Open) {
        let mut connection = open.connection.clone();
        let Ok(server) = Server::read(&mut connection).await else { return };
        tracing::info!("redis {}: {server}", self.address);
        for weakness in server.weaknesses() {
            tracing::warn!("redis {}: {weakness}", self.address);
        }
    }
}

impl Open {
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        match self.connection.send_packed_command(command).await? {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }
}

/// Reads the files.
fn certificates(address: &str, tls: &Tls) -> Result<TlsCertificates> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| not_opened(address, &format!("{}: {error}", path.display())))
    };
    let client_tls = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        _ => None,
    };
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}
