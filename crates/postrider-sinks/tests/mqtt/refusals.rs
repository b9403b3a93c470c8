//! A bad message and a topic that cannot be used affect no other message, and no later one of their key is published.

use postrider::Headers;
use postrider::sink::{Message, Sink};
use postrider_sinks::mqtt::Qos;
use postrider_testkit::conformance::sink::{letters, message_with};
use postrider_testkit::servers::mosquitto::{Listener, Mosquitto, PASSWORD, USER_WITH_FEW_RIGHTS, shared};

use super::topic::{config, name, open, payloads, to};

#[tokio::test]
async fn a_topic_that_this_user_may_not_use_fails_its_messages_and_stops_their_keys_and_no_others() {
    let Some(broker) = shared() else { return };
    let (allowed, forbidden) = (name("allowed"), name("forbidden"));
    broker.subscribe(&allowed, &allowed);
    for (qos, first) in [(Qos::AtLeastOnce, 0), (Qos::ExactlyOnce, 100)] {
        let mut config = config(broker).user(USER_WITH_FEW_RIGHTS, PASSWORD).qos(qos);
        config.address = broker.address(Listener::Password);
        let batch = [
            to(&allowed, "a", first),
            to(&forbidden, "a", first + 1),
            to(&allowed, "a", first + 2),
            to(&allowed, "b", first),
            to(&allowed, "b", first + 1),
        ];
        let sink = open(&config);
        let outcomes = sink.publish(&batch).await;
        let found = letters(&outcomes);
        assert!(format!("{outcomes:?}").contains("may not publish"), "{outcomes:?}");
        // Mosquitto 2.0.11 closes the connection if another message arrived together with the refused one.
        assert!(["af-aa", "af-a?"].contains(&&*found), "{qos:?} {outcomes:?}");
        if found.ends_with('?') {
            assert_eq!(letters(&sink.publish(&batch[4..]).await), "a", "{qos:?}");
        }
    }
    let mut seen = payloads(&broker.receive(&allowed));
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["a 0", "a 100", "b 0", "b 1", "b 100", "b 101"]);
}

#[tokio::test]
async fn a_message_without_a_subscriber_fails_unless_configured() {
    let Some(broker) = shared() else { return };
    let topic = name("alone");
    let outcomes = open(&config(broker)).publish(&[to(&topic, "a", 0), to(&topic, "a", 1)]).await;
    assert_eq!(letters(&outcomes), "f-", "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains("no subscription matches"), "{outcomes:?}");
    let careless = open(&config(broker).require_subscriber(false));
    assert_eq!(letters(&careless.publish(&[to(&topic, "a", 0), to(&topic, "a", 1)]).await), "aa");
}

/// A topic, a key or a header that would make the broker close the connection of all others.
#[tokio::test]
async fn texts_that_mqtt_does_not_allow_stop_no_other_message() {
    let Some(broker) = shared() else { return };
    let topic = name("texts");
    broker.subscribe(&topic, &topic);
    let sink = open(&config(broker));
    let long = "x".repeat(70_000);
    for wrong in ["", "a/+/b", "#", "a\u{0}b", "a\nb", "\u{fffe}", "$SYS/broker", "$share/g/t", &long] {
        let outcomes = sink.publish(&[to(wrong, "a", 0), to(&topic, "b", 0)]).await;
        assert_eq!(letters(&outcomes), "ra", "{wrong:?}: {outcomes:?}");
        assert_eq!(broker.receive(&topic).len(), 1, "{wrong:?}");
    }
    let header = |name: &str, value: &str| {
        let mut message = message_with("\u{1}\u{fdd0}%", 0, "{}", Headers::from_iter([(name, value)]));
        message.destination = topic.as_str().into();
        message
    };
    let batch: [Message; 3] = [header("a\u{7f}", "b\u{0}"), to(&topic, "b", 1), header("long", &long)];
    assert_eq!(letters(&sink.publish(&batch).await), "aar");
    let seen = broker.receive(&topic);
    let first = seen.iter().find(|message| message.payload == b"{}").unwrap();
    assert_eq!(first.property("key"), Some("%01%EF%B7%90%25"));
    assert_eq!(first.property("a%7F"), Some("b%00"));
    assert_eq!(first.content_type, "application/json");
}

/// The broker accepts few messages before it confirms the first, and small packets.
#[tokio::test]
async fn the_limits_of_the_broker_are_respected() {
    let Some(broker) = Mosquitto::with("max_inflight_messages 3\nmax_packet_size 20000\n") else { return };
    let topic = name("limits");
    broker.subscribe(&topic, &topic);
    for (qos, first) in [(Qos::AtLeastOnce, 0), (Qos::ExactlyOnce, 1_000)] {
        let sink = open(&config(&broker).qos(qos));
        assert_eq!(sink.broker().await.unwrap().receive_max, 3);
        assert_eq!(sink.broker().await.unwrap().packet_bytes_max, Some(20_000));
        let mut batch: Vec<Message> = (0..300).map(|n| to(&topic, &format!("k{n}"), first + n)).collect();
        let mut large = message_with("large", 0, vec![b'x'; 20_000], Headers::default());
        large.destination = topic.as_str().into();
        batch.insert(100, large);
        let outcomes = sink.publish(&batch).await;
        assert_eq!(letters(&outcomes), format!("{}r{}", "a".repeat(100), "a".repeat(200)), "{qos:?}");
    }
    assert_eq!(broker.receive(&topic).len(), 600);
}

#[tokio::test]
async fn a_broker_without_the_configured_qos_is_down_and_named() {
    let Some(broker) = Mosquitto::with("max_qos 1\nretain_available false\n") else { return };
    let topic = name("qos");
    broker.subscribe(&topic, &topic);
    for (config, said) in
        [(config(&broker).qos(Qos::ExactlyOnce), "QoS up to 1"), (config(&broker).retain(true), "retain")]
    {
        let sink = open(&config);
        let outcomes = sink.publish(&[to(&topic, "a", 0)]).await;
        assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
        assert!(format!("{outcomes:?}").contains(said), "{outcomes:?}");
        assert!(sink.broker().await.unwrap_err().report().contains(said));
    }
    assert_eq!(letters(&open(&config(&broker)).publish(&[to(&topic, "a", 0)]).await), "a");
}
