//! 20 keys with many messages in flight each, while messages are refused, rights are removed and the broker is frozen or
//! killed. A consumer sees every message, and never a later one before an earlier one of its key.

use std::sync::Arc;

use postrider::Headers;
use postrider::sink::{Message, Sink};
use postrider_sinks::kafka::{KafkaConfig, Sasl};
use postrider_testkit::conformance::sink::{HotKeys, Progress, message, message_with};
use postrider_testkit::servers::kafka::{Isolation, Kafka, Listener, PASSWORD, USER_WITHOUT_RIGHTS, shared};
use postrider_testkit::verify::Verdict;
use tokio::task::JoinHandle;

use super::topic::{DELIVERY, config, name, open};

const KEYS: usize = 20;
const PER_KEY: usize = 600;

fn messages(made: impl Fn(usize, usize) -> Message) -> Arc<HotKeys> {
    let numbers = (0..PER_KEY).flat_map(|number| (0..KEYS).map(move |key| (key, number)));
    Arc::new(HotKeys::new(numbers.map(|(key, number)| made(key, number)).collect()))
}

fn small(key: usize, number: usize) -> Message {
    message(&format!("key-{key}"), number)
}

async fn publish(hot_keys: &Arc<HotKeys>, config: &KafkaConfig) -> JoinHandle<Vec<Message>> {
    let (hot_keys, sink) = (hot_keys.clone(), open(config).await as Arc<dyn Sink>);
    tokio::spawn(async move { hot_keys.publish(&sink).await })
}

fn verdict(kafka: &Kafka, topic: &str, hot_keys: &HotKeys, rejected: &[Message]) -> Verdict {
    let records = kafka.read(topic, Isolation::Uncommitted);
    let verdict = hot_keys.verify(records.iter().map(|record| &record.value[..]), rejected);
    println!("{verdict}; {:?}", hot_keys.progress());
    assert!(verdict.is_clean(), "{verdict}");
    verdict
}

/// The client keeps what it may have sent, so that nothing is written twice either.
#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_keep_their_order_while_the_broker_is_frozen_and_killed() {
    let Some(kafka) = Kafka::private() else { return };
    let topic = name("hot-outage");
    kafka.create_topic(&topic, 3, &[]);
    let hot_keys = messages(small);
    let published = publish(&hot_keys, &config(&kafka, &topic)).await;
    let all = KEYS * PER_KEY;
    hot_keys.reaches(|progress| progress.acknowledged > 0).await;
    kafka.pause();
    hot_keys.reaches(|progress| progress.unanswered > 0 || progress.acknowledged == all).await;
    kafka.resume();
    let so_far = hot_keys.progress();
    hot_keys.reaches(|progress| progress.acknowledged > so_far.acknowledged.min(all - 1)).await;
    kafka.kill();
    let so_far = hot_keys.progress();
    hot_keys
        .reaches(|progress| progress.unanswered > so_far.unanswered || progress.acknowledged == all)
        .await;
    kafka.start();
    let rejected = published.await.unwrap();
    assert_eq!((rejected.len(), hot_keys.progress().failed), (0, 0));
    assert!(hot_keys.progress().unanswered > 0, "no outage was noticed");
    let verdict = verdict(&kafka, &topic, &hot_keys, &rejected);
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// The limit of the topic is lower than the client's, for a message and for a batch. Some keys begin with a message that
/// is too large: the broker does not know the client then, and would accept the next one.
#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_keep_their_order_when_the_topic_refuses_messages_and_batches() {
    let Some(kafka) = shared() else { return };
    let topic = name("hot-small");
    kafka.create_topic(&topic, 3, &["max.message.bytes=20000"]);
    let is_oversized = |key: usize, number: usize| number % 100 == key % 7;
    let hot_keys = messages(|key, number| {
        let bytes = if is_oversized(key, number) { 30_000 } else { 900 };
        let body = format!("{{\"key\":{key},\"number\":{number},\"fill\":\"{}\"}}", "x".repeat(bytes));
        message_with(&format!("key-{key}"), number, body, Headers::default())
    });
    // Smaller than a message that is too large, so that it has a batch of its own and others follow it.
    let config = config(kafka, &topic).property("batch.size", "25000");
    let rejected = publish(&hot_keys, &config).await.await.unwrap();
    let expected = (0..KEYS).flat_map(|key| (0..PER_KEY).map(move |number| (key, number)));
    assert_eq!(rejected.len(), expected.filter(|(key, number)| is_oversized(*key, *number)).count());
    assert!(rejected.iter().all(|message| message.body.len() > 30_000));
    let verdict = verdict(kafka, &topic, &hot_keys, &rejected);
    assert_eq!((verdict.duplicates, hot_keys.progress().failed), (0, 0), "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_keep_their_order_when_the_right_to_write_is_removed_and_granted_again() {
    let Some(kafka) = shared() else { return };
    let topic = name("hot-rights");
    kafka.create_topic(&topic, 3, &[]);
    kafka.allow_write(USER_WITHOUT_RIGHTS, &topic);
    let mut config =
        KafkaConfig::new(kafka.brokers_of(Listener::Sasl)).delivery_timeout(DELIVERY).topic(&topic);
    config.sasl = Some(Sasl::new("PLAIN", USER_WITHOUT_RIGHTS, PASSWORD));
    let hot_keys = messages(small);
    kafka.forbid_write(USER_WITHOUT_RIGHTS, &topic);
    let published = publish(&hot_keys, &config).await;
    // Without a right to write to any topic, the cluster accepts no client; otherwise it refuses the topic.
    let refused = |progress: &Progress| progress.failed + progress.unanswered;
    hot_keys.reaches(|progress| refused(progress) > 0).await;
    kafka.allow_write(USER_WITHOUT_RIGHTS, &topic);
    hot_keys.reaches(|progress| progress.acknowledged > 0).await;
    kafka.forbid_write(USER_WITHOUT_RIGHTS, &topic);
    let so_far = hot_keys.progress();
    hot_keys
        .reaches(|progress| refused(progress) > refused(&so_far) || progress.acknowledged == KEYS * PER_KEY)
        .await;
    kafka.allow_write(USER_WITHOUT_RIGHTS, &topic);
    let rejected = published.await.unwrap();
    assert_eq!(rejected.len(), 0);
    verdict(kafka, &topic, &hot_keys, &rejected);
}
