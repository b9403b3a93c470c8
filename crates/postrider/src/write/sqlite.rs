//! Events as INSERTs of SQLite.

use std::sync::LazyLock;

use super::columns::{EVENT_COLUMNS, names};

/// The INSERT of one event, with the values of an event in their order. Uses no index; the position is the
/// database's to give.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| statement(1));

/// The INSERT of so many events. There is one writer at a time, so their positions are neighbours.
pub(super) fn statement(rows: usize) -> String {
    let row = format!("({})", vec!["?"; EVENT_COLUMNS.len()].join(", "));
    format!("INSERT INTO postrider_events ({}) VALUES {}", names(""), vec![row; rows].join(", "))
}
