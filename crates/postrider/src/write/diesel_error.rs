//! Classifies errors of diesel, which contain the server's message but not its code.

use diesel::result::{DatabaseErrorKind, Error};

/// Whether a table, its database or its schema does not exist. Only English messages are recognised.
pub(super) fn is_schema_missing(error: &Error) -> bool {
    let Error::DatabaseError(_, answer) = error else { return false };
    let words = ["does not exist", "doesn't exist", "Unknown database", "Unknown column"];
    words.iter().any(|words| answer.message().contains(words))
}

/// Whether the transaction or the server is read-only.
pub(super) fn is_read_only(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))
}

/// Whether the server ended the statement because of a deadlock, or because a lock was not released in time. Only English
/// messages are recognised.
pub(super) fn is_deadlock(error: &Error) -> bool {
    let Error::DatabaseError(_, answer) = error else { return false };
    let words = ["deadlock detected", "Deadlock found", "Lock wait timeout"];
    words.iter().any(|words| answer.message().contains(words))
}

/// Whether the server answered a COMMIT with a conflict or a violated constraint: the transaction was rolled back.
#[cfg(feature = "actions")]
pub(crate) fn is_rolled_back(error: &Error) -> bool {
    let Error::DatabaseError(kind, _) = error else { return false };
    // Other kinds also stand for a lost connection: diesel-async reports one as UnableToSendCommand.
    matches!(
        kind,
        DatabaseErrorKind::UniqueViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation
            | DatabaseErrorKind::RestrictViolation
            | DatabaseErrorKind::ExclusionViolation
            | DatabaseErrorKind::SerializationFailure
    ) || is_deadlock(error)
}

#[cfg(all(test, feature = "actions"))]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_not_taken_for_a_refused_commit() {
        let failed = |kind| Error::DatabaseError(kind, Box::new("message".to_owned()));
        for kind in [
            DatabaseErrorKind::UnableToSendCommand,
            DatabaseErrorKind::ClosedConnection,
            DatabaseErrorKind::Unknown,
        ] {
            assert!(!is_rolled_back(&failed(kind)));
        }
        for kind in [DatabaseErrorKind::UniqueViolation, DatabaseErrorKind::SerializationFailure] {
            assert!(is_rolled_back(&failed(kind)));
        }
    }
}
