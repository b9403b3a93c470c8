//! The faults of a network.

use std::time::Duration;

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that opened the connection.
    Client,
    /// The side that accepted it.
    Server,
}

/// A fault of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// New connections are reset immediately; open ones continue.
    Refuse,
    /// All data arrives this much later.
    Delay(Duration),
    /// Connections are accepted, and all data is dropped. No connection to the server is opened.
    Blackhole,
    /// Data of this side is dropped; data of the other side passes.
    DropFrom(Side),
    /// Data of the client passes. With the first bytes of the server's response, the connection is reset on both sides;
    /// the client receives none of them.
    LoseResponse,
    /// Each direction passes this many bytes per second.
    Slow {
        /// At least one.
        bytes_per_second: u32,
    },
    /// After this many more bytes from this side, the connection is reset on both sides.
    CutAfter(Side, u64),
}
