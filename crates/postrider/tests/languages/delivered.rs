//! The events of the programs, as a relay delivers them. All programs write the same events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::encode::Plain;
use postrider::relay::{Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::{Start, Store};
use postrider::{ActionContext, BoxFuture, Event, Timestamp};
use tokio::sync::watch;
use uuid::Uuid;

/// Records every message.
#[derive(Clone)]
struct Kept {
    messages: Arc<Mutex<Vec<Message>>>,
    count: watch::Sender<usize>,
}

impl Sink for Kept {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.messages.lock().unwrap().extend_from_slice(batch);
            self.count.send_modify(|count| *count += batch.len());
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}

/// The messages that a relay delivers from the beginning of an outbox with this many events.
pub(crate) async fn deliver(store: Arc<dyn Store>, events: i64) -> Vec<Message> {
    let events = usize::try_from(events).unwrap();
    let sink = Kept { messages: Arc::default(), count: watch::channel(0).0 };
    let subscription = Subscription::new("all", sink.clone()).encoder(Plain).start(Start::Beginning);
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await.unwrap();
    let mut count = sink.count.subscribe();
    let enough = count.wait_for(|count| *count >= events);
    tokio::time::timeout(Duration::from_secs(60), enough).await.expect("not all events came").unwrap();
    relay.shutdown().await.unwrap();
    let messages = sink.messages.lock().unwrap();
    messages.clone()
}

/// Asserts that the body and the event of every message are as the programs wrote them, and that the two messages of
/// one key arrived in order. Messages of different keys have no order; positions show the order of writing.
pub(crate) fn assert_as_written(messages: &[Message]) {
    let of_order = messages.iter().filter(|message| message.key() == Some("1"));
    let placed = r#"{"order":1,"note":"Zoë says \"hi\"\n🚚"}"#;
    assert_eq!(of_order.map(body).collect::<Vec<_>>(), [placed, r#"{"version":1}"#, r#"{"version":2}"#]);

    let mut written: Vec<&Message> = messages.iter().collect();
    written.sort_by_key(|message| message.position);
    let [placed, signed, first, second] = written[..] else { panic!("{} events came", messages.len()) };
    let event = Event::new("order.placed", placed.body.clone()).with_aggregate("Order", "1");
    assert_eq!(*placed.event, with_defaults_of(placed, event));
    assert_filled_in(placed);

    assert_eq!(*signed.body, *b"\xff\x00\xfe\\x41'");
    assert_eq!(with_params_read(&signed.event), with_params_read(&all_columns()));

    for (message, text) in [(first, r#"{"version":1}"#), (second, r#"{"version":2}"#)] {
        assert_eq!(body(message), text);
        let event = Event::new("order.shipped", text).with_aggregate("Order", "1");
        assert_eq!(*message.event, with_defaults_of(message, event));
        assert_filled_in(message);
    }
    assert!(first.event.id != second.event.id && placed.event.id != first.event.id);
}

fn body(message: &Message) -> &str {
    std::str::from_utf8(&message.body).unwrap()
}

/// The id and the time that the database assigned.
fn with_defaults_of(message: &Message, event: Event) -> Event {
    event.with_id(message.event.id).with_time(message.event.time)
}

/// A UUID of version 7 from the time at which the event was written, some seconds ago.
fn assert_filled_in(message: &Message) {
    let id = message.event.id;
    assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    let (now, _) = Uuid::now_v7().get_timestamp().unwrap().to_unix();
    let written = u64::try_from(message.event.time.as_micros()).unwrap() / 1_000_000;
    assert!(seconds.abs_diff(written) <= 1 && written.abs_diff(now) < 600, "{seconds} {written} {now}");
}

/// The event for which the database assigns nothing.
fn all_columns() -> Event {
    Event::new("order.signed", &b"\xff\x00\xfe\\x41'"[..])
        .with_id(Uuid::from_u128(0x01980b7c_5a00_7000_8000_000000000001))
        .with_aggregate("Order", "№ 42")
        .with_key("Zoë 🚚")
        .with_header("content-type", "application/octet-stream")
        .with_header("tenant", "blå 🌍")
        .with_time(time("2026-11-15T21:35:00.123456Z"))
        .with_topic("orders")
        .with_max_attempts(5)
        .with_expires_at(time("2100-01-01T00:00:00Z"))
        .with_namespace("shop.checkout")
        .with_producer("node-3")
        .with_action(
            ActionContext::new("SignOrder", r#"{"by":"Zoë"}"#)
                .with_id(Uuid::from_u128(0x01980b7c_5a00_7000_8000_0000000000aa))
                .with_times(time("2026-11-15T21:34:59.9Z"), time("2026-11-15T21:35:00.000001Z")),
        )
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Languages write the same JSON in different ways, so the parsed values are compared.
fn with_params_read(event: &Event) -> Event {
    let mut event = event.clone();
    if let Some(action) = &mut event.action {
        let params: serde_json::Value = serde_json::from_str(&action.params).unwrap();
        action.params = params.to_string();
    }
    event
}
