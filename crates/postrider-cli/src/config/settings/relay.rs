//! `[relay]`

use super::ConfigTable;
use crate::config::problem::Problem;

/// The process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySettings {
    /// The name of the relay; random if `None`.
    pub name: Option<String>,
    /// The log level.
    pub log: String,
    /// The format of the log.
    pub log_format: LogFormat,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

impl RelaySettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        Ok(Self {
            name: table.text("name")?,
            log: table.required("log", table.text("log")?)?,
            log_format: table
                .choice("log_format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])?,
        })
    }
}
