//! With transactions, a producer whose successor has taken over can no longer write.

use postrider::Code;
use postrider::sink::{Message, Sink};
use postrider_sinks::kafka::{Kafka, KafkaConfig};
use postrider_testkit::conformance::sink::{batch, message_with};
use postrider_testkit::servers::kafka::{Isolation, shared};

use super::topic::{DELIVERY, LEASE, committed, config, letters, name, open, texts};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_committed_records_sees_no_message_of_a_zombie_after_the_takeover() {
    let Some(kafka) = shared() else { return };
    let topic = name("zombie");
    kafka.create_topic(&topic, 2, &[]);
    let config = config(kafka, &topic).transactional_id(&topic);
    let old = open(&config).await;
    assert_eq!(letters(&old.publish(&batch("a", 0..3)).await), "aaa");

    // Another process would have its own sink, so this one does too.
    let new = open(&config).await;
    let zombie: Vec<Message> =
        (0..5).map(|n| message_with("a", n, "from the zombie", Default::default())).collect();
    assert_eq!(letters(&old.publish(&zombie).await), "xxxxx");
    assert_eq!(letters(&new.publish(&batch("a", 3..6)).await), "aaa");
    // It stays fenced: it takes the transactional id back only with a lease.
    assert_eq!(letters(&old.publish(&zombie).await), "xxxxx");
    assert_eq!(letters(&new.publish(&batch("a", 6..7)).await), "a");

    let seen = texts(&committed(kafka, &topic));
    let expected: Vec<String> = (0..7).map(|n| format!("{{\"key\":\"a\",\"number\":{n}}}")).collect();
    assert_eq!(seen, expected);
    assert!(kafka.read(&topic, Isolation::Uncommitted).len() >= 7);
    old.take_over(LEASE).await.unwrap();
    assert_eq!(letters(&new.publish(&zombie).await), "xxxxx");
}

/// The zombie is publishing: its batches run while the other sink takes over, repeatedly.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_a_zombie_has_in_flight_are_acknowledged_before_the_takeover_or_never_seen() {
    let Some(kafka) = shared() else { return };
    let topic = name("busy-zombie");
    kafka.create_topic(&topic, 1, &[]);
    let config = config(kafka, &topic).transactional_id(&topic);
    let old = open(&config).await;
    assert_eq!(letters(&old.publish(&batch("old", 0..1)).await), "a");
    let zombie = tokio::spawn(async move {
        let mut acknowledged = 1;
        while letters(&old.publish(&batch("old", acknowledged..acknowledged + 1)).await) == "a" {
            acknowledged += 1;
        }
        acknowledged
    });
    let new = open(&config).await;
    assert_eq!(letters(&new.publish(&batch("new", 0..1)).await), "a");
    let acknowledged = zombie.await.unwrap();
    let seen = texts(&committed(kafka, &topic));
    let takeover = seen.iter().position(|text| text.contains("\"new\"")).unwrap();
    assert_eq!(takeover + 1, seen.len(), "nothing of the zombie after the takeover: {seen:?}");
    // A commit without a response at the zombie may have succeeded.
    assert!(takeover == acknowledged || takeover == acknowledged + 1, "{takeover} {acknowledged}");
}

#[tokio::test]
async fn a_sink_that_cannot_take_over_reports_why_and_publishes_nothing() {
    let config = KafkaConfig::new("127.0.0.1:1").transactional_id("nobody").delivery_timeout(DELIVERY);
    let sink = Kafka::open(&config).unwrap();
    let error = sink.take_over(std::time::Duration::from_secs(4)).await.unwrap_err();
    assert_eq!(error.code(), Code::SinkFailed);
    assert!(error.report().contains("127.0.0.1:1"), "{error}");
    assert_eq!(letters(&sink.publish(&batch("a", 0..1)).await), "x");
}
