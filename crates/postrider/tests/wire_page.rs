//! The page `docs/src/wire.md` says what the encoders write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::encode::{Encoder, Envelope, Outgoing, Plain};
use postrider::sink::Message;
use postrider::{Action, Event, Position, Timestamp};
use uuid::Uuid;

const PAGE: &str = include_str!("../../../docs/src/wire.md");
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
        .with_action(Action {
            id: "01980b7c-5a00-7000-8000-0000000000aa".parse().unwrap(),
            name: "PlaceOrder".into(),
            params: r#"{"cart":9}"#.into(),
            started: time("2026-11-15T21:34:59.9Z"),
            completed: time("2026-11-15T21:35:00.000001Z"),
        })
}

fn small(payload: impl Into<bytes::Bytes>) -> Event {
    Event::new("order.placed", payload)
        .with_id(Uuid::from_u128(0x01980b7c_5a00_7000_8000_000000000001))
        .with_time(time("2026-11-15T21:35:00Z"))
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The code block of the page that opens with "```" and this.
fn block(opening: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{opening}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Names in the first column of the table under a heading.
fn table(heading: &str) -> BTreeSet<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// JSON without the whitespace between its tokens. The examples hold none inside their texts.
fn tight(json: &str) -> String {
    json.split_whitespace().collect()
}

fn envelope(event: &Event) -> String {
    String::from_utf8(Envelope.encode(&Outgoing::new(POSITION, event)).unwrap().body.into()).unwrap()
}

#[test]
fn the_envelope_is_the_pages_example_to_the_byte() {
    assert_eq!(envelope(&event()), tight(block("json envelope")));
    assert_eq!(envelope(&small(vec![0xff, 0])), tight(block("json envelope-small")));
}

#[test]
fn the_page_names_every_field_of_the_envelope_and_no_other() {
    let mut fields = BTreeSet::from(["payload_base64".to_owned()]);
    let json: serde_json::Value = serde_json::from_str(&envelope(&event())).unwrap();
    fields.extend(json.as_object().unwrap().keys().cloned());
    assert_eq!(fields.iter().map(String::as_str).collect::<BTreeSet<_>>(), table("Envelope"));
}

#[test]
fn the_headers_of_plain_are_the_pages_example() {
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    let message = Message::encode(&encoder, POSITION, Arc::new(event()), "orders".into()).unwrap();
    let headers: String =
        message.headers().iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    assert_eq!(headers, block("text plain"));
    assert_eq!(message.body, event().payload);
}

#[test]
fn the_page_names_every_header_of_plain_and_no_other() {
    let event = event();
    let headers = Plain.headers(&Outgoing::new(POSITION, &event));
    assert_eq!(headers.iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), table("Plain"));
}
