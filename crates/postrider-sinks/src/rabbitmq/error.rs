//! Maps errors of AMQP to outcomes of messages.

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};

/// The meaning of an error for a message without a confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The exchange does not exist. The server closed the channel.
    ExchangeMissing,
    /// This user may not write to the exchange, or not with this routing key. The server closed the channel.
    NotAllowed,
    /// A message is larger than the server allows, in bytes. The server closed the channel.
    TooLarge(usize),
    /// The server refused something else of a message, and closed the channel.
    Refused,
    /// The connection is lost, or the server shuts down.
    Down,
    /// The server closed the connection because of what it received.
    Unknown,
}

pub(super) fn meaning(error: &Error) -> Meaning {
    let ErrorKind::ProtocolError(said) = error.kind() else { return Meaning::Down };
    match said.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => Meaning::ExchangeMissing,
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Meaning::NotAllowed,
        AMQPErrorKind::Soft(_) => match size_limit(said.get_message().as_str()) {
            Some(limit) => Meaning::TooLarge(limit),
            None => Meaning::Refused,
        },
        AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED | AMQPHardError::INTERNALERROR) => Meaning::Down,
        AMQPErrorKind::Hard(_) => Meaning::Unknown,
    }
}

/// The limit in `message size 30000 is larger than configured max size 20000`, with either wording of the servers.
fn size_limit(text: &str) -> Option<usize> {
    if !text.contains("message size") {
        return None;
    }
    text.rsplit(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok()
}

/// What the error says: the server's words without the wrapping, at most one line.
pub(super) fn text(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(said) => said.get_message().to_string(),
        ErrorKind::IOError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    fn closed(kind: impl Into<AMQPErrorKind>, text: &str) -> Error {
        ErrorKind::ProtocolError(AMQPError::new(kind.into(), text.into())).into()
    }

    #[test]
    fn a_missing_exchange_a_refused_message_and_an_outage_have_different_meanings() {
        let large = "PRECONDITION_FAILED - message size 30000 is larger than configured max size 20000";
        for (error, expected) in [
            (closed(AMQPSoftError::NOTFOUND, "no exchange 'x' in vhost '/'"), Meaning::ExchangeMissing),
            (closed(AMQPSoftError::ACCESSREFUSED, "write access"), Meaning::NotAllowed),
            (closed(AMQPSoftError::PRECONDITIONFAILED, large), Meaning::TooLarge(20_000)),
            (closed(AMQPSoftError::PRECONDITIONFAILED, "invalid expiration"), Meaning::Refused),
            (closed(AMQPHardError::CONNECTIONFORCED, "broker forced connection closure"), Meaning::Down),
            (closed(AMQPHardError::FRAMEERROR, "type 2"), Meaning::Unknown),
            (ErrorKind::MissingHeartbeatError.into(), Meaning::Down),
            (std::io::Error::from(std::io::ErrorKind::ConnectionReset).into(), Meaning::Down),
        ] {
            assert_eq!(meaning(&error), expected, "{error}");
        }
    }
}
