//! From tokio-postgres's errors to ours.

use tokio_postgres::Error as SqlError;
use tokio_postgres::error::SqlState;

use crate::postgres_error::code_of;
use crate::{Code, Error};

/// What to do when the server has no connection to give.
const NO_CONNECTION_FREE: &str = "it is tried again; a relay needs two connections and one per subscription: raise \
    max_connections or the role's CONNECTION LIMIT, or end connections of others";

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
    explained(code, what, error)
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
    let is_full = error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
    let explained = Error::new(code, what).source(error);
    if is_full { explained.hint(NO_CONNECTION_FREE) } else { explained }
}
