//! Maps reason codes of the broker to outcomes of messages.

use postrider::sink::{Failure, Outcome, Receipt};
use postrider::{Code, Error};
use rumqttc::{PubAckReason, PubRecReason, PublishNoticeError, PublishResult};

/// Maximum length of a description that comes from the broker, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The outcome of a message after its confirmation. `None`: the connection ended before it.
pub(super) fn outcome(
    topic: &str,
    confirmed: Result<PublishResult, PublishNoticeError>,
    require_subscriber: bool,
) -> Option<Outcome> {
    let reason = match confirmed {
        Ok(PublishResult::Qos1(ack)) => ack.reason,
        Ok(PublishResult::Qos2Completed(_)) => PubAckReason::Success,
        Ok(PublishResult::Qos2PubRecRejected(received)) => of_received(received.reason),
        Err(PublishNoticeError::V5PubAck(reason)) => reason,
        Err(PublishNoticeError::V5PubRec(reason)) => of_received(reason),
        Ok(PublishResult::Qos0Flushed) | Err(_) => return None,
    };
    let failure = |what: &str| Failure::new(format!("topic {topic:?}: {what}"));
    Some(match reason {
        PubAckReason::Success => Outcome::Acknowledged(Receipt::default()),
        PubAckReason::NoMatchingSubscribers if require_subscriber => Outcome::Failed(failure(
            "no subscription matches, so the broker discarded the message; subscribe, or set `require_subscriber = false`",
        )),
        PubAckReason::NoMatchingSubscribers => Outcome::Acknowledged(Receipt::new("no subscription matches")),
        PubAckReason::NotAuthorized => Outcome::Failed(failure("this user may not publish to it")),
        PubAckReason::TopicNameInvalid => Outcome::Rejected(failure("the broker does not accept its name")),
        PubAckReason::PayloadFormatInvalid => {
            Outcome::Rejected(failure("the broker does not accept the payload"))
        }
        PubAckReason::QuotaExceeded => Outcome::Down(failure("a quota of the broker is exceeded")),
        PubAckReason::UnspecifiedError
        | PubAckReason::ImplementationSpecificError
        | PubAckReason::PacketIdentifierInUse => {
            Outcome::Retryable(failure(&format!("the broker answered {reason:?}")))
        }
    })
}

/// The reason codes of both confirmations are the same.
fn of_received(reason: PubRecReason) -> PubAckReason {
    match reason {
        PubRecReason::Success => PubAckReason::Success,
        PubRecReason::NoMatchingSubscribers => PubAckReason::NoMatchingSubscribers,
        PubRecReason::UnspecifiedError => PubAckReason::UnspecifiedError,
        PubRecReason::ImplementationSpecificError => PubAckReason::ImplementationSpecificError,
        PubRecReason::NotAuthorized => PubAckReason::NotAuthorized,
        PubRecReason::TopicNameInvalid => PubAckReason::TopicNameInvalid,
        PubRecReason::PacketIdentifierInUse => PubAckReason::PacketIdentifierInUse,
        PubRecReason::QuotaExceeded => PubAckReason::QuotaExceeded,
        PubRecReason::PayloadFormatInvalid => PubAckReason::PayloadFormatInvalid,
    }
}

/// A description on one line and not too long: parts of it come from the broker.
pub(super) fn short(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MESSAGE_CHARS_MAX).collect::<String>().trim().to_owned()
}

/// The error if the client cannot be created.
pub(super) fn not_opened(address: &str, why: &str) -> Error {
    Error::new(Code::SinkOpen, format!("mqtt {address}: {why}"))
}

#[cfg(test)]
mod tests {
    use rumqttc::{PubAck, PubComp, PubRec};

    use super::*;

    #[test]
    fn a_bad_message_a_topic_without_rights_and_a_quota_have_different_meanings() {
        let letter = |confirmed, require| match outcome("orders", confirmed, require) {
            Some(Outcome::Acknowledged(_)) => 'a',
            Some(Outcome::Failed(_)) => 'f',
            Some(Outcome::Rejected(_)) => 'r',
            Some(Outcome::Down(_)) => 'd',
            Some(Outcome::Retryable(_)) => 'y',
            Some(_) => '?',
            None => '-',
        };
        use PubAckReason::*;
        let reasons = [
            (Success, 'a'),
            (NoMatchingSubscribers, 'f'),
            (NotAuthorized, 'f'),
            (TopicNameInvalid, 'r'),
            (PayloadFormatInvalid, 'r'),
            (QuotaExceeded, 'd'),
            (UnspecifiedError, 'y'),
            (ImplementationSpecificError, 'y'),
            (PacketIdentifierInUse, 'y'),
        ];
        for (reason, expected) in reasons {
            let ack = PubAck { reason, ..PubAck::new(1, None) };
            assert_eq!(letter(Ok(PublishResult::Qos1(ack)), true), expected, "{reason:?}");
            assert_eq!(letter(Err(PublishNoticeError::V5PubAck(reason)), true), expected, "{reason:?}");
        }
        assert_eq!(letter(Err(PublishNoticeError::V5PubAck(NoMatchingSubscribers)), false), 'a');
        let refused = PubRec { reason: PubRecReason::NotAuthorized, ..PubRec::new(1, None) };
        assert_eq!(letter(Ok(PublishResult::Qos2PubRecRejected(refused)), true), 'f');
        assert_eq!(letter(Ok(PublishResult::Qos2Completed(PubComp::new(1, None))), true), 'a');
        assert_eq!(letter(Err(PublishNoticeError::Recv), true), '-');
        assert_eq!(letter(Err(PublishNoticeError::SessionReset), true), '-');
    }
}
