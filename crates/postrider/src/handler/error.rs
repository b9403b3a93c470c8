//! How a handler's call can end other than done.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::sink::{Failure, Outcome, Receipt};

/// The result of a handler's function. `Ok(())`: the event is done.
pub type Result = std::result::Result<(), HandlerError>;

/// The receipt of an event that the function skipped.
#[doc(hidden)]
pub const SKIPPED: &str = "skipped";

/// Why a handler's function did not finish an event, and what becomes of the event.
///
/// Any error becomes one by `?`: the event is retried with backoff, and is dead after the last attempt. The
/// constructors ask for something else.
///
/// Like `anyhow::Error`, it does not implement [`std::error::Error`], so that every error can be converted.
pub struct HandlerError {
    source: Box<dyn StdError + Send + Sync>,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Retry(Option<Duration>),
    Skip,
    Dead,
}

impl HandlerError {
    /// The event is tried again, no sooner than after `delay`, and no later than the policy's `backoff_max` asks for.
    /// Counts as a failed attempt.
    pub fn retry_after(delay: Duration, reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: reason.into(), next: Next::Retry(Some(delay)) }
    }

    /// The event is done for this handler, without an effect. The reason is logged.
    pub fn skip(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: reason.into(), next: Next::Skip }
    }

    /// The event is dead at once: no attempt can succeed. It stays visible until an operator acts.
    pub fn dead(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: reason.into(), next: Next::Dead }
    }

    /// The reason with its causes, in one line.
    fn message(&self) -> String {
        let (mut line, mut cause) = (self.source.to_string(), self.source.source());
        while let Some(error) = cause {
            line = format!("{line}: {error}");
            cause = error.source();
        }
        line
    }

    /// What the relay does about it.
    pub(super) fn into_outcome(self) -> Outcome {
        let failure = Failure::new(self.message());
        match self.next {
            Next::Retry(retry_after) => Outcome::Failed(Failure { retry_after, ..failure }),
            Next::Skip => {
                tracing::info!(reason = failure.message, "the handler skipped the event");
                Outcome::Acknowledged(Receipt::new(SKIPPED))
            }
            Next::Dead => Outcome::Rejected(failure),
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self { source: error.into(), next: Next::Retry(None) }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("reason", &self.message()).field("next", &self.next).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(error: impl Into<HandlerError>) -> Outcome {
        error.into().into_outcome()
    }

    #[test]
    fn any_error_is_retried_with_its_causes_in_one_line() {
        let cause = std::io::Error::other("connection reset");
        let error = anyhow::Error::new(cause).context("the mail was not sent");
        assert_eq!(fails(error), Outcome::Failed(Failure::new("the mail was not sent: connection reset")));
        assert_eq!(fails("no route"), Outcome::Failed(Failure::new("no route")));
    }

    #[test]
    fn a_handler_can_ask_for_a_later_retry_a_skip_or_a_dead_letter() {
        let later = HandlerError::retry_after(Duration::from_secs(60), "rate limit");
        let Outcome::Failed(failure) = later.into_outcome() else { panic!("not failed") };
        assert_eq!(failure.retry_after, Some(Duration::from_secs(60)));
        let skipped = Outcome::Acknowledged(Receipt::new(SKIPPED));
        assert_eq!(HandlerError::skip("an old customer").into_outcome(), skipped);
        let dead = HandlerError::dead("no such order").into_outcome();
        assert_eq!(dead, Outcome::Rejected(Failure::new("no such order")));
    }
}
