//! OpenTelemetry links from the span of a batch to the spans that wrote its events.

use std::collections::HashSet;
use std::str::FromStr;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::Routed;
use crate::TraceContext;

/// Links the span once to each sampled span that wrote an event of the batch. The OpenTelemetry SDK limits the number
/// of links and counts those it drops.
pub(super) fn to_writers(span: &Span, batch: &[Routed]) {
    // The span is not recorded, so its links are not needed.
    if !span.context().span().span_context().is_sampled() {
        return;
    }
    let mut linked = HashSet::new();
    for routed in batch {
        let Some(writer) = TraceContext::from_headers(&routed.event.headers) else { continue };
        if let Some(context) = span_context(&writer)
            && context.is_sampled()
            && linked.insert((context.trace_id(), context.span_id()))
        {
            span.add_link(context);
        }
    }
}

/// The same context as an OpenTelemetry type.
fn span_context(writer: &TraceContext) -> Option<SpanContext> {
    let mut parts = writer.traceparent().split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let state = writer.tracestate().and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    Some(SpanContext::new(trace_id, span_id, flags, true, state))
}
