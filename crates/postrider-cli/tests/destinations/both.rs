//! One outbox, two subscriptions, to Kafka and to a webhook: neither waits for the other.

use postrider::Event;
use postrider_testkit::eventually_blocking;
use postrider_testkit::servers::endpoint::Endpoint;
use postrider_testkit::servers::kafka::Isolation;

use super::destination::{Destination, Topic};
use super::relays::Relays;
use super::shop::Shop;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACESTATE: &str = "shop=t61rcWkgMzE";

#[test]
fn one_event_goes_to_kafka_and_to_a_webhook_and_neither_waits_for_the_other() {
    let Some(topic) = Topic::create("orders", 1, false) else { return };
    let (Some(endpoint), Some(shop)) = (Endpoint::private(), Shop::open()) else { return };
    let config = format!(
        "[outbox.shop]\nurl = '{}'\n{}{}\
         [subscription.to_kafka]\nsink = 'kafka'\nstart = 'beginning'\nprobe_max = '1s'\n\
         [subscription.to_hook]\nsink = 'hook'\nstart = 'beginning'\nprobe_max = '1s'\n",
        shop.url,
        topic.sink(),
        endpoint.sink()
    );
    let relays = Relays::start(&shop, &config, 1);
    let at = |subscription: &str, position: i64| {
        eventually_blocking(&format!("{subscription} at {position}"), || {
            shop.floor(subscription) >= position
        });
    };
    let placed = |payload: &str| Event::new("order.placed", payload.to_owned()).with_key("42");

    // Both up.
    let traced = placed("{\"total\":12}")
        .with_header("traceparent", TRACEPARENT)
        .with_header("tracestate", TRACESTATE);
    let first = shop.write_one(traced);
    at("to_kafka", 1);
    at("to_hook", 1);

    // Each down in turn: the other one gets the event, and the one that was down gets it later.
    topic.stop();
    let second = shop.write_one(placed("2"));
    at("to_hook", 2);
    assert_eq!(shop.floor("to_kafka"), 1);
    let leader = relays.leader();
    eventually_blocking("the outage in the log", || {
        relays.times(&leader, "destination is down; failures do not count") == 1
    });
    topic.start();
    at("to_kafka", 2);
    // The client retries several times a second; the log reports the outage once, and its end once.
    eventually_blocking("the end of the outage in the log", || {
        relays.times(&leader, "the brokers are reachable again") == 1
    });
    assert_eq!(relays.times(&leader, "no broker is reachable"), 1);
    assert_eq!(relays.times(&leader, " WARN "), 2, "the client's, and that of the relay");
    endpoint.kill();
    let third = shop.write_one(placed("3"));
    at("to_kafka", 3);
    assert_eq!(shop.floor("to_hook"), 2);
    endpoint.start();
    at("to_hook", 3);
    relays.shut_down();

    let (records, requests) = (topic.kafka.read("orders", Isolation::Committed), endpoint.received());
    let expected = [(&first, "{\"total\":12}"), (&second, "2"), (&third, "3")];
    assert_eq!((records.len(), requests.len()), (3, 3), "{records:?} {requests:?}");
    for ((id, payload), (record, request)) in expected.into_iter().zip(records.iter().zip(&requests)) {
        let header =
            |name: &str| record.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..]);
        assert_eq!((header("postrider-id"), &record.value[..]), (Some(id.as_bytes()), payload.as_bytes()));
        assert_eq!((request.id.as_str(), &request.body[..]), (id.as_str(), payload.as_bytes()));
        assert_eq!(request.header("postrider-key"), Some("42"));
        assert_eq!(record.key.as_deref(), Some(&b"42"[..]));
        // The trace of the writer arrives with its event at both destinations, and with no other event.
        for (name, value) in [("traceparent", TRACEPARENT), ("tracestate", TRACESTATE)] {
            let expected = (*id == first).then_some(value);
            assert_eq!(
                (header(name), request.header(name)),
                (expected.map(str::as_bytes), expected),
                "{name}"
            );
        }
    }
    assert_eq!(shop.attempts(), 0);
}
