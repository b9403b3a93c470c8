//! The span of a batch, as an OpenTelemetry exporter receives it.
#![cfg(feature = "otel")]

use std::collections::BTreeSet;

use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use postrider::relay::{Relay, Subscription};
use postrider::sink::{Failure, Outcome};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider::{Event, TraceContext};
use tracing_subscriber::layer::SubscriberExt as _;

use super::shop::{RecordingSink, Shop, acknowledged, order};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The `number`th order, written in a span with this id, sampled or not.
fn written_by(number: usize, span_id: &str, sampled: bool) -> Event {
    let parent = format!("00-{TRACE}-{span_id}-0{}", u8::from(sampled));
    order(number).with_trace(&TraceContext::parse(&parent, Some("vendor=1")).unwrap())
}

/// Publishes the written events to a sink with this outcome, and returns all spans.
///
/// The subscriber belongs to the thread, so the runtime has one thread: other tests of this process trace nothing.
fn spans(
    write: impl FnOnce(&rusqlite::Connection) -> usize,
    outcome: impl Fn() -> Outcome + Send + Sync + 'static,
) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // With only one subscriber, tracing decides whether a log line is enabled by the thread that reaches it first, which may
    // be the thread of another test. With two, it checks all of them.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let shop = Shop::open();
        let events = write(&shop.connect());
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let sink = RecordingSink::scripted(move |_| {
            _ = said.send(());
            outcome()
        });
        let subscription = Subscription::new("audit", sink).start(Start::Beginning);
        let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
        for _ in 0..events {
            heard.recv().await.unwrap();
        }
        relay.shutdown().await.unwrap();
    });
    exporter.get_finished_spans().unwrap()
}

/// The spans named `publish` of these events.
fn published(events: Vec<Event>, outcome: impl Fn() -> Outcome + Send + Sync + 'static) -> Vec<SpanData> {
    let write = |connection: &rusqlite::Connection| {
        let count = events.len();
        Outbox::new().write_all(connection, events).unwrap();
        count
    };
    let mut spans = spans(write, outcome);
    spans.retain(|span| span.name == "publish");
    spans
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string())
}

#[test]
fn the_span_of_a_batch_links_to_the_span_of_the_request_that_wrote_the_event() {
    let outbox = Outbox::new().trace(postrider::telemetry::current_trace);
    let request = |connection: &rusqlite::Connection| {
        tracing::info_span!("place order").in_scope(|| outbox.write(connection, order(0)).unwrap());
        1
    };
    let spans = spans(request, acknowledged);
    let named = |name: &str| spans.iter().find(|span| span.name == name).expect(name);
    let (writer, batch) = (&named("place order").span_context, named("publish"));
    let [link] = &batch.links.links[..] else { panic!("one event, one link: {:?}", batch.links) };
    assert_eq!(link.span_context.trace_id(), writer.trace_id());
    assert_eq!(link.span_context.span_id(), writer.span_id());
}

#[test]
fn the_span_of_a_batch_links_once_to_each_sampled_span_that_wrote_an_event() {
    let (first, second, unsampled) = ("00f067aa0ba902b7", "00f067aa0ba902b8", "00f067aa0ba902b9");
    let events = vec![
        written_by(0, first, true),
        written_by(1, first, true),
        written_by(2, second, true),
        written_by(3, unsampled, false),
        order(4),
        order(5).with_header("traceparent", "nonsense"),
    ];
    let spans = published(events, acknowledged);
    let batch = spans.iter().find(|span| !span.links.links.is_empty()).expect("no span has links");
    let links: Vec<_> = spans.iter().flat_map(|span| &span.links.links).map(|l| &l.span_context).collect();
    let linked: Vec<(String, String)> =
        links.iter().map(|l| (l.trace_id().to_string(), l.span_id().to_string())).collect();
    let expected = [first, second].map(|span_id| (TRACE.to_owned(), span_id.to_owned()));
    assert_eq!(linked, expected);
    assert!(links.iter().all(|link| link.is_remote() && link.trace_state().header() == "vendor=1"));
    let trace = batch.span_context.trace_id().to_string();
    assert_ne!(trace, TRACE, "a batch holds events of many traces and is part of none");
}

#[test]
fn the_span_of_a_batch_records_the_messages_and_their_outcomes() {
    let spans = published((0..7).map(order).collect(), acknowledged);
    let [batch] = &spans[..] else { panic!("seven keys are one batch: {spans:?}") };
    assert_eq!(batch.span_kind, SpanKind::Producer);
    assert_eq!(attribute(batch, "subscription").as_deref(), Some("audit"));
    assert_eq!(attribute(batch, "messaging.batch.message_count").as_deref(), Some("7"));
    assert_eq!(attribute(batch, "messaging.operation.type").as_deref(), Some("send"));
    assert_eq!(attribute(batch, "messaging.destination.name").as_deref(), Some("audit"));
    assert_eq!(attribute(batch, "acknowledged").as_deref(), Some("7"));
    assert_eq!(batch.status, Status::Unset);
}

#[test]
fn the_span_of_a_batch_has_the_fields_that_the_list_of_names_declares() {
    let spans = published(vec![order(0)], || Outcome::Rejected(Failure::new("too large for this shop")));
    // `tracing-opentelemetry` makes the name, the kind and the status of the span of these.
    let declared = postrider::telemetry::PUBLISH.fields.iter().map(|(name, _)| *name);
    let declared: BTreeSet<&str> = declared.filter(|name| !name.starts_with("otel.")).collect();
    let is_own = |name: &&str| {
        !["code.", "thread.", "busy_ns", "idle_ns", "target"].iter().any(|other| name.starts_with(other))
    };
    let found = spans[0].attributes.iter().map(|attribute| attribute.key.as_str());
    assert_eq!(found.filter(is_own).collect::<BTreeSet<_>>(), declared);
}

#[test]
fn the_span_of_a_failed_batch_records_the_reason() {
    let spans = published(vec![order(0)], || Outcome::Rejected(Failure::new("too large for this shop")));
    let reasons: BTreeSet<String> = spans.iter().map(|span| format!("{:?}", span.status)).collect();
    let expected = Status::error("too large for this shop");
    assert_eq!(reasons, BTreeSet::from([format!("{expected:?}")]));
    assert_eq!(attribute(&spans[0], "acknowledged").as_deref(), Some("0"));
}
