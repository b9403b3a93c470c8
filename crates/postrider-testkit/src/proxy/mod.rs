//! A proxy on loopback that makes the network fail in a chosen way at a chosen moment.
//!
//! ```text
//! client ── Proxy ── server
//! ```
//!
//! A fault applies to the connections that are open and to those that come. [`Proxy::set`] changes it at any
//! time; [`Proxy::cut`] resets what is open, whatever the fault.
//!
//! | fault | a network where |
//! |---|---|
//! | [`Fault::None`] | all is well |
//! | [`Fault::Refuse`] | new connections are refused; open ones stay open |
//! | [`Fault::Delay`] | everything comes late |
//! | [`Fault::Blackhole`] | connections are made, and nothing ever comes through |
//! | [`Fault::Unheard`] | what one side sends does not come through; the other side's does |
//! | [`Fault::LoseAnswer`] | the request comes through, and the connection breaks before the answer does |
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

/// A running proxy to one server at a time. Dropped, it resets its connections and listens no more.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    listening: JoinHandle<()>,
}

/// The state that the connections of a proxy share.
#[derive(Debug)]
struct Control {
    /// Where connections that come are led.
    server_port: AtomicU16,
    fault: watch::Sender<Fault>,
    /// Counts the cuts; a connection ends when the number is not the one it began with.
    cuts: watch::Sender<u64>,
    /// What has happened so far.
    seen: watch::Sender<Seen>,
}

/// What has passed through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Seen {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that a fault or a cut has ended.
    pub broken: u64,
    /// Bytes passed on from clients to the server.
    pub to_server: u64,
    /// Bytes passed on from the server to clients.
    pub to_client: u64,
    /// Bytes swallowed.
    pub swallowed: u64,
    /// Bytes of clients that a delay held back, whether they have passed by now or not.
    pub delayed: u64,
}

impl Proxy {
    /// Listens on a free port of loopback for a server at this port of it.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn to(server_port: u16) -> std::io::Result<Self> {
        let control = Arc::new(Control {
            server_port: AtomicU16::new(server_port),
            fault: watch::Sender::new(Fault::None),
            cuts: watch::Sender::new(0),
            seen: watch::Sender::new(Seen::default()),
        });
        let (address, listening) = listen::start(control.clone()).await?;
        Ok(Self { address, control, listening })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on the network is like this.
    pub fn set(&self, fault: Fault) {
        self.control.fault.send_replace(fault);
    }

    /// Leads the connections that come to another server, as after a failover. Those that are open stay.
    pub fn lead_to(&self, server_port: u16) {
        self.control.server_port.store(server_port, Ordering::Relaxed);
    }

    /// Resets every open connection, on both sides.
    pub fn cut(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// What has passed so far.
    pub fn seen(&self) -> Seen {
        *self.control.seen.borrow()
    }

    /// Waits until enough has been seen.
    pub async fn wait_for(&self, enough: impl FnMut(&Seen) -> bool) {
        // The sender lives as long as this proxy.
        _ = self.control.seen.subscribe().wait_for(enough).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}
