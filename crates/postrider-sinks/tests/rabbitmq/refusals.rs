//! An unroutable message, a bad one, a missing exchange and a forbidden one are distinguished, and affect no other
//! message.

use postrider::Headers;
use postrider::sink::{Message, Outcome, Sink};
use postrider_sinks::rabbitmq::{ExchangeType, NewQueue, RabbitMqConfig};
use postrider_testkit::conformance::sink::{batch, message, message_with};
use postrider_testkit::servers::rabbitmq::{PASSWORD, USER_WITHOUT_RIGHTS, shared};

use super::queue::{CONFIRM, config, letters, message_to, name, open, texts};

/// Many of each in one batch, because the server confirms several messages at once, and the client hands a returned
/// message to any of them.
#[tokio::test]
async fn unroutable_messages_are_rejected_and_exactly_the_others_are_acknowledged() {
    let Some(server) = shared() else { return };
    let (exchange, queue) = (name("routed"), name("queue"));
    server.create_exchange(&exchange, "topic");
    server.create_queue(&queue, &[]);
    server.bind(&queue, &exchange, "order.*");
    let sink = open(&RabbitMqConfig::new(server.url()).exchange(&exchange).confirm_timeout(CONFIRM));
    for round in 0..5 {
        let messages: Vec<Message> = (0..400)
            .map(|number| {
                let to = if number % 3 == 1 { "nobody.listens" } else { "order.placed" };
                message_to(to, &format!("key-{number}"), &format!("{round}-{number}"))
            })
            .collect();
        let outcomes = sink.publish(&messages).await;
        let expected: String = (0..400).map(|number| if number % 3 == 1 { 'r' } else { 'a' }).collect();
        assert_eq!(letters(&outcomes), expected);
        let rejected = format!("{:?}", outcomes[1]);
        assert!(rejected.contains("unroutable") && rejected.contains("nobody.listens"), "{rejected}");
        let bodies = messages.iter().zip(expected.chars()).filter(|(_, outcome)| *outcome == 'a');
        let bodies: Vec<_> = bodies.map(|(m, _)| String::from_utf8(m.body.to_vec()).unwrap()).collect();
        assert_eq!(texts(&server.read(&queue)), bodies);
        server.purge(&queue);
    }
}

#[tokio::test]
async fn after_an_unroutable_or_refused_message_no_later_one_of_its_key_is_sent() {
    let Some(server) = shared() else { return };
    let (full, open_queue) = (name("full"), name("open"));
    server.create_queue(&full, &["x-max-length=2", "x-overflow=reject-publish"]);
    server.create_queue(&open_queue, &[]);
    let sink = open(&RabbitMqConfig::new(server.url()).confirm_timeout(CONFIRM));
    let to = |queue: &str, key: &str, number: u32| message_to(queue, key, &format!("{key}{number}"));
    // The third message of key a does not fit into the full queue; the fourth would fit elsewhere.
    let messages = [
        to(&full, "a", 0),
        to(&open_queue, "b", 0),
        to(&full, "a", 1),
        to("no-such-queue", "b", 1),
        to(&full, "a", 2),
        to(&open_queue, "b", 2),
        to(&open_queue, "a", 3),
        to(&open_queue, "c", 0),
    ];
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "aaar?--a", "{outcomes:?}");
    assert_eq!(texts(&server.read(&full)), ["a0", "a1"]);
    assert_eq!(texts(&server.read(&open_queue)), ["b0", "c0"]);
}

#[tokio::test]
async fn a_missing_exchange_fails_its_messages_and_no_others_and_is_noticed_when_it_comes_and_goes() {
    let Some(server) = shared() else { return };
    let (here, missing, queue) = (name("here"), name("missing"), name("queue"));
    server.create_exchange(&here, "fanout");
    server.create_queue(&queue, &[]);
    server.bind(&queue, &here, "");
    let config = RabbitMqConfig::new(server.url()).exchanges([&here, &missing]).confirm_timeout(CONFIRM);
    let sink = open(&config);
    let to = |exchange: &str, key: &str| message_to(&format!("{exchange}/any"), key, key);
    let messages = [to(&here, "a"), to(&missing, "b"), to("amq.fanout", "c"), to(&here, "d")];
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "affa", "{outcomes:?}");
    assert!(format!("{:?}", outcomes[1]).contains("does not exist"), "{outcomes:?}");
    server.create_exchange(&missing, "fanout");
    server.bind(&queue, &missing, "");
    assert_eq!(letters(&sink.publish(&[to(&missing, "b")]).await), "a");
    // The sink knows the exchange, so the server closes the channel, with the other messages on it.
    server.delete_exchange(&missing);
    let outcomes = sink.publish(&[to(&here, "e"), to(&missing, "f"), to(&here, "g")]).await;
    assert_eq!(letters(&outcomes), "afa", "{outcomes:?}");
    let seen = texts(&server.read(&queue));
    for key in ["a", "b", "d", "e", "g"] {
        assert!(seen.iter().any(|text| text == key), "{key} in {seen:?}");
    }
}

