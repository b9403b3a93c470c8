//! Every field of an event is read as it was written.

use postrider::ledger::Progress;
use postrider::{ActionContext, Event, Limits, Result, Timestamp};
use uuid::Uuid;

use super::Databases;
use super::stage::{drain, subscribed};

/// With quotes, line breaks, and characters outside ASCII where they are allowed.
pub async fn every_field_comes_back_as_it_was_written(databases: &Databases) -> Result<()> {
    come_back(
        databases,
        vec![
            Event::new("order.placed", r#"{"a": 1,  "ü":"\n"}"#)
                .with_id(Uuid::from_u128(0xfedc_ba98_7654_4321_8000_0000_0000_0001))
                .with_aggregate("Bestellung", "ä'\"; DROP TABLE x; 訂單 🚚")
                .with_key("schlüssel")
                .with_header("content-type", "application/json")
                .with_header("x-quote", "\"'\\ ü 訂")
                .with_time(Timestamp::from_micros(1_763_242_500_123_456))
                .with_topic("orders")
                .with_max_attempts(u32::MAX)
                .with_expires_at(Timestamp::from_micros(1_763_242_500_123_457))
                .with_action(
                    ActionContext::new("PlaceOrder", r#"{"z": [1, 2.50],  "a": null}"#)
                        .with_id(Uuid::from_u128(7))
                        .with_times(Timestamp::from_micros(1), Timestamp::from_micros(2)),
                )
                .with_namespace("shop")
                .with_producer("node-1"),
        ],
    )
    .await
}

/// Omitted fields stay empty.
pub async fn an_event_with_only_a_type_comes_back(databases: &Databases) -> Result<()> {
    come_back(databases, vec![Event::new("bare", "")]).await
}

/// Empty, binary, text with a zero byte, invalid UTF-8, JSON with spaces.
pub async fn payloads_come_back_byte_for_byte(databases: &Databases) -> Result<()> {
    let all: Vec<u8> = (0..=255).collect();
    let payloads = [Vec::new(), all, b"a\0b".to_vec(), vec![0xff, 0xfe], b" {\"a\" : 1.0} ".to_vec()];
    come_back(databases, payloads.into_iter().map(|payload| Event::new("bytes", payload)).collect()).await
}

/// Every text, header and payload has its maximum size.
pub async fn the_largest_event_comes_back(databases: &Databases) -> Result<()> {
    let limits = Limits::default();
    let text = "x".repeat(limits.text_bytes_max);
    let mut event = Event::new(&text, vec![0xab; limits.payload_bytes_max])
        .with_aggregate(&text, &text)
        .with_key("k".repeat(limits.text_bytes_max))
        .with_topic(&text)
        .with_namespace(&text)
        .with_producer(&text);
    for number in 0..limits.headers_max {
        let name = format!("{number:0width$}", width = limits.header_name_bytes_max);
        event = event.with_header(name, "v".repeat(limits.header_value_bytes_max));
    }
    come_back(databases, vec![event]).await
}

/// With a precision of microseconds.
pub async fn times_before_1970_come_back(databases: &Databases) -> Result<()> {
    let at = |micros| {
        let time = Timestamp::from_micros(micros);
        Event::new("old", "").with_time(time).with_expires_at(time)
    };
    come_back(databases, vec![at(-1), at(0), at(-62_135_596_800_000_000), at(-1_000_001)]).await
}

async fn come_back(databases: &Databases, events: Vec<Event>) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events.clone()).await?;
    let claimed = drain(&mut store.claimer(&Progress::default())).await?;
    assert!(claimed.iter().map(|stored| &*stored.event).eq(&events), "{claimed:?} is not {events:?}");
    assert!(store.fetch(written, usize::MAX).await?.events == claimed, "fetch and claim differ");
    Ok(())
}
