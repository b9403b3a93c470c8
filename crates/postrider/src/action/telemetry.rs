//! The spans and numbers of an execution. Their names are in `telemetry/names.rs`.

use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::RetryOn;
use crate::telemetry::{
    ACTION_EXECUTE_DURATION, ACTION_EXECUTIONS, ACTION_PERFORM_DURATION, ACTION_PERSIST_DURATION,
    ACTION_RETRIES, Metric, add_one, observe,
};
use crate::{Clock, Code, Error};

/// How a call of `execute` ended: the label `outcome`.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Committed,
    Duplicate,
    Stale,
    Refused,
    Failed,
    Unknown,
    Diverged,
    Dropped,
}

impl Outcome {
    fn of(error: &Error) -> Self {
        match error.code() {
            Code::ActionStale => Self::Stale,
            Code::ActionOutcomeUnknown => Self::Unknown,
            Code::ShardsDiverged => Self::Diverged,
            _ => Self::Failed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Diverged => "diverged",
            Self::Dropped => "dropped",
        }
    }
}

/// Observes one call of `execute`, over all of its attempts. If it is dropped before its end is reported, the caller stopped
/// waiting, or the action panicked.
pub(super) struct Observed {
    action: &'static str,
    span: Span,
    clock: Arc<dyn Clock>,
    began: Duration,
    attempts: u32,
    is_ended: bool,
}

impl Observed {
    pub(super) fn begin(
        action: &'static str,
        id: Uuid,
        principal: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let span = tracing::info_span!(
            "execute",
            action,
            action_id = %id,
            principal,
            attempts = Empty,
            outcome = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        let began = clock.now().elapsed;
        Self { action, span, clock, began, attempts: 0, is_ended: false }
    }

    /// The span of the whole call.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Begins an attempt: runs the code of the action.
    pub(super) async fn perform<T, E>(
        &mut self,
        performing: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.attempts = self.attempts.saturating_add(1);
        let span = tracing::info_span!(
            "perform",
            action = self.action,
            attempt = self.attempts,
            otel.status_code = Empty,
        );
        let performed = self.timed(&ACTION_PERFORM_DURATION, performing.instrument(span.clone())).await;
        if performed.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        performed
    }

    /// Ends an attempt: runs the transaction. Events that are written in it carry the context of its span.
    pub(super) async fn persist<T>(
        &self,
        (rows, events): (usize, usize),
        persisting: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let span = tracing::info_span!(
            "persist",
            action = self.action,
            attempt = self.attempts,
            rows,
            events,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        let persisted = self.timed(&ACTION_PERSIST_DURATION, persisting.instrument(span.clone())).await;
        if let Err(error) = &persisted {
            record_error(&span, error);
        }
        persisted
    }

    async fn timed<T>(&self, metric: &'static Metric, running: impl Future<Output = T>) -> T {
        let began = self.clock.now().elapsed;
        let done = running.await;
        observe(metric, [self.action], self.clock.now().elapsed.saturating_sub(began));
        done
    }

    /// The last attempt was rolled back, and another one follows.
    pub(super) fn retry(&self, on: RetryOn) {
        let reason = match on {
            RetryOn::Stale => "stale",
            RetryOn::Busy => "busy",
        };
        add_one(&ACTION_RETRIES, [self.action, reason]);
    }

    pub(super) fn committed(&mut self) {
        self.end(Outcome::Committed);
    }

    /// An earlier call with the same id was committed.
    pub(super) fn duplicate(&mut self) {
        self.end(Outcome::Duplicate);
    }

    /// The action returned an error of its own. What it says is the caller's to log.
    pub(super) fn refused(&mut self) {
        self.span.record("otel.status_code", "ERROR");
        self.span.record("otel.status_description", "the action returned an error");
        self.end(Outcome::Refused);
    }

    /// The transaction of the last attempt did not succeed.
    pub(super) fn failed(&mut self, error: &Error) {
        record_error(&self.span, error);
        self.end(Outcome::of(error));
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.span.record("attempts", self.attempts);
        self.span.record("outcome", outcome.name());
        add_one(&ACTION_EXECUTIONS, [self.action, outcome.name()]);
        let duration = self.clock.now().elapsed.saturating_sub(self.began);
        observe(&ACTION_EXECUTE_DURATION, [self.action], duration);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() { Outcome::Failed } else { Outcome::Dropped });
    }
}

/// Without its causes: a driver may repeat values of the application in them.
fn record_error(span: &Span, error: &Error) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", tracing::field::display(error));
}