#[tokio::test]
async fn a_destination_without_write_permission_fails_the_message() {
    let Some(server) = shared() else { return };
    let queue = name("queue");
    server.create_exchange("allowed", "fanout");
    server.create_exchange("forbidden", "fanout");
    server.create_queue(&queue, &[]);
    server.bind(&queue, "allowed", "");
    let config = RabbitMqConfig::new(server.url()).login(USER_WITHOUT_RIGHTS, PASSWORD);
    let sink = open(&config.exchanges(["allowed", "forbidden"]).confirm_timeout(CONFIRM));
    let outcomes = sink
        .publish(&[
            message_to("allowed/x", "a", "a"),
            message_to("forbidden/x", "b", "b"),
            message_to("allowed/x", "c", "c"),
        ])
        .await;
    assert_eq!(letters(&outcomes), "afa", "{outcomes:?}");
    assert!(format!("{:?}", outcomes[1]).contains("may not write"), "{outcomes:?}");
    let mut seen = texts(&server.read(&queue));
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["a", "c"]);
}

#[tokio::test]
async fn what_does_not_fit_is_rejected_without_effect_on_other_messages() {
    let Some(server) = shared() else { return };
    let queue = name("fit");
    server.create_queue(&queue, &[]);
    let sink = open(&config(server, &queue).message_bytes_max(1000));
    let headers = |name: &str, value: &str| Headers::from_iter([(name, value)]);
    let messages = [
        message("a", 0),
        message_with("b", 0, vec![b'x'; 1001], Headers::default()),
        message_with("c", 0, "{}", headers(&"n".repeat(300), "v")),
        message_with("d", 0, "{}", headers("n", &"v".repeat(200_000))),
        message("e", 0),
    ];
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "arrra", "{outcomes:?}");
}

#[tokio::test]
async fn messages_are_persistent_and_carry_id_type_and_headers() {
    let Some(server) = shared() else { return };
    let queue = name("properties");
    server.create_queue(&queue, &[]);
    let message = message_to(&queue, "key-1", "{}");
    let outcomes = open(&RabbitMqConfig::new(server.url())).publish(std::slice::from_ref(&message)).await;
    assert!(matches!(outcomes[..], [Outcome::Acknowledged(_)]), "{outcomes:?}");
    let [seen] = &server.read(&queue)[..] else { panic!() };
    assert!(seen.is_persistent);
    assert_eq!((&*seen.exchange, &*seen.routing_key), ("", &*queue));
    assert_eq!(seen.message_id, message.event.id.to_string());
    assert_eq!(seen.content_type, message.content_type);
    let header = |name: &str| seen.headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
    assert_eq!(header("postrider-id"), seen.message_id);
    assert_eq!(header("postrider-type"), "routed");
}

#[tokio::test]
async fn exchange_and_queues_are_declared_at_the_start_if_configured() {
    let Some(server) = shared() else { return };
    let (exchange, queue) = (name("declared"), name("queue"));
    let config = RabbitMqConfig::new(server.url())
        .exchange(&exchange)
        .declare_exchange(ExchangeType::Topic)
        .declare_queue(NewQueue::quorum(&queue).bound_with("order.#"))
        .confirm_timeout(CONFIRM);
    for body in ["1", "2"] {
        let sink = open(&config);
        let outcomes = sink.publish(&[message_to("order.placed", "a", body)]).await;
        assert_eq!(letters(&outcomes), "a", "{outcomes:?}");
        sink.close().await;
    }
    assert_eq!(texts(&server.read(&queue)), ["1", "2"]);
    // It exists with another type: the server refuses, and no message is blamed.
    let other = config.declare_exchange(ExchangeType::Fanout);
    let outcomes = open(&other).publish(&batch("a", 0..1)).await;
    assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains(&exchange), "{outcomes:?}");
}
