//! A bad message, a missing topic and a forbidden one are distinguished, and affect no other message.

use postrider::Headers;
use postrider::sink::{Message, Outcome, Sink};
use postrider_sinks::kafka::{KafkaConfig, NewTopic, Sasl};
use postrider_testkit::conformance::sink::{message, message_with};
use postrider_testkit::servers::kafka::{Listener, PASSWORD, USER_WITHOUT_RIGHTS, shared};

use super::topic::{DELIVERY, committed, config, letters, name, open, texts};

#[tokio::test]
async fn a_missing_topic_fails_the_message_and_is_not_created() {
    let Some(kafka) = shared() else { return };
    for transactions in [false, true] {
        let topic = name("missing");
        let mut config = config(kafka, &topic);
        config.transactional_id = transactions.then(|| topic.clone());
        let sink = open(&config).await;
        let outcomes = sink.publish(&[message("a", 0), message("b", 0)]).await;
        assert_eq!(letters(&outcomes), "ff", "{outcomes:?}");
        assert!(!kafka.topics().contains(&topic));
        // The topic is created: the client notices it at the next attempt, so the attempt after that succeeds.
        kafka.create_topic(&topic, 1, &[]);
        let mut outcomes = Vec::new();
        for _ in 0..5 {
            outcomes = sink.publish(&[message("a", 0), message("b", 0)]).await;
            if letters(&outcomes) == "aa" {
                break;
            }
        }
        assert_eq!(letters(&outcomes), "aa", "{outcomes:?}");
    }
}

#[tokio::test]
async fn topics_are_created_at_the_start_if_configured() {
    let Some(kafka) = shared() else { return };
    let topic = name("created");
    let mut config = config(kafka, &topic);
    config.create_topics = vec![NewTopic::new(&topic).partitions(2)];
    for _ in 0..2 {
        let sink = open(&config).await;
        assert_eq!(letters(&sink.publish(&[message("a", 0)]).await), "a");
    }
    assert_eq!(committed(kafka, &topic).len(), 2);
}

/// The topic's limit is lower than the client's, so the broker refuses, and it refuses all records that were sent
/// together.
#[tokio::test]
async fn in_a_batch_that_the_broker_refuses_only_the_oversized_message_is_rejected() {
    let Some(kafka) = shared() else { return };
    for transactions in [false, true] {
        let topic = name("small");
        kafka.create_topic(&topic, 1, &["max.message.bytes=20000"]);
        let mut config = config(kafka, &topic);
        config.transactional_id = transactions.then(|| topic.clone());
        let sink = open(&config).await;
        let sized = |key: usize, bytes: usize| {
            message_with(&format!("key-{key}"), 0, vec![b'x'; bytes], Headers::default())
        };
        let messages: Vec<Message> =
            (0..20).map(|key| sized(key, if key == 7 { 30_000 } else { 5_000 })).collect();
        let outcomes = sink.publish(&messages).await;
        assert_eq!(letters(&outcomes), "aaaaaaaraaaaaaaaaaaa", "{outcomes:?}");
        assert_eq!(committed(kafka, &topic).len(), 19);
    }
}

#[tokio::test]
async fn a_topic_without_write_permission_fails_the_message() {
    let Some(kafka) = shared() else { return };
    let (ours, other) = (name("ours"), name("other"));
    for topic in [&ours, &other] {
        kafka.create_topic(topic, 1, &[]);
    }
    kafka.allow_write(USER_WITHOUT_RIGHTS, "ours-");
    let mut config =
        KafkaConfig::new(kafka.brokers_of(Listener::Sasl)).delivery_timeout(DELIVERY).topic(&other);
    config.sasl = Some(Sasl::new("PLAIN", USER_WITHOUT_RIGHTS, PASSWORD));
    let outcomes = open(&config).await.publish(&[message("a", 0)]).await;
    assert!(
        matches!(&outcomes[0], Outcome::Failed(why) if why.message.contains("authorization failed")),
        "{outcomes:?}"
    );
    config.topic = Some(ours.clone());
    let outcomes = open(&config).await.publish(&[message("a", 0)]).await;
    assert_eq!(letters(&outcomes), "a", "{outcomes:?}");
    assert_eq!(texts(&committed(kafka, &ours)), ["{\"key\":\"a\",\"number\":0}"]);
}

#[tokio::test]
async fn a_receipt_contains_partition_and_offset_and_a_key_has_the_same_partition_as_in_java() {
    let Some(kafka) = shared() else { return };
    let topic = name("partitions");
    kafka.create_topic(&topic, 12, &[]);
    let sink = open(&config(kafka, &topic)).await;
    let messages: Vec<Message> =
        ["21", "foobar", "a-little-bit-long-string"].map(|key| message(key, 0)).into();
    let outcomes = sink.publish(&messages).await;
    let records = committed(kafka, &topic);
    for (message, outcome) in messages.iter().zip(&outcomes) {
        let key = message.key().unwrap().as_bytes();
        let record = records.iter().find(|record| record.key.as_deref() == Some(key)).unwrap();
        let Outcome::Acknowledged(receipt) = outcome else { panic!("{outcome:?}") };
        assert_eq!(receipt.text, format!("partition {} offset {}", record.partition, record.offset));
        assert_eq!(record.partition, (murmur2(key) & 0x7fff_ffff) as i32 % 12);
    }
    // The values of the tests of Kafka's client.
    assert_eq!(murmur2(b"21") as i32, -973_932_308);
    assert_eq!(murmur2(b"foobar") as i32, -790_332_482);
}

/// Kafka's hash of a key, implemented again from its definition.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let mut k = u32::from_le_bytes(word.try_into().unwrap()).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word: u32, byte| (word << 8) | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}
