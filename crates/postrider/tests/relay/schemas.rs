//! A relay whose events are encoded with schemas: a registry that fails loses nothing, and what does not fit waits or is dead.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::encode::schema::{
    Format, RegistryConfig, SchemaBinding, SchemaConfig, SchemaEncoder, Unbound,
};
use postrider::encode::{Encoder, Outgoing};
use postrider::operate::{EventSelector, Operator};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider::{Code, Event, Position};
use postrider_testkit::eventually;
use postrider_testkit::servers::fake_registry::{FakeRegistry, Fault};

use super::shop::{RecordingSink, Shop, acknowledged, order};

const SCHEMA: &str = r#"{"type":"record","name":"OrderPlaced","fields":[{"name":"number","type":"int"}]}"#;

/// The subject of the schema.
const SUBJECT: &str = "OrderPlaced";

/// An encoder for orders, and the folder of its file.
struct Orders {
    folder: tempfile::TempDir,
    config: SchemaConfig,
}

impl Orders {
    fn new(registry: Option<&FakeRegistry>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("OrderPlaced.avsc");
        std::fs::write(&file, SCHEMA).unwrap();
        let mut config = SchemaConfig::new(Format::Avro);
        let mut binding = SchemaBinding::new("order.placed", file);
        binding.message = Some(SUBJECT.into());
        config.schemas.push(binding);
        config.registry = registry.map(|registry| RegistryConfig::new(registry.url()));
        Self { folder, config }
    }

    fn encoder(&self) -> SchemaEncoder {
        SchemaEncoder::open(&self.config).unwrap()
    }

    fn subscription(&self, sink: &RecordingSink) -> Subscription {
        let policy = Policy::default()
            .lease(Duration::from_millis(600))
            .max_attempts(2)
            .backoff_min(Duration::from_millis(5))
            .backoff_max(Duration::from_millis(20));
        Subscription::new("audit", sink.clone())
            .start(Start::Beginning)
            .policy(policy)
            .encoder(self.encoder())
    }

    async fn relay(&self, shop: &Shop, sink: &RecordingSink) -> postrider::Result<Relay> {
        Relay::builder().outbox(shop.store.clone(), [self.subscription(sink)]).spawn().await
    }
}

/// The bytes of messages and their attempts.
type Sent = Arc<Mutex<Vec<(Vec<u8>, u32)>>>;

/// A sink that records the bytes of messages and their attempts.
fn recording() -> (RecordingSink, Sent) {
    let sent = Sent::default();
    let record = sent.clone();
    let sink = RecordingSink::scripted(move |message| {
        record.lock().unwrap().push((message.body.to_vec(), message.attempt));
        acknowledged()
    });
    (sink, sent)
}

/// What `explain` says about an event.
async fn explained(shop: &Shop, position: i64) -> String {
    let sought = EventSelector::Event(position.to_string());
    Operator::new(shop.store.clone(), "test").explain(sought).await.unwrap().to_string()
}

