//! CloudEvents 1.0: one JSON object, or the payload with attributes in headers.
//!
//! Both modes have the same attributes; `docs/src/wire.md` lists them.

mod attributes;
mod binary;
mod source;
mod structured;

pub use binary::{Binding, CloudEventsBinary};
pub use source::Source;
pub use structured::CloudEvents;

/// The version of the specification.
const SPECVERSION: &str = "1.0";

#[cfg(test)]
mod tests;
