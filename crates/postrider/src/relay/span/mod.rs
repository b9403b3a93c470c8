//! The span `publish` of a batch.
//!
//! It starts a new trace, because a batch contains events of many traces. With the feature `otel` it links to the
//! sampled spans that wrote its events. Without a subscriber for spans, the cost is one check per batch and nothing per
//! event.

#[cfg(feature = "otel")]
mod link;

use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;

use super::brain::{Disposition, Routed};
use super::report::display_destination;
use crate::sink::Outcome;

/// The span of a batch. Names with dots follow the OpenTelemetry conventions.
pub(super) fn of(subscription: &str, batch: &[Routed]) -> Span {
    let span = tracing::info_span!(
        parent: None,
        "publish",
        otel.kind = "producer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        subscription,
        messaging.operation.name = "publish",
        messaging.operation.r#type = "send",
        messaging.destination.name = Empty,
        messaging.batch.message_count = batch.len(),
        acknowledged = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(destination) = only_destination(batch) {
        span.record("messaging.destination.name", &*display_destination(destination));
    }
    #[cfg(feature = "otel")]
    link::to_writers(&span, batch);
    span
}

/// Records the number of acknowledged messages and the first failure.
pub(super) fn record_outcomes(span: &Span, outcomes: &[Outcome]) {
    if span.is_disabled() {
        return;
    }
    let is_acknowledged = |outcome: &&Outcome| matches!(outcome, Outcome::Acknowledged(_));
    span.record("acknowledged", outcomes.iter().filter(is_acknowledged).count());
    if let Some(why) = outcomes.iter().find(|outcome| !is_acknowledged(outcome)) {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", description(why));
    }
}

/// The destination, if all events of the batch have the same one.
fn only_destination(batch: &[Routed]) -> Option<&Arc<str>> {
    let mut names = batch.iter().map(|routed| match &routed.disposition {
        Disposition::Deliver { name, delivery, .. }
            if delivery.as_ref().is_none_or(|delivery| delivery.copies.len() == 1) =>
        {
            Some(name)
        }
        _ => None,
    });
    let first = names.next()??;
    names.all(|name| name == Some(first)).then_some(first)
}

fn description(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Retryable(failure)
        | Outcome::Failed(failure)
        | Outcome::Rejected(failure)
        | Outcome::Ambiguous(failure)
        | Outcome::Down(failure) => &failure.message,
        Outcome::Fenced => "another relay has taken over",
        Outcome::Untried => "not tried",
        Outcome::Acknowledged(_) => "",
    }
}
