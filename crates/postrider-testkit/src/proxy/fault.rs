//! What can be wrong with a network.

use std::time::Duration;

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who connected.
    Client,
    /// Who was connected to.
    Server,
}

/// What is wrong with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// New connections are reset as soon as they are made; open ones go on.
    Refuse,
    /// Whatever passes comes this much later.
    Delay(Duration),
    /// Connections are accepted, and everything on them is swallowed. The server is not connected to.
    Blackhole,
    /// What this side sends is swallowed; what the other sends passes.
    Unheard(Side),
    /// What the client sends passes; with the first bytes of the server's answer the connection is reset on
    /// both sides, and the client sees none of them.
    LoseAnswer,
    /// Each direction passes this many bytes per second.
    Slow {
        /// At least one.
        bytes_per_second: u32,
    },
    /// After this many more bytes from this side, the connection is reset on both sides.
    CutAfter(Side, u64),
}
