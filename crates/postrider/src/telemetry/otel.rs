//! The trace of the current span, for programs that export spans with `tracing-opentelemetry`.

use opentelemetry::trace::TraceContextExt as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::TraceContext;

/// The trace context of the current `tracing` span, for [`Outbox::trace`](crate::Outbox::trace):
/// `Outbox::new().trace(postrider::telemetry::current_trace)`. `None` outside of a span, or if no subscriber of
/// `tracing-opentelemetry` 0.34 is installed.
pub fn current_trace() -> Option<TraceContext> {
    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    let (trace_id, span_id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    TraceContext::parse(&format!("00-{trace_id}-{span_id}-{flags:02x}"), Some(&span.trace_state().header()))
        .ok()
}
