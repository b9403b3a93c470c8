//! From rusqlite's errors to ours, so that `?` works on both inside a verb.

use crate::sqlite_error::{code_of, is_schema_missing};
use crate::{Code, Error};

/// Why a verb failed. Leaves this module only as [`Error`].
#[derive(Debug)]
pub(super) struct Failure(Error);

/// Result of what runs on a connection.
pub(super) type Attempt<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A COMMIT failed: unless SQLite was merely busy, it is unknown whether it happened.
    pub(super) fn of_commit(error: rusqlite::Error) -> Self {
        let code = match error.sqlite_error().map(|failure| code_of(failure.extended_code)) {
            Some(Code::StoreBusy) => Code::StoreBusy,
            _ => Code::OutcomeUnknown,
        };
        Self(Error::new(code, "the commit to the SQLite file failed").with_source(error))
    }

    /// The code it will be known by.
    pub(super) fn code(&self) -> Code {
        self.0.code()
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let code = match &error {
            rusqlite::Error::SqliteFailure(_, Some(message)) if is_schema_missing(message) => {
                Code::SchemaMissing
            }
            // TOOBIG, CONSTRAINT, MISMATCH: what the statement makes of a row, a trigger's RAISE included.
            rusqlite::Error::SqliteFailure(failure, _) if matches!(failure.extended_code & 0xff, 18..=20) => {
                Code::RowRefused
            }
            rusqlite::Error::SqliteFailure(failure, _) => code_of(failure.extended_code),
            rusqlite::Error::SqlInputError { msg, .. } if is_schema_missing(msg) => Code::SchemaMissing,
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => Code::RowDamaged,
            _ => Code::StoreFailed,
        };
        Self(Error::new(code, "SQLite returned an error").with_source(error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}
