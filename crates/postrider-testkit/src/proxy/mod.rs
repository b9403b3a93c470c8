//! A proxy on loopback that injects network faults.
//!
//! ```text
//! client ── Proxy ── server
//! ```
//!
//! A fault applies to open and to new connections. [`Proxy::set`] changes it at any time; [`Proxy::cut`] resets all
//! open connections.
//!
//! | fault | effect |
//! |---|---|
//! | [`Fault::None`] | none |
//! | [`Fault::Refuse`] | new connections are refused; open ones stay open |
//! | [`Fault::Delay`] | all data arrives later |
//! | [`Fault::Blackhole`] | connections are accepted, and all data is dropped |
//! | [`Fault::DropFrom`] | data of one side is dropped; data of the other side passes |
//! | [`Fault::LoseResponse`] | the request arrives, and the connection breaks before the response does |
//! | [`Fault::Slow`] | only this many bytes per second pass |
//! | [`Fault::CutAfter`] | the connection breaks after this many bytes |

mod connection;
mod fault;
mod listen;
#[cfg(test)]
mod tests;

pub use fault::{Fault, Side};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running proxy to one server at a time. When it is dropped, it resets its connections and stops listening.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    listening: JoinHandle<()>,
}

/// The state that the connections of a proxy share.
#[derive(Debug)]
struct Control {
    /// The server for new connections.
    server_port: AtomicU16,
    fault: watch::Sender<Fault>,
    /// The number of cuts. A connection ends when the number changes.
    cuts: watch::Sender<u64>,
    /// Statistics so far.
    stats: watch::Sender<ProxyStats>,
}

/// Statistics of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProxyStats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that were ended by a fault or a cut.
    pub broken: u64,
    /// Bytes forwarded from clients to the server.
    pub to_server: u64,
    /// Bytes forwarded from the server to clients.
    pub to_client: u64,
    /// Bytes dropped.
    pub dropped: u64,
    /// Bytes of clients that were delayed, whether they were forwarded since or not.
    pub delayed: u64,
}

impl Proxy {
    /// Listens on a free loopback port, and forwards to a server at this loopback port.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn to(server_port: u16) -> std::io::Result<Self> {
        let control = Arc::new(Control {
            server_port: AtomicU16::new(server_port),
            fault: watch::Sender::new(Fault::None),
            cuts: watch::Sender::new(0),
            stats: watch::Sender::new(ProxyStats::default()),
        });
        let (address, listening) = listen::start(control.clone()).await?;
        Ok(Self { address, control, listening })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the fault.
    pub fn set(&self, fault: Fault) {
        self.control.fault.send_replace(fault);
    }

    /// Forwards new connections to another server, as after a failover. Open connections stay.
    pub fn redirect_to(&self, server_port: u16) {
        self.control.server_port.store(server_port, Ordering::Relaxed);
    }

    /// Resets every open connection, on both sides.
    pub fn cut(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Applies a fault until it has broken a connection. [`Fault::None`] cuts all open connections.
    ///
    /// # Panics
    /// If no connection breaks.
    pub async fn break_connections(&self, fault: Fault) {
        let broken = self.stats().broken;
        self.set(fault);
        if fault == Fault::None {
            self.cut();
        }
        crate::eventually("a connection breaks", async || self.stats().broken > broken).await;
        self.set(Fault::None);
    }

    /// The statistics so far.
    pub fn stats(&self) -> ProxyStats {
        *self.control.stats.borrow()
    }

    /// Waits until the statistics fulfil a condition.
    pub async fn wait_for(&self, enough: impl FnMut(&ProxyStats) -> bool) {
        // The sender lives as long as this proxy.
        _ = self.control.stats.subscribe().wait_for(enough).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}
