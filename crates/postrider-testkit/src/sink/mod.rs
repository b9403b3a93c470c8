//! A destination that does what its script says.
//!
//! [`Destination`] is the synchronous model: what is visible at the destination, and why a message was
//! not taken. The simulator talks to it directly; [`ScriptedSink`] puts it behind the relay's `Sink`.

mod destination;
mod script;
mod scripted;

pub use destination::{Destination, Offer, Passage, Taken, Write};
pub use script::{Fate, Outage, Poison, Script};
pub use scripted::ScriptedSink;
