//! Maps errors of JetStream to outcomes of messages.

use std::error::Error as _;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Error as JetStreamError, ErrorCode};

/// The meaning of an error for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The message is invalid; a retry cannot succeed.
    Refused,
    /// Nothing listens to the subject: the stream does not exist or does not have it, or JetStream is not available.
    NoResponder,
    /// The stream does not take the message; an operator can fix this.
    NotAllowedYet,
    /// The stream is full.
    Full,
    /// JetStream is not available. The message was not stored.
    Unavailable,
    /// The message may or may not have been stored.
    Unknown,
}

pub(super) fn meaning(error: &PublishError) -> Meaning {
    match error.kind() {
        PublishErrorKind::StreamNotFound => Meaning::NoResponder,
        PublishErrorKind::MaxPayloadExceeded => Meaning::Refused,
        PublishErrorKind::MaxAckPending => Meaning::Unavailable,
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => Meaning::Unknown,
        _ => code(error).map_or(Meaning::NotAllowedYet, meaning_of_code),
    }
}

/// The server's code, if it answered with an error.
fn code(error: &PublishError) -> Option<ErrorCode> {
    error.source()?.downcast_ref::<JetStreamError>().map(JetStreamError::error_code)
}

fn meaning_of_code(code: ErrorCode) -> Meaning {
    match code {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Meaning::Refused
        }
        ErrorCode::STREAM_STORE_FAILED => Meaning::Full,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::CLUSTER_INCOMPLETE
        | ErrorCode::CLUSTER_NO_PEERS
        | ErrorCode::CLUSTER_NOT_ACTIVE
        | ErrorCode::CLUSTER_NOT_ASSIGNED
        | ErrorCode::CLUSTER_NOT_AVAILABLE
        | ErrorCode::CLUSTER_NOT_LEADER
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::JETSTREAM_NOT_ENABLED
        | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::STREAM_OFFLINE => Meaning::Unavailable,
        _ => Meaning::NotAllowedYet,
    }
}

/// What the error says, with the server's words if there are any.
pub(super) fn text(error: &PublishError) -> String {
    match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u64) -> PublishError {
        let body = format!(r#"{{"code": 400, "err_code": {code}, "description": "no"}}"#);
        let error: JetStreamError = serde_json::from_str(&body).unwrap();
        PublishError::with_source(PublishErrorKind::Other, error)
    }

    #[test]
    fn a_missing_stream_a_full_one_a_bad_message_and_an_outage_have_different_meanings() {
        for (error, expected) in [
            (PublishError::new(PublishErrorKind::StreamNotFound), Meaning::NoResponder),
            (PublishError::new(PublishErrorKind::TimedOut), Meaning::Unknown),
            (PublishError::new(PublishErrorKind::BrokenPipe), Meaning::Unknown),
            (PublishError::new(PublishErrorKind::MaxPayloadExceeded), Meaning::Refused),
            (answered(10_054), Meaning::Refused),
            (answered(10_060), Meaning::NotAllowedYet),
            (answered(10_077), Meaning::Full),
            (answered(10_008), Meaning::Unavailable),
            (answered(10_109), Meaning::NotAllowedYet),
        ] {
            assert_eq!(meaning(&error), expected, "{error}");
        }
    }
}
