//! Maps Kafka error codes to outcomes of messages.

use postrider::sink::{Failure, Outcome, Receipt};
use postrider::{Code, Error};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as ErrorCode};

/// The meaning of an error code for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The message is invalid; a retry cannot succeed.
    Refused,
    /// The topic does not exist or must not be written to. An operator can fix this; it is not an outage.
    NotAllowedYet,
    /// All records of a request were refused because of one of them: each must be tried separately.
    RefusedTogether,
    /// The message did not leave this process.
    NotSent,
    /// The message may or may not have been written; the cluster may be down.
    Unknown,
    /// A newer producer has taken over.
    Fenced,
}

pub(super) fn meaning(code: ErrorCode) -> Meaning {
    match code {
        ErrorCode::InvalidTimestamp
        | ErrorCode::PolicyViolation
        | ErrorCode::UnsupportedForMessageFormat
        | ErrorCode::InvalidTopic
        | ErrorCode::InvalidRequiredAcks
        | ErrorCode::KeySerialization
        | ErrorCode::ValueSerialization
        | ErrorCode::InvalidArgument => Meaning::Refused,
        // The broker refuses the whole batch, even if only one record is too large.
        ErrorCode::MessageSizeTooLarge
        | ErrorCode::InvalidMessageSize
        | ErrorCode::MessageBatchTooLarge
        | ErrorCode::InvalidRecord
        | ErrorCode::InvalidDifferentRecord => Meaning::RefusedTogether,
        ErrorCode::UnknownTopic
        | ErrorCode::UnknownPartition
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::TopicAuthorizationFailed => Meaning::NotAllowedYet,
        ErrorCode::QueueFull | ErrorCode::PurgeQueue | ErrorCode::Fatal => Meaning::NotSent,
        ErrorCode::Fenced | ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => Meaning::Fenced,
        _ => Meaning::Unknown,
    }
}

/// The error about a topic, in words.
pub(super) fn described(topic: &str, code: ErrorCode) -> String {
    match code {
        ErrorCode::UnknownTopic | ErrorCode::UnknownPartition | ErrorCode::UnknownTopicOrPartition => {
            format!("topic {topic:?} does not exist; create it, or add it to `create_topics` of the sink")
        }
        ErrorCode::TopicAuthorizationFailed => {
            format!("topic {topic:?}: authorization failed: this user may not write to it")
        }
        code => format!("topic {topic:?}: {code}"),
    }
}

/// The outcome of a message with this error code. For `Unknown` the caller also checks the state of the topic.
pub(super) fn outcome(topic: &str, code: ErrorCode) -> Outcome {
    let failure = Failure::new(described(topic, code));
    match meaning(code) {
        Meaning::Refused | Meaning::RefusedTogether => Outcome::Rejected(failure),
        Meaning::NotAllowedYet => Outcome::Failed(failure),
        Meaning::NotSent => Outcome::Retryable(failure),
        Meaning::Unknown => Outcome::Ambiguous(failure),
        Meaning::Fenced => Outcome::Fenced,
    }
}

/// Whether the code means that a message or a batch is too large.
pub(super) fn is_size(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MessageSizeTooLarge | ErrorCode::MessageBatchTooLarge | ErrorCode::InvalidMessageSize
    )
}

pub(super) fn acknowledged(partition: i32, offset: i64) -> Outcome {
    Outcome::Acknowledged(Receipt::new(format!("partition {partition} offset {offset}")))
}

/// The error if a client or a topic cannot be created.
pub(super) fn not_opened(brokers: &str, error: &KafkaError) -> Error {
    let what = match error {
        // The message of librdkafka without the value, which may be a secret.
        KafkaError::ClientConfig(_, why, name, _) => format!("kafka {brokers}: {name}: {why}"),
        error => format!("kafka {brokers}: {error}"),
    };
    Error::new(Code::SinkOpen, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_missing_is_named() {
        for code in [ErrorCode::UnknownTopic, ErrorCode::UnknownTopicOrPartition] {
            let Outcome::Failed(failure) = outcome("orders", code) else { panic!() };
            assert!(failure.message.starts_with("topic \"orders\" does not exist"), "{}", failure.message);
        }
    }

    #[test]
    fn a_bad_message_a_missing_topic_and_an_outage_have_different_meanings() {
        for (code, expected) in [
            (ErrorCode::MessageSizeTooLarge, Meaning::RefusedTogether),
            (ErrorCode::InvalidTimestamp, Meaning::Refused),
            (ErrorCode::UnknownTopic, Meaning::NotAllowedYet),
            (ErrorCode::UnknownTopicOrPartition, Meaning::NotAllowedYet),
            (ErrorCode::TopicAuthorizationFailed, Meaning::NotAllowedYet),
            (ErrorCode::MessageTimedOut, Meaning::Unknown),
            (ErrorCode::BrokerTransportFailure, Meaning::Unknown),
            (ErrorCode::NotEnoughReplicasAfterAppend, Meaning::Unknown),
            (ErrorCode::NotLeaderForPartition, Meaning::Unknown),
            (ErrorCode::PurgeInflight, Meaning::Unknown),
            (ErrorCode::PurgeQueue, Meaning::NotSent),
            (ErrorCode::Fatal, Meaning::NotSent),
            (ErrorCode::ProducerFenced, Meaning::Fenced),
        ] {
            assert_eq!(meaning(code), expected, "{code}");
        }
    }
}
