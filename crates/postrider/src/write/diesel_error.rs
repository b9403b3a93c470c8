//! What can be told from a diesel error, which keeps the server's words and not its code.

use diesel::result::{DatabaseErrorKind, Error};

/// Whether a table, its database or its schema is not there. A server that speaks another language is not understood.
pub(super) fn is_schema_missing(error: &Error) -> bool {
    let Error::DatabaseError(_, said) = error else { return false };
    let words = ["does not exist", "doesn't exist", "Unknown database", "Unknown column"];
    words.iter().any(|words| said.message().contains(words))
}

/// Whether the transaction or the server only reads.
pub(super) fn is_read_only(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))
}
