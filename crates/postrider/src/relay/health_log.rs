//! Logs failures of the database and of the takeover at the destination: once when they begin and once when they end.

use std::sync::{Arc, Mutex, PoisonError};

use super::meter::Meter;
use crate::store::RelayError;
use crate::{Clock, Code, Result, Timestamp};

/// An operation that can fail. All except `TakeOver` and `Prepare` are operations of the database.
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
    /// Loads what the encoder needs.
    Prepare,
}

impl Operation {
    /// Its name in the metrics; `None` if it has no duration there.
    pub(super) fn metric_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Claim => "claim",
            Self::Fetch => "fetch",
            Self::Settle => "settle",
            Self::Halt => "halt",
            Self::Pause => "pause",
            Self::Subscribe | Self::TakeOver | Self::Prepare => return None,
        })
    }

    /// The other side of the operation, for the log.
    fn peer(self) -> &'static str {
        match self {
            Self::TakeOver => "the destination",
            Self::Prepare => "the schema registry",
            _ => "the database",
        }
    }
}

/// The failures of one subscription's database, and of the takeover at its destination.
pub(super) struct HealthLog {
    subscription: String,
    clock: Arc<dyn Clock>,
    meter: Option<Arc<Meter>>,
    errors: Mutex<Errors>,
}

#[derive(Default)]
struct Errors {
    ongoing: Option<Ongoing>,
    /// The last one that ended.
    ended: Option<RelayError>,
}

/// A failure that was logged and has not ended.
#[derive(Debug, Clone)]
pub(super) struct Ongoing {
    operation: Operation,
    pub(super) code: Code,
    /// One sentence.
    pub(super) message: String,
    pub(super) since: Timestamp,
}

impl Ongoing {
    /// Whether it is an error of the database, not of the takeover at the destination or of the encoder.
    pub(super) fn is_of_database(&self) -> bool {
        !matches!(self.operation, Operation::TakeOver | Operation::Prepare)
    }

    fn report(&self, until: Option<Timestamp>) -> RelayError {
        RelayError::new(&self.code.to_string(), &self.message, self.since, until)
    }
}

impl HealthLog {
    pub(super) fn new(subscription: &str, clock: Arc<dyn Clock>) -> Self {
        Self { subscription: subscription.to_owned(), clock, meter: None, errors: Mutex::default() }
    }

    /// Also counts what it records.
    pub(super) fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Performs an operation and records its result.
    pub(super) async fn watch<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T, Code> {
        let begun = self.clock.now().elapsed;
        let answer = call.await;
        if let Some(meter) = &self.meter {
            let took = self.clock.now().elapsed.saturating_sub(begun);
            meter.called(operation, took, answer.as_ref().err().map(crate::Error::code));
        }
        self.record(operation, answer)
    }

    /// The current error, otherwise the last one.
    pub(super) fn last(&self) -> Option<RelayError> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.ongoing.as_ref().map(|ongoing| ongoing.report(None)).or_else(|| errors.ended.clone())
    }

    /// The current error.
    pub(super) fn current(&self) -> Option<Ongoing> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).ongoing.clone()
    }

    /// Records the result of an operation. The brain needs only the code of an error; the log gets the full text, once
    /// per failure and not with every retry.
    pub(super) fn record<T>(&self, operation: Operation, answer: Result<T>) -> Result<T, Code> {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let subscription = self.subscription.as_str();
        match answer {
            Ok(answer) => {
                if let Some(over) = errors.ongoing.take_if(|ongoing| is_over(ongoing.operation, operation)) {
                    let now = self.clock.now().wall;
                    let (code, seconds) = (over.code, over.since.until(now).as_secs());
                    tracing::info!(subscription, %code, seconds, "{} is reachable again", over.operation.peer());
                    errors.ended = Some(over.report(Some(now)));
                }
                Ok(answer)
            }
            Err(error) => {
                let what = match operation {
                    Operation::TakeOver => "the takeover of the destination failed: ",
                    Operation::Prepare => "schemas are missing, so nothing is delivered: ",
                    _ => "",
                };
                let (code, text) = (error.code(), format!("{what}{}", error.one_line()));
                let since = match &errors.ongoing {
                    Some(ongoing) if is_same(ongoing.code, code) => {
                        tracing::debug!(subscription, %code, ?operation, "{text}");
                        ongoing.since
                    }
                    _ => {
                        let (effect, hint) = (error.effect(), error.hint());
                        tracing::warn!(subscription, %code, effect, hint, "{text}");
                        self.clock.now().wall
                    }
                };
                errors.ongoing = Some(Ongoing { operation, code, message: text, since });
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

    use std::time::Duration;

    use super::*;
    use crate::Error;
    use crate::clock::TestClock;

    impl HealthLog {
        fn message(&self) -> Option<String> {
            self.current().map(|error| error.message)
        }
    }

    fn failed() -> Result<()> {
        Err(Error::new(Code::StoreFailed, "no connection"))
    }

    #[test]
    fn an_error_lasts_until_the_failed_operation_succeeds() {
        let health = HealthLog::new("mail", Arc::new(TestClock::default()));
        _ = health.record(Operation::Claim, failed());
        _ = health.record(Operation::Acquire, Ok(()));
        assert_eq!(health.message().as_deref(), Some("no connection"));
        _ = health.record(Operation::Claim, Ok(()));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_renewal_ends_an_error_of_any_operation() {
        let health = HealthLog::new("mail", Arc::new(TestClock::default()));
        assert_eq!(health.record(Operation::Fetch, failed()), Err(Code::StoreFailed));
        assert_eq!(health.record(Operation::Renew, Ok(1)), Ok(1));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_failed_takeover_of_the_destination_is_not_an_error_of_the_database() {
        let health = HealthLog::new("mail", Arc::new(TestClock::default()));
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
    fn the_last_error_stays_known_with_its_beginning_and_its_end() {
        let clock = TestClock::default();
        let health = HealthLog::new("mail", Arc::new(clock.clone()));
        assert_eq!(health.last(), None);
        let begun = clock.now().wall;
        _ = health.record(Operation::Claim, failed());
        clock.advance(Duration::from_secs(3));
        _ = health.record(Operation::Claim, failed());
        let ongoing = health.last().unwrap();
        assert_eq!((ongoing.since, ongoing.until, ongoing.message.as_str()), (begun, None, "no connection"));
        clock.advance(Duration::from_secs(4));
        _ = health.record(Operation::Claim, Ok(()));
        let over = health.last().unwrap();
        assert_eq!((over.since, over.until), (begun, Some(clock.now().wall)));
    }

    #[test]
    fn an_outage_is_logged_once_and_its_end_once() {
        let lines = CapturedLog::of(|_| {
            let health = HealthLog::new("mail", Arc::new(TestClock::default()));
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
