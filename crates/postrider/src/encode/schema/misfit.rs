//! Why a payload does not fit its schema: where, what the schema wants, and what was found. Contains no value of the payload.

use std::fmt;

/// A part of a payload that does not fit. The path is built while the error returns from the writers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// From the innermost step to the outermost.
    steps: Vec<String>,
    wanted: String,
    found: String,
}

/// The longest name in a path. Names of maps come from the payload.
const STEP_CHARS_MAX: usize = 60;

impl Misfit {
    pub(super) fn new(wanted: impl Into<String>, found: impl Into<String>) -> Box<Self> {
        Box::new(Self { steps: Vec::new(), wanted: wanted.into(), found: found.into() })
    }

    /// The same, within a field or an entry of a map.
    pub(super) fn in_field(mut self: Box<Self>, name: &str) -> Box<Self> {
        let shown: String = name.chars().take(STEP_CHARS_MAX).flat_map(char::escape_debug).collect();
        self.steps.push(format!(".{shown}"));
        self
    }

    /// The same, within an item of an array.
    pub(super) fn in_item(mut self: Box<Self>, number: usize) -> Box<Self> {
        self.steps.push(format!("[{number}]"));
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("payload")?;
        self.steps.iter().rev().try_for_each(|step| f.write_str(step))?;
        write!(f, ": wanted {}, found {}", self.wanted, self.found)
    }
}
