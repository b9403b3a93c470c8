//! Where a value came from.

use std::fmt;

/// The layer a value came from, in rising order: a later one replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Not given.
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

impl Origin {
    /// Whether the layer is lower than that of another.
    pub fn is_below(&self, other: &Self) -> bool {
        self.layer() < other.layer()
    }

    fn layer(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Env(_) => 2,
            Self::Flag => 3,
        }
    }
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
