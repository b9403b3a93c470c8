//! Looking whether an endpoint can be reached, without a request: to the endpoint a request would be an event.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use postrider::{Code, Error, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::address::Address;
use super::client::Webhook;
use super::resolve::checked;

/// How long one connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

impl Webhook {
    /// Connects to the fixed address as a request would, and closes the connection: the name is resolved, every address
    /// of it is checked, then TCP and, for `https`, TLS with the server's certificate. Answers what was done, or `None` if
    /// there is no fixed address. No request is sent, so neither token nor path is.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] with what did not work.
    pub async fn probe(&self) -> Result<Option<String>> {
        let Some(address) = &self.address else { return Ok(None) };
        let refused = |why: String| Error::new(Code::SinkFailed, format!("{address}: {why}"));
        let found = self.addresses(address).await.map_err(refused)?;
        let (host, port) = host_and_port(address);
        let tls = (address.url.scheme() == "https").then(|| self.tls.clone());
        let encrypted = tls.is_some();
        let connecting = tokio::task::spawn_blocking(move || connect(&found, port, tls.zip(Some(host))));
        let connected = connecting.await.unwrap_or_else(|error| Err(error.to_string()));
        let to = connected.map_err(refused)?;
        let how = if encrypted { "TCP and TLS" } else { "TCP, not encrypted" };
        Ok(Some(format!("{address} at {to}: {how} connected, no request was sent")))
    }

    /// The addresses of an endpoint, each checked.
    async fn addresses(&self, address: &Address) -> Result<Vec<IpAddr>, String> {
        let (host, _) = host_and_port(address);
        match host.parse() {
            // Checked when the address was read.
            Ok(literal) => Ok(vec![literal]),
            Err(_) => checked(&self.guard, &*self.lookup, host).await.map_err(|error| error.to_string()),
        }
    }
}

/// The host as a resolver and TLS want it: an IPv6 address without brackets.
fn host_and_port(address: &Address) -> (String, u16) {
    let host = address.url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (host, address.url.port_or_known_default().unwrap_or(443))
}

/// The first address that a connection can be made to, or why the last one could not.
fn connect(
    found: &[IpAddr],
    port: u16,
    tls: Option<(Arc<ClientConfig>, String)>,
) -> Result<SocketAddr, String> {
    let mut why = "its name does not resolve to an address".to_owned();
    for address in found {
        let to = SocketAddr::new(*address, port);
        let connected = TcpStream::connect_timeout(&to, CONNECT_MAX)
            .map_err(|error| format!("cannot connect: {error}"))
            .and_then(|stream| match &tls {
                None => Ok(()),
                Some((config, host)) => {
                    handshake(stream, config, host).map_err(|error| format!("TLS failed: {error}"))
                }
            });
        match connected {
            Ok(()) => return Ok(to),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn handshake(mut stream: TcpStream, config: &Arc<ClientConfig>, host: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(CONNECT_MAX))?;
    stream.set_write_timeout(Some(CONNECT_MAX))?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::other("no answer"),
            _ => error,
        })?;
    }
    connection.send_close_notify();
    // The handshake is what was asked for.
    let _ = connection.write_tls(&mut stream);
    Ok(())
}
