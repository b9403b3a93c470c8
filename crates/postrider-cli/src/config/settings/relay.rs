//! `[relay]`

use super::ConfigTable;
use crate::config::problem::Problem;

/// The process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySettings {
    /// Its name among those that share its subscriptions; random if `None`.
    pub name: Option<String>,
    /// The least important level that is logged.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
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
