//! Logs failures of the database and of the takeover at the destination: once when they begin and once when they end.

use std::sync::{Mutex, PoisonError};

use crate::{Code, Result};

/// An operation that can fail. All except `TakeOver` are operations of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Subscribe,
    Acquire,
    Renew,
    Release,
    Claim,
    Fetch,
    Settle,
    Halt,
    Pause,
    /// Fences the previous owner at the destination.
    TakeOver,
}

impl Operation {
    /// The other side of the operation, for the log.
    fn peer(self) -> &'static str {
        if self == Self::TakeOver { "the destination" } else { "the database" }
    }
}

/// The failures of one subscription's database, and of the takeover at its destination.
#[derive(Debug, Default)]
pub(super) struct HealthLog {
    subscription: String,
    ongoing: Mutex<Option<Ongoing>>,
}

/// A failure that was logged and has not ended.
#[derive(Debug)]
struct Ongoing {
    operation: Operation,
    code: Code,
    message: String,
}

impl HealthLog {
    pub(super) fn new(subscription: &str) -> Self {
        Self { subscription: subscription.to_owned(), ongoing: Mutex::default() }
    }

    /// The current error, in one sentence.
    pub(super) fn message(&self) -> Option<String> {
        let ongoing = self.ongoing.lock().unwrap_or_else(PoisonError::into_inner);
        ongoing.as_ref().map(|ongoing| ongoing.message.clone())
    }

    /// The code of the current error.
    pub(super) fn code(&self) -> Option<Code> {
        self.ongoing.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|ongoing| ongoing.code)
    }

    /// Records the result of an operation. The brain needs only the code of an error; the log gets the full text, once
    /// per failure and not with every retry.
    pub(super) fn record<T>(&self, operation: Operation, answer: Result<T>) -> Result<T, Code> {
        let mut ongoing = self.ongoing.lock().unwrap_or_else(PoisonError::into_inner);
        let subscription = self.subscription.as_str();
        match answer {
            Ok(answer) => {
                if let Some(over) = ongoing.take_if(|ongoing| is_over(ongoing.operation, operation)) {
                    tracing::info!(subscription, "{} is reachable again", over.operation.peer());
                }
                Ok(answer)
            }
            Err(error) => {
                let what = if operation == Operation::TakeOver {
                    "the takeover of the destination failed: "
                } else {
                    ""
                };
                let (code, text) = (error.code(), format!("{what}{}", error.one_line()));
                if ongoing.as_ref().is_some_and(|ongoing| is_same(ongoing.code, code)) {
                    tracing::debug!(subscription, %code, ?operation, "{text}");
                } else {
                    tracing::warn!(subscription, %code, effect = error.effect(), hint = error.hint(), "{text}");
                }
                *ongoing = Some(Ongoing { operation, code, message: text });
                Err(code)
            }
        }
    }
}

/// Whether a failure of one operation ends when another succeeds: if it is the same operation, or a renewal, which is
/// sent regularly while this relay leads.
fn is_over(failed: Operation, answered: Operation) -> bool {
    failed == answered || answered == Operation::Renew
}

/// A lost connection causes one of two codes, depending on the operation it interrupts.
fn is_same(one: Code, other: Code) -> bool {
    let lost = |code| matches!(code, Code::StoreFailed | Code::OutcomeUnknown);
    one == other || lost(one) && lost(other)
}

#[cfg(test)]
mod tests {
    use postrider_testkit::CapturedLog;

    use super::*;
    use crate::Error;

    fn failed() -> Result<()> {
        Err(Error::new(Code::StoreFailed, "no connection"))
    }

    #[test]
    fn an_error_lasts_until_the_failed_operation_succeeds() {
        let health = HealthLog::new("mail");
        _ = health.record(Operation::Claim, failed());
        _ = health.record(Operation::Acquire, Ok(()));
        assert_eq!(health.message().as_deref(), Some("no connection"));
        _ = health.record(Operation::Claim, Ok(()));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_renewal_ends_an_error_of_any_operation() {
        let health = HealthLog::new("mail");
        assert_eq!(health.record(Operation::Fetch, failed()), Err(Code::StoreFailed));
        assert_eq!(health.record(Operation::Renew, Ok(1)), Ok(1));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_failed_takeover_of_the_destination_is_not_an_error_of_the_database() {
        let health = HealthLog::new("mail");
        _ = health.record(Operation::Acquire, failed());
        for _ in 0..2 {
            _ = health.record(Operation::Acquire, Ok(()));
            let refused = Err::<(), _>(Error::new(Code::SinkFailed, "it is away"));
            assert_eq!(health.record(Operation::TakeOver, refused), Err(Code::SinkFailed));
            let said = health.message();
            assert_eq!(said.as_deref(), Some("the takeover of the destination failed: it is away"));
        }
        _ = health.record(Operation::TakeOver, Ok(()));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn an_outage_is_logged_once_and_its_end_once() {
        let lines = CapturedLog::of(|_| {
            let health = HealthLog::new("mail");
            for _ in 0..2 {
                _ = health.record(Operation::Claim, failed());
                _ = health
                    .record::<()>(Operation::Settle, Err(Error::new(Code::OutcomeUnknown, "no answer")));
                for _ in 0..100 {
                    _ = health.record(Operation::Acquire, failed());
                }
                for _ in 0..100 {
                    _ = health.record(Operation::Acquire, Ok(()));
                }
            }
        });
        assert_eq!(lines.len(), 4, "{lines:?}");
    }
}
