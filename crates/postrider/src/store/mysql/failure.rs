//! Converts errors of mysql_async.

use mysql_async::{DriverError, Error as SqlError, IoError, ServerError};

use crate::mysql_error::{code_of, is_about_a_row};
use crate::{Code, Error};

/// The hint if the server has no free connection.
const NO_CONNECTION_FREE: &str = "the call is retried; a relay needs three connections and one per \
    subscription: raise max_connections or the user's MAX_USER_CONNECTIONS, or close other connections";

/// The error of a failed statement. The caller rolls back the transaction that was open on the connection.
#[doc(hidden)]
pub fn failed(error: SqlError) -> Error {
    match &error {
        SqlError::Server(answer) if is_about_a_row(answer.code, &answer.state) => {
            explained_as(Code::RowRefused, "the database returned an error", answer)
        }
        SqlError::Server(answer) => explained("the database returned an error", answer),
        SqlError::Driver(DriverError::ConnectionClosed) | SqlError::Io(_) => {
            Error::new(Code::StoreFailed, "the connection to the database was lost").with_source(error)
        }
        _ => Error::new(Code::StoreFailed, "the database's response is not readable").with_source(error),
    }
}

/// The error of a failed `COMMIT`, or of a failed statement outside a transaction.
///
/// After an error of the server, nothing was committed. Without an answer the outcome is unknown, and the code is
/// [`OutcomeUnknown`](Code::OutcomeUnknown).
#[doc(hidden)]
pub fn commit_failed(error: SqlError) -> Error {
    match &error {
        // The server closes the connection (shutdown, kill), before or after the commit.
        SqlError::Server(answer) if matches!(answer.code, 1053 | 1927 | 4031) => {
            explained_as(Code::OutcomeUnknown, "the database closed the connection during the commit", answer)
        }
        SqlError::Server(_) => failed(error),
        _ => Error::new(Code::OutcomeUnknown, "the database did not answer the commit").with_source(error),
    }
}

/// The error if no connection could be opened.
pub(super) fn connect_failed(error: SqlError) -> Error {
    match &error {
        SqlError::Server(answer) => explained("the database cannot be reached", answer),
        SqlError::Io(io) if is_tls(io) => {
            Error::new(Code::TlsFailed, "the database cannot be reached").with_source(error)
        }
        SqlError::Driver(DriverError::NoClientSslFlagFromServer) => {
            Error::new(Code::TlsFailed, "the server does not support TLS, but the connection must be encrypted")
        }
        // MySQL requests an arbitrary method from an unknown user, to hide that the user does not exist.
        SqlError::Driver(DriverError::UnknownAuthPlugin { .. }) => Error::new(
            Code::LoginRefused,
            "the database requires an authentication method that this program does not support",
        )
        .with_hint(
            "check the user name; configure the user with caching_sha2_password, or on MariaDB with a password",
        )
        .with_source(error),
        _ => Error::new(Code::StoreFailed, "the database cannot be reached").with_source(error),
    }
}

#[cfg(feature = "mysql-tls")]
fn is_tls(error: &IoError) -> bool {
    match error {
        IoError::Tls(_) => true,
        IoError::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
    }
}

#[cfg(not(feature = "mysql-tls"))]
fn is_tls(_: &IoError) -> bool {
    false
}

fn explained(what: &str, answer: &ServerError) -> Error {
    explained_as(code_of(answer.code), what, answer)
}

/// An error with the server's message.
fn explained_as(code: Code, what: &str, answer: &ServerError) -> Error {
    let error = Error::new(code, format!("{what}: {} (error {})", answer.message, answer.code));
    // Too many connections: on the server, or of this user.
    if matches!(answer.code, 1040 | 1203 | 1226) { error.with_hint(NO_CONNECTION_FREE) } else { error }
}
