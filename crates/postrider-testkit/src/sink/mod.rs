//! A destination that follows a script.
//!
//! [`Destination`] is the synchronous model: which messages are visible at the destination, and why others were not
//! accepted. The simulator calls it directly; [`ScriptedSink`] implements the relay's `Sink` with it.

mod destination;
mod script;
mod scripted;

pub use destination::{BatchState, Destination, Offer, Offered, Write};
pub use script::{Outage, Poison, Response, Script};
pub use scripted::ScriptedSink;
