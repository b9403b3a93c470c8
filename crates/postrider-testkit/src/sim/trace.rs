//! One line per event, for developers who replay a seed.

use std::fmt::Write as _;
use std::time::Duration;

/// The lines of a history, if the trace is on.
#[derive(Debug, Default)]
pub struct Trace(Option<String>);

impl Trace {
    /// A trace that keeps every line.
    pub fn on() -> Self {
        Self(Some(String::new()))
    }

    /// A trace that keeps nothing.
    pub fn off() -> Self {
        Self(None)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn line(&mut self, now: Duration, line: &str) {
        if let Some(text) = &mut self.0 {
            // Writing to a string cannot fail.
            _ = writeln!(text, "{:>12.6} {line}", now.as_secs_f64());
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.0.unwrap_or_default()
    }
}
