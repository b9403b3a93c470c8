//! Where a value came from.

use std::fmt;

/// The layer a value came from, in rising order: a later one replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody gave it.
    Default,
    /// The file.
    File {
        /// Its path, as it was given.
        path: String,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
    },
    /// A variable of this name.
    Env(String),
    /// `--set`
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag => f.write_str("flag --set"),
        }
    }
}
