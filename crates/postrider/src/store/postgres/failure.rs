//! From tokio-postgres's errors to ours.

use tokio_postgres::Error as SqlError;
use tokio_postgres::error::SqlState;

use crate::postgres_error::code_of;
use crate::{Code, Error};

/// A statement failed. Whatever was open on the connection is rolled back.
pub(super) fn failed(error: SqlError) -> Error {
    let code = match error.code() {
        Some(state) => code_of(state.code()),
        None => Code::StoreFailed,
    };
    let what = if error.is_closed() {
        "the connection to PostgreSQL is gone"
    } else {
        "PostgreSQL answered with an error"
    };
    let is_nameless = matches!(error.code().map(SqlState::code), Some("26000" | "42P05"));
    let error = explained(code, what, error);
    if is_nameless {
        error.hint("a pooler shares the connection: set the pooler to `Transaction`")
    } else {
        error
    }
}

/// A statement that commits failed: without an answer of the server, nobody knows whether it happened.
pub(super) fn commit_failed(error: SqlError) -> Error {
    match error.code() {
        Some(_) => failed(error),
        None => explained(Code::OutcomeUnknown, "the commit to PostgreSQL was not answered", error),
    }
}

/// No connection could be made.
pub(super) fn connect_failed(error: SqlError) -> Error {
    let code = match error.code() {
        Some(state) => code_of(state.code()),
        None => Code::StoreFailed,
    };
    explained(code, "PostgreSQL cannot be reached", error)
}

/// The driver prints `db error` and keeps the server's sentence as its source; people want the sentence.
fn explained(code: Code, what: &str, error: SqlError) -> Error {
    let what = match error.as_db_error() {
        Some(answer) => format!("{what}: {} (SQLSTATE {})", answer.message(), answer.code().code()),
        None => what.to_owned(),
    };
    Error::new(code, what).source(error)
}
