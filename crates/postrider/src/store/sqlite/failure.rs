//! Converts errors of rusqlite, so that `?` works on both kinds of errors.

use crate::sqlite_error::{code_of, is_schema_missing};
use crate::{Code, Error};

/// The error of an operation. Callers outside this module get it as [`Error`].
#[derive(Debug)]
pub(super) struct SqliteFailure(Error);

/// The result of an operation on a connection.
pub(super) type Attempt<T> = std::result::Result<T, SqliteFailure>;

impl SqliteFailure {
    /// The error of a failed COMMIT. Unless SQLite was busy, the outcome is unknown.
    pub(super) fn of_commit(error: rusqlite::Error) -> Self {
        let code = match error.sqlite_error().map(|failure| code_of(failure.extended_code)) {
            Some(Code::StoreBusy) => Code::StoreBusy,
            _ => Code::OutcomeUnknown,
        };
        Self(Error::new(code, "the commit to the SQLite file failed").with_source(error))
    }

    /// Its code.
    pub(super) fn code(&self) -> Code {
        self.0.code()
    }
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(error: rusqlite::Error) -> Self {
        let code = match &error {
            rusqlite::Error::SqliteFailure(_, Some(message)) if is_schema_missing(message) => {
                Code::SchemaMissing
            }
            // TOOBIG, CONSTRAINT, MISMATCH: the row is refused, including by a trigger's RAISE.
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

impl From<Error> for SqliteFailure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<SqliteFailure> for Error {
    fn from(failure: SqliteFailure) -> Self {
        failure.0
    }
}
