//! Converts errors of tokio-postgres.

use tokio_postgres::Error as SqlError;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::postgres_error::{code_of, is_about_a_row};
use crate::{Code, Error};

/// The hint if the server has no free connection.
const NO_CONNECTION_FREE: &str = "the call is retried; a relay needs three connections and one per \
    subscription, and one more while it creates a subscription: raise max_connections or the role's CONNECTION \
    LIMIT, or close other connections";

/// The error of a failed statement. The transaction that was open on the connection is rolled back.
#[doc(hidden)]
pub fn failed(error: SqlError) -> Error {
    let code = match error.code().map(SqlState::code) {
        Some(state) if is_about_a_row(state) => Code::RowRefused,
        Some(state) => code_of(state),
        None => Code::StoreFailed,
    };
    let what = if error.is_closed() {
        "the connection to PostgreSQL was lost"
    } else {
        "PostgreSQL returned an error"
    };
    let is_nameless = matches!(error.code().map(SqlState::code), Some("26000" | "42P05"));
    let error = explained(code, what, error);
    if is_nameless {
        error.with_hint(
            "the connection goes through a pooler in transaction mode: set the pooler to `Transaction`",
        )
    } else {
        error
    }
}

/// The error of a failed `COMMIT`, or of a failed statement outside a transaction.
///
/// After an `ERROR` of the server, nothing was committed. Without an answer the outcome is unknown, and the code is
/// [`OutcomeUnknown`](Code::OutcomeUnknown). The same holds for `FATAL` and `PANIC`: the connection ended before or
/// after the commit. A pooler sends `FATAL` if it has lost its server.
#[doc(hidden)]
pub fn commit_failed(error: SqlError) -> Error {
    match error.as_db_error() {
        Some(answer) if is_refusal(answer) => failed(error),
        Some(_) => {
            explained(Code::OutcomeUnknown, "PostgreSQL closed the connection during the commit", error)
        }
        None => explained(Code::OutcomeUnknown, "PostgreSQL did not answer the commit", error),
    }
}

/// Whether the server rolled back and keeps the connection. Poolers omit the severity that is not localized.
fn is_refusal(answer: &DbError) -> bool {
    match answer.parsed_severity() {
        Some(severity) => severity == Severity::Error,
        None => answer.severity() == "ERROR",
    }
}

/// The error if no connection could be opened.
pub(super) fn connect_failed(error: SqlError) -> Error {
    let code = match error.code() {
        Some(state) => code_of(state.code()),
        None => code_without_answer(&error),
    };
    explained(code, "PostgreSQL cannot be reached", error)
}

/// The driver distinguishes kinds of errors only by their texts; the tests of TLS and login detect if these change.
fn code_without_answer(error: &SqlError) -> Code {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    match (error.to_string().as_str(), cause.map(std::io::Error::kind)) {
        // A TLS error of either side appears as invalid data of the stream.
        (_, Some(std::io::ErrorKind::InvalidData)) => Code::TlsFailed,
        ("error performing TLS handshake", None) => Code::TlsFailed,
        // No password is configured, or the authentication failed.
        ("invalid configuration" | "authentication error", _) => Code::LoginRefused,
        _ => Code::StoreFailed,
    }
}

/// An error with the server's message if there is one, else with the driver's error as its source.
fn explained(code: Code, what: &str, error: SqlError) -> Error {
    let is_full = error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
    let explained = match error.as_db_error() {
        Some(answer) => {
            Error::new(code, format!("{what}: {} (SQLSTATE {})", answer.message(), answer.code().code()))
        }
        None => Error::new(code, what).with_source(error),
    };
    if is_full { explained.with_hint(NO_CONNECTION_FREE) } else { explained }
}
