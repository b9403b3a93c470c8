//! The origin of a value.

use std::fmt;

/// The layer of a value, in increasing priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Not set.
    Default,
    /// The file.
    File {
        /// Its path, as the user wrote it.
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
    /// Whether the layer has a lower priority than that of another origin.
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
