//! What an answer of Kafka means for a message.

use postrider::sink::{Failure, Outcome, Receipt};
use postrider::{Code, Error};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Answer};

/// What an answer says of a message that was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The message's fault, forever.
    Refused,
    /// A topic is missing or not ours to write to: may pass when an operator fixes it, and is no outage.
    NotAllowedYet,
    /// The records sent together were refused, for the sake of one of them: each is to be tried alone.
    RefusedTogether,
    /// It did not leave this process.
    NotSent,
    /// It may have been written, or not; the cluster may be down.
    Unknown,
    /// A newer producer has taken over.
    Fenced,
}

pub(super) fn meaning(answer: Answer) -> Meaning {
    match answer {
        Answer::InvalidTimestamp
        | Answer::PolicyViolation
        | Answer::UnsupportedForMessageFormat
        | Answer::InvalidTopic
        | Answer::InvalidRequiredAcks
        | Answer::KeySerialization
        | Answer::ValueSerialization
        | Answer::InvalidArgument => Meaning::Refused,
        // A batch is refused as one, however small the record.
        Answer::MessageSizeTooLarge
        | Answer::InvalidMessageSize
        | Answer::MessageBatchTooLarge
        | Answer::InvalidRecord
        | Answer::InvalidDifferentRecord => Meaning::RefusedTogether,
        Answer::UnknownTopic
        | Answer::UnknownPartition
        | Answer::UnknownTopicOrPartition
        | Answer::TopicAuthorizationFailed => Meaning::NotAllowedYet,
        Answer::QueueFull | Answer::PurgeQueue => Meaning::NotSent,
        Answer::Fenced | Answer::ProducerFenced | Answer::InvalidProducerEpoch => Meaning::Fenced,
        _ => Meaning::Unknown,
    }
}

/// The outcome of a message that Kafka itself answered for. `Unknown` needs more than its answer.
pub(super) fn outcome(topic: &str, answer: Answer) -> Outcome {
    let failure = Failure::new(match answer {
        Answer::UnknownTopic | Answer::UnknownPartition | Answer::UnknownTopicOrPartition => {
            format!("topic {topic:?} does not exist; create it, or add it to `create_topics` of the sink")
        }
        Answer::TopicAuthorizationFailed => {
            format!("topic {topic:?}: authorization failed: this user may not write to it")
        }
        answer => format!("topic {topic:?}: {answer}"),
    });
    match meaning(answer) {
        Meaning::Refused | Meaning::RefusedTogether => Outcome::Rejected(failure),
        Meaning::NotAllowedYet => Outcome::Failed(failure),
        Meaning::NotSent => Outcome::Retryable(failure),
        Meaning::Unknown => Outcome::Ambiguous(failure),
        Meaning::Fenced => Outcome::Fenced,
    }
}

pub(super) fn acknowledged(partition: i32, offset: i64) -> Outcome {
    Outcome::Acknowledged(Receipt::new(format!("partition {partition} offset {offset}")))
}

/// A client that cannot be made, or a topic that cannot be.
pub(super) fn not_opened(brokers: &str, error: &KafkaError) -> Error {
    let what = match error {
        // As librdkafka says it, without the value, which may be a secret.
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
        for answer in [Answer::UnknownTopic, Answer::UnknownTopicOrPartition] {
            let Outcome::Failed(failure) = outcome("orders", answer) else { panic!() };
            assert!(failure.message.starts_with("topic \"orders\" does not exist"), "{}", failure.message);
        }
    }

    #[test]
    fn a_bad_message_a_missing_topic_and_an_outage_are_told_apart() {
        for (answer, expected) in [
            (Answer::MessageSizeTooLarge, Meaning::RefusedTogether),
            (Answer::InvalidTimestamp, Meaning::Refused),
            (Answer::UnknownTopic, Meaning::NotAllowedYet),
            (Answer::UnknownTopicOrPartition, Meaning::NotAllowedYet),
            (Answer::TopicAuthorizationFailed, Meaning::NotAllowedYet),
            (Answer::MessageTimedOut, Meaning::Unknown),
            (Answer::BrokerTransportFailure, Meaning::Unknown),
            (Answer::NotEnoughReplicasAfterAppend, Meaning::Unknown),
            (Answer::NotLeaderForPartition, Meaning::Unknown),
            (Answer::PurgeInflight, Meaning::Unknown),
            (Answer::PurgeQueue, Meaning::NotSent),
            (Answer::ProducerFenced, Meaning::Fenced),
        ] {
            assert_eq!(meaning(answer), expected, "{answer}");
        }
    }
}
