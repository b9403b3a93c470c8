//! Checks whether an endpoint is reachable without sending a request, because the endpoint would take a request for an
//! event.

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
    /// Connects to the fixed URL as a request would, and closes the connection: resolves the name, checks each of its
    /// addresses, then opens TCP and, for `https`, TLS with verification of the server's certificate. Returns a
    /// description of the connection, or `None` if there is no fixed URL. Sends no request, so neither the token nor
    /// the path leaves this host.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] with the step that failed.
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

/// The host as a resolver and TLS expect it: an IPv6 address without brackets.
fn host_and_port(address: &Address) -> (String, u16) {
    let host = address.url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (host, address.url.port_or_known_default().unwrap_or(443))
}

/// The first address that accepts a connection, or why the last one did not.
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
    // The check ends with the handshake; a failed close does not matter.
    let _ = connection.write_tls(&mut stream);
    Ok(())
}
