//! Maps PostgreSQL's SQLSTATEs to Postrider's codes, for all drivers.

use crate::{Code, Error};

/// The code for the SQLSTATE of a failed statement. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub(crate) fn code_of(sqlstate: &str) -> Code {
    match sqlstate {
        // Serialization failure, deadlock, lock timeout, statement timeout or cancel: nothing happened.
        "40001" | "40P01" | "55P03" | "57014" => Code::StoreBusy,
        // Read-only transaction, disk full.
        "25006" | "53100" => Code::StoreReadOnly,
        // Undefined table, column or function, invalid schema name.
        "42P01" | "42703" | "42883" | "3F000" => Code::SchemaMissing,
        "42501" => Code::PrivilegeMissing,
        // Data corrupted.
        "XX001" => Code::RowDamaged,
        // Invalid authorization, wrong password, no such database.
        "28000" | "28P01" | "3D000" => Code::LoginRefused,
        _ => Code::StoreFailed,
    }
}

/// Whether the server refuses the new values of a row and not the statement itself: a value that does not fit, a
/// violated constraint, or an exception of a trigger with any code.
#[cfg(feature = "postgres")]
pub(crate) fn is_about_a_row(sqlstate: &str) -> bool {
    let class = sqlstate.get(..2).unwrap_or_default();
    let other_classes = [
        "00", "01", "02", "03", "08", "0A", "24", "25", "26", "28", "34", "3D", "3F", "40", "42", "53", "57",
        "58", "F0", "HV", "XX",
    ];
    !other_classes.contains(&class) && !matches!(sqlstate, "55P03" | "55006")
}

/// Whether this answer to a COMMIT means that the transaction was rolled back. Constraint, serialization failure and failed
/// transaction are conclusive; after a shutdown or an internal error, the commit may have happened.
#[cfg(feature = "actions")]
#[allow(dead_code, reason = "which drivers use it depends on the features")]
pub(crate) fn is_rolled_back(sqlstate: &str) -> bool {
    // 40003: the server does not know.
    ["23", "25", "40"].contains(&sqlstate.get(..2).unwrap_or_default()) && sqlstate != "40003"
}

/// After a failed statement the server accepts no other in that transaction.
const ROLLED_BACK: &str = "nothing was written; the transaction can only be rolled back";

/// The error of a failed INSERT, with its SQLSTATE if the server answered.
pub(crate) fn insert_failed(
    sqlstate: Option<&str>,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let code = sqlstate.map_or(Code::StoreFailed, code_of);
    let error = Error::new(code, "the event could not be inserted").with_source(cause);
    match code {
        Code::StoreBusy => error.with_effect(ROLLED_BACK).with_hint("retry the whole transaction"),
        Code::StoreFailed => error.with_effect(ROLLED_BACK),
        _ => error,
    }
}

#[cfg(all(test, feature = "actions"))]
mod tests {
    use super::*;

    #[test]
    fn a_commit_whose_outcome_the_server_does_not_know_is_not_rolled_back() {
        for sqlstate in ["23505", "25P02", "40001", "40P01"] {
            assert!(is_rolled_back(sqlstate), "{sqlstate}");
        }
        for sqlstate in ["40003", "08006", "57P01", "XX000", ""] {
            assert!(!is_rolled_back(sqlstate), "{sqlstate}");
        }
    }
}
