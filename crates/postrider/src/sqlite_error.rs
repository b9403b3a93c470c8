//! Maps SQLite's result codes to Postrider's codes, for all drivers.

use crate::{Code, Error};

/// The code for a primary or extended result code of a failed statement.
pub(crate) fn code_of(result: i32) -> Code {
    // The low byte of an extended code is its primary code: https://sqlite.org/rescode.html
    match result & 0xff {
        5 | 6 => Code::StoreBusy,          // BUSY, LOCKED
        3 | 8 | 13 => Code::StoreReadOnly, // PERM, READONLY, FULL
        20 | 25 => Code::RowDamaged,       // MISMATCH, RANGE
        _ => Code::StoreFailed,
    }
}

/// Whether a statement failed because one of Postrider's tables or columns is missing. SQLite has no code for that.
pub(crate) fn is_schema_missing(message: &str) -> bool {
    ["no such table: postrider_", "no such table: main.postrider_", "table postrider_events has no column"]
        .iter()
        .any(|missing| message.contains(missing))
}

/// Whether this answer to a COMMIT means that nothing was committed: the file is locked or the disk is full, or a deferred
/// constraint failed. After an I/O error, the commit may have happened.
#[cfg(feature = "actions")]
#[allow(dead_code, reason = "which drivers use it depends on the features")]
pub(crate) fn is_rolled_back(result: i32) -> bool {
    matches!(result & 0xff, 5 | 6 | 13 | 19) // BUSY, LOCKED, FULL, CONSTRAINT
}

/// The error of a failed INSERT, with its result code if the driver provides one.
pub(crate) fn insert_failed(
    result: Option<i32>,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let code = match result {
        _ if is_schema_missing(&cause.to_string()) => Code::SchemaMissing,
        Some(result) => code_of(result),
        None => Code::StoreFailed,
    };
    Error::new(code, "the event could not be inserted").with_source(cause)
}
