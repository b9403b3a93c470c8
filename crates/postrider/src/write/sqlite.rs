//! INSERTs for SQLite.

use super::columns::{EVENT_COLUMNS, names};

/// The INSERT of one event. The database assigns the position. Uses no index.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
pub(super) static INSERT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| statement(1));

/// The INSERT of this number of events. There is one writer at a time, so their positions are consecutive.
pub(super) fn statement(rows: usize) -> String {
    let row = format!("({})", vec!["?"; EVENT_COLUMNS.len()].join(", "));
    format!("INSERT INTO postrider_events ({}) VALUES {}", names(""), vec![row; rows].join(", "))
}
