//! The page `docs/src/wire.md` shows what the encoders write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::encode::cloudevents::Binding;
use postrider::encode::{CloudEvents, CloudEventsBinary, Encoder, Envelope, Outgoing, Plain};
use postrider::sink::Message;
use postrider::{ActionContext, Event, Position, Timestamp};
use uuid::Uuid;

const PAGE: &str = include_str!("../../../../docs/src/wire.md");
const POSITION: Position = Position::new(17);

/// The event of the page's examples.
fn event() -> Event {
    small(r#"{"order":42,"total":12.50}"#)
        .with_aggregate("Order", "42")
        .with_key("customer-7")
        .with_topic("orders")
        .with_namespace("shop.checkout")
        .with_producer("node-3")
        .with_header("tenant", "blue")
        .with_action(
            ActionContext::new("PlaceOrder", r#"{"cart":9}"#)
                .with_id("01980b7c-5a00-7000-8000-0000000000aa".parse().unwrap())
                .with_times(time("2026-11-15T21:34:59.9Z"), time("2026-11-15T21:35:00.000001Z")),
        )
}

fn small(payload: impl Into<bytes::Bytes>) -> Event {
    Event::new("order.placed", payload)
        .with_id(Uuid::from_u128(0x01980b7c_5a00_7000_8000_000000000001))
        .with_time(time("2026-11-15T21:35:00Z"))
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The code block of the page that begins with "```" and this text.
fn block(opening: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{opening}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Names in the first column of the table under a heading.
fn table(heading: &str) -> BTreeSet<String> {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let name = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    section.lines().filter_map(name).collect()
}

/// JSON without the whitespace between its tokens. The texts of the examples contain none.
fn tight(json: &str) -> String {
    json.split_whitespace().collect()
}

/// The body that an encoder creates for an event.
fn body(encoder: &impl Encoder, event: &Event) -> String {
    let encoded = encoder.encode(&Outgoing::new(POSITION, event)).unwrap();
    String::from_utf8(encoded.body.into()).unwrap()
}

/// The names in the JSON object that an encoder creates for the page's event.
fn fields(encoder: &impl Encoder) -> BTreeSet<String> {
    let json: serde_json::Value = serde_json::from_str(&body(encoder, &event())).unwrap();
    json.as_object().unwrap().keys().cloned().collect()
}

/// The headers of a message with the page's event, one per line.
fn headers(encoder: impl Encoder) -> String {
    let encoder: Arc<dyn Encoder> = Arc::new(encoder);
    let message = Message::encode(&encoder, POSITION, Arc::new(event()), "orders".into()).unwrap();
    assert_eq!(message.body, event().payload);
    message.headers().iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn owned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_envelope_equals_the_example_on_the_page() {
    assert_eq!(body(&Envelope, &event()), tight(block("json envelope")));
    assert_eq!(body(&Envelope, &small(vec![0xff, 0])), tight(block("json envelope-small")));
}

#[test]
fn the_page_lists_exactly_the_fields_of_the_envelope() {
    assert_eq!(&fields(&Envelope) | &owned(&["payload_base64"]), table("Envelope"));
}

#[test]
fn the_headers_of_plain_equal_the_example_on_the_page() {
    assert_eq!(headers(Plain), block("text plain"));
}

#[test]
fn the_page_lists_exactly_the_headers_of_plain() {
    let event = event();
    let headers = Plain.headers(&Outgoing::new(POSITION, &event));
    assert_eq!(headers.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), table("Plain"));
}

#[test]
fn a_structured_cloudevent_equals_the_example_on_the_page() {
    let encoder = CloudEvents::default();
    assert_eq!(body(&encoder, &event()), tight(block("json cloudevents")));
    assert_eq!(body(&encoder, &small(vec![0xff, 0])), tight(block("json cloudevents-small")));
}

#[test]
fn the_page_lists_exactly_the_attributes_of_a_cloudevent() {
    let more = owned(&["data_base64", "traceparent", "tracestate"]);
    let named = &(&fields(&CloudEvents::default()) | &more) - &owned(&["tenant"]);
    assert_eq!(named, table("CloudEvents, structured"));
}

#[test]
fn the_headers_of_a_binary_cloudevent_equal_the_example_on_the_page() {
    assert_eq!(headers(CloudEventsBinary::default()), block("text cloudevents-binary"));
}

#[test]
fn the_page_lists_the_prefix_of_every_binding() {
    for binding in [Binding::Http, Binding::Kafka, Binding::Amqp] {
        assert!(PAGE.contains(&format!("| `{}` |", binding.prefix())), "{binding:?}");
    }
    assert!(PAGE.contains("| MQTT 5 | none |") && Binding::Mqtt.prefix().is_empty());
}
