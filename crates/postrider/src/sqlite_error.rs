//! SQLite's result codes and ours. The one match for both drivers, rusqlite and sqlx.

use crate::Code;

/// What a result code, primary or extended, of a failed statement means.
pub(crate) fn code_of(result: i32) -> Code {
    // The low byte of an extended code is its primary code: https://sqlite.org/rescode.html
    match result & 0xff {
        5 | 6 => Code::StoreBusy,          // BUSY, LOCKED
        3 | 8 | 13 => Code::StoreReadOnly, // PERM, READONLY, FULL
        20 | 25 => Code::RowDamaged,       // MISMATCH, RANGE
        _ => Code::StoreFailed,
    }
}

/// What a failed COMMIT means: unless SQLite was merely busy, nobody knows whether it happened.
pub(crate) fn code_of_commit(result: i32) -> Code {
    match code_of(result) {
        Code::StoreBusy => Code::StoreBusy,
        _ => Code::OutcomeUnknown,
    }
}

/// Whether a failed statement missed one of Postrider's tables or columns. SQLite has no code for that.
pub(crate) fn is_schema_missing(message: &str) -> bool {
    ["no such table: postrider_", "no such table: main.postrider_", "table postrider_events has no column"]
        .iter()
        .any(|start| message.starts_with(start))
}