/// The error that the status of the subscription shows.
fn shown(relay: &Relay) -> Option<String> {
    relay.status().into_iter().next().and_then(|status| status.error).map(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_fails_delays_all_events_and_burns_no_attempt() {
    for fault in [Fault::Down, Fault::Broken, Fault::Unauthorised, Fault::Wrong, Fault::Slow] {
        let shop = Shop::open();
        let registry = FakeRegistry::start(fault);
        registry.add(SUBJECT, SCHEMA);
        let (sink, sent) = recording();
        Outbox::new().write_all(&shop.connect(), (0..20).map(order)).unwrap();
        let relay = Orders::new(Some(&registry)).relay(&shop, &sink).await.unwrap();
        let is_shown = async || shown(&relay).is_some_and(|error| error.contains("schemas are missing"));
        eventually(&format!("{fault:?} is shown"), is_shown).await;
        assert_eq!(sink.events.lock().unwrap().len(), 0, "{fault:?}");
        let leases: i64 = shop
            .connect()
            .query_row("SELECT count(*) FROM postrider_leases WHERE holder IS NOT NULL", [], |row| row.get(0))
            .unwrap();
        assert_eq!(leases, 0, "{fault:?}: a relay that cannot encode does not hold the lease");
        let says = ["runs and cannot lead since", "because of error", "schemas are missing"];
        eventually(&format!("{fault:?} is explained"), async || {
            let explained = explained(&shop, 1).await;
            says.iter().all(|words| explained.contains(words))
        })
        .await;
        registry.set(Fault::None);
        sink.wait_for(20).await;
        eventually("the error is over", async || shown(&relay).is_none()).await;
        relay.shutdown().await.unwrap();
        let sent = sent.lock().unwrap().clone();
        assert_eq!(sent.len(), 20, "{fault:?}: nothing is sent twice");
        assert!(sent.iter().all(|(_, attempt)| *attempt == 1), "{fault:?}: no attempt counts");
        assert_eq!(sent[3].0, [0, 0, 0, 0, 1, 6]);
        shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_knows_its_ids_does_not_need_the_registry() {
    let shop = Shop::open();
    let registry = FakeRegistry::start(Fault::None);
    registry.add(SUBJECT, SCHEMA);
    let (sink, _) = recording();
    let relay = Orders::new(Some(&registry)).relay(&shop, &sink).await.unwrap();
    let outbox = Outbox::new();
    outbox.write_all(&shop.connect(), (0..10).map(order)).unwrap();
    sink.wait_for(10).await;
    for (round, fault) in
        [Fault::Down, Fault::Slow, Fault::Wrong, Fault::Unauthorised].into_iter().enumerate()
    {
        registry.set(fault);
        outbox.write_all(&shop.connect(), (0..10).map(order)).unwrap();
        relay.wake();
        sink.wait_for(20 + 10 * round).await;
    }
    relay.shutdown().await.unwrap();
    assert_eq!(registry.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_share_a_subject_have_an_id_each() {
    let registry = FakeRegistry::start(Fault::None);
    let mut orders = Orders::new(Some(&registry));
    let other = SCHEMA.replace("\"int\"", "\"long\"");
    let file = orders.folder.path().join("other.avsc");
    std::fs::write(&file, &other).unwrap();
    let mut binding = SchemaBinding::new("order.paid", file);
    binding.message = Some(SUBJECT.into());
    orders.config.schemas.push(binding);
    let ids = [registry.add(SUBJECT, SCHEMA), registry.add(SUBJECT, &other)];
    assert_ne!(ids[0], ids[1]);
    let encoder = orders.encoder();
    encoder.prepare().await.unwrap();
    for (event_type, id) in ["order.placed", "order.paid"].into_iter().zip(ids) {
        let event = Event::new(event_type, r#"{"number":1}"#);
        let encoded = encoder.encode(&Outgoing::new(Position::new(1), &event)).unwrap();
        assert_eq!(encoded.body[1..5], id.to_be_bytes(), "{event_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_takes_over_while_the_registry_is_down_waits_and_loses_nothing() {
    let shop = Shop::open();
    let registry = FakeRegistry::start(Fault::None);
    registry.add(SUBJECT, SCHEMA);
    let orders = Orders::new(Some(&registry));
    let (sink, sent) = recording();
    let outbox = Outbox::new();
    outbox.write_all(&shop.connect(), (0..10).map(order)).unwrap();
    let first = orders.relay(&shop, &sink).await.unwrap();
    sink.wait_for(10).await;
    registry.set(Fault::Broken);
    first.shutdown().await.unwrap();
    let second = orders.relay(&shop, &sink).await.unwrap();
    outbox.write_all(&shop.connect(), (10..20).map(order)).unwrap();
    eventually("it is shown", async || shown(&second).is_some()).await;
    assert_eq!(sink.events.lock().unwrap().len(), 10);
    registry.set(Fault::None);
    sink.wait_for(20).await;
    second.shutdown().await.unwrap();
    let mut bodies: Vec<_> = sent.lock().unwrap().iter().map(|(body, _)| body.clone()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 20, "each event once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_the_registry_refuses_refuses_the_start_with_its_words() {
    for (fault, words) in
        [(Fault::None, "does not know the schema"), (Fault::Incompatible, "field x was removed")]
    {
        let shop = Shop::open();
        let registry = FakeRegistry::start(fault);
        let (sink, _) = recording();
        let error = Orders::new(Some(&registry)).relay(&shop, &sink).await.err().unwrap();
        assert_eq!(error.code(), Code::SchemaRefused);
        assert!(error.message().contains(words), "{}", error.message());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_a_schema_once_it_is_up_is_explained_and_nothing_is_lost() {
    let shop = Shop::open();
    let registry = FakeRegistry::start(Fault::Down);
    let (sink, _) = recording();
    Outbox::new().write_all(&shop.connect(), (0..3).map(order)).unwrap();
    let relay = Orders::new(Some(&registry)).relay(&shop, &sink).await.unwrap();
    // Too late to refuse the start.
    registry.set(Fault::Incompatible);
    let is_explained = async || {
        let explained = explained(&shop, 1).await;
        explained.contains("runs and cannot lead since") && explained.contains("field x was removed")
    };
    eventually("the refusal is explained", is_explained).await;
    registry.add(SUBJECT, SCHEMA);
    registry.set(Fault::None);
    sink.wait_for(3).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_does_not_fit_is_dead_and_only_its_key_waits() {
    let shop = Shop::open();
    let (sink, _) = recording();
    let bad = Event::new("order.placed", r#"{"number":"7"}"#).with_key("bad");
    let events = [order(0), bad, order(1), Event::new("order.placed", r#"{"number":2}"#).with_key("bad")];
    Outbox::new().write_all(&shop.connect(), events).unwrap();
    let relay = Orders::new(None).relay(&shop, &sink).await.unwrap();
    sink.wait_for(3).await;
    let dead = "SELECT count(*) FROM postrider_parked WHERE state = 'dead' AND attempts = 1 \
                AND last_error LIKE 'payload.number: wanted int, found a text (type \"order.placed\", %'";
    shop.wait_until(dead, 1).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_schema_is_parked_and_goes_out_once_there_is_one() {
    let shop = Shop::open();
    let (sink, _) = recording();
    let paid = || Event::new("order.paid", r#"{"number":1}"#).with_key("a");
    Outbox::new().write_all(&shop.connect(), [paid(), order(1)]).unwrap();
    let mut orders = Orders::new(None);
    let relay = orders.relay(&shop, &sink).await.unwrap();
    sink.wait_for(1).await;
    let unrouted = "SELECT count(*) FROM postrider_parked WHERE state = 'unrouted' \
                    AND last_error = 'no schema is configured for type \"order.paid\"'";
    shop.wait_until(unrouted, 1).await;
    let explained = explained(&shop, 1).await;
    assert!(
        explained.contains("waits for another configuration: \"no schema is configured for type"),
        "{explained}"
    );
    relay.shutdown().await.unwrap();
    let mut binding = orders.config.schemas[0].clone();
    binding.event_type = "order.paid".into();
    orders.config.schemas.push(binding);
    let relay = orders.relay(&shop, &sink).await.unwrap();
    let events = sink.wait_for(2).await;
    relay.shutdown().await.unwrap();
    assert_eq!(events[1].event_type, "order.paid");
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_schema_is_dead_if_that_is_configured() {
    let shop = Shop::open();
    let (sink, _) = recording();
    Outbox::new().write_all(&shop.connect(), [Event::new("order.paid", "{}"), order(1)]).unwrap();
    let mut orders = Orders::new(None);
    orders.config.unbound = Unbound::Reject;
    let relay = orders.relay(&shop, &sink).await.unwrap();
    sink.wait_for(1).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 1).await;
    relay.shutdown().await.unwrap();
}
