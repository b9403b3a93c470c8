//! Failures of the database, or of taking a destination over: logged once when they begin and once when they end.

use std::sync::{Mutex, PoisonError};

use crate::{Code, Result};

/// An operation that can fail: of the database, except for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Subscribe,
    Acquire,
    Renew,
    Release,
    Claim,
    Fetch,
    Settle,
    Halt,
    Pause,
    /// Of the destination: to accept nothing more from the last owner.
    TakeOver,
}

impl Verb {
    /// Who was asked.
    fn whom(self) -> &'static str {
        if self == Self::TakeOver { "the destination" } else { "the database" }
    }
}

/// The failures of one subscription's database, and of the takeover at its destination.
#[derive(Debug, Default)]
pub(super) struct HealthLog {
    subscription: String,
    known: Mutex<Option<Known>>,
}

/// A failure that was logged and is not over.
#[derive(Debug)]
struct Known {
    verb: Verb,
    code: Code,
    message: String,
}

impl HealthLog {
    pub(super) fn new(subscription: &str) -> Self {
        Self { subscription: subscription.to_owned(), known: Mutex::default() }
    }

    /// What is wrong at the moment, in a sentence.
    pub(super) fn message(&self) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|known| known.message.clone())
    }

    /// The code of what is wrong at the moment.
    pub(super) fn code(&self) -> Option<Code> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|known| known.code)
    }

    /// Takes an answer in. The brain needs only the code of an error; a person needs all of it, and not again
    /// with every try.
    pub(super) fn record<T>(&self, verb: Verb, answer: Result<T>) -> Result<T, Code> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let subscription = self.subscription.as_str();
        match answer {
            Ok(answer) => {
                if let Some(over) = known.take_if(|known| is_over(known.verb, verb)) {
                    tracing::info!(subscription, "{} is reachable again", over.verb.whom());
                }
                Ok(answer)
            }
            Err(error) => {
                let what =
                    if verb == Verb::TakeOver { "the takeover of the destination failed: " } else { "" };
                let (code, text) = (error.code(), format!("{what}{}", error.one_line()));
                if known.as_ref().is_some_and(|known| is_same(known.code, code)) {
                    tracing::debug!(subscription, %code, ?verb, "{text}");
                } else {
                    tracing::warn!(subscription, %code, effect = error.effect(), hint = error.hint(), "{text}");
                }
                *known = Some(Known { verb, code, message: text });
                Err(code)
            }
        }
    }
}

/// Whether trouble with one verb is over once another was answered: when it is the same. A renewal also ends
/// it, for that is asked for only while all goes well, and for as long.
fn is_over(troubled: Verb, answered: Verb) -> bool {
    troubled == answered || answered == Verb::Renew
}

/// A lost connection shows as either of two codes, by what it was lost in the middle of.
fn is_same(known: Code, code: Code) -> bool {
    let lost = |code| matches!(code, Code::StoreFailed | Code::OutcomeUnknown);
    known == code || lost(known) && lost(code)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber};

    use super::*;
    use crate::Error;

    fn failed() -> Result<()> {
        Err(Error::new(Code::StoreFailed, "nobody is there"))
    }

    #[test]
    fn trouble_lasts_until_what_failed_works_again() {
        let health = HealthLog::new("mail");
        _ = health.record(Verb::Claim, failed());
        _ = health.record(Verb::Acquire, Ok(()));
        assert_eq!(health.message().as_deref(), Some("nobody is there"));
        _ = health.record(Verb::Claim, Ok(()));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_renewal_ends_trouble_with_what_may_not_be_asked_again() {
        let health = HealthLog::new("mail");
        assert_eq!(health.record(Verb::Fetch, failed()), Err(Code::StoreFailed));
        assert_eq!(health.record(Verb::Renew, Ok(1)), Ok(1));
        assert_eq!(health.message(), None);
    }

    #[test]
    fn a_destination_that_cannot_be_taken_over_is_not_the_databases_trouble() {
        let health = HealthLog::new("mail");
        _ = health.record(Verb::Acquire, failed());
        for _ in 0..2 {
            _ = health.record(Verb::Acquire, Ok(()));
            let refused = Err::<(), _>(Error::new(Code::SinkFailed, "it is away"));
            assert_eq!(health.record(Verb::TakeOver, refused), Err(Code::SinkFailed));
            let said = health.message();
            assert_eq!(said.as_deref(), Some("the takeover of the destination failed: it is away"));
        }
        _ = health.record(Verb::TakeOver, Ok(()));
        assert_eq!(health.message(), None);
    }

    /// Counts what a person sees: warnings and news, not what is for the curious.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once_however_often_it_is_tried() {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            let health = HealthLog::new("mail");
            for _ in 0..2 {
                _ = health.record(Verb::Claim, failed());
                _ = health.record::<()>(Verb::Settle, Err(Error::new(Code::OutcomeUnknown, "no answer")));
                for _ in 0..100 {
                    _ = health.record(Verb::Acquire, failed());
                }
                for _ in 0..100 {
                    _ = health.record(Verb::Acquire, Ok(()));
                }
            }
        });
        assert_eq!(lines.0.load(Ordering::Relaxed), 4);
    }
}
