//! The state of a topic according to the cluster, after a message timed out or for a check.

use std::time::Duration;

use postrider::Result;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as ErrorCode};
use rdkafka::producer::Producer as _;

use super::config::KafkaConfig;
use super::error::{Meaning, described, meaning, not_opened};
use super::producer::{Client, Kind, Producer, settings};

/// Timeout of a metadata request.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of a topic according to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopicHealth {
    /// All partitions have leaders.
    Up,
    /// Writing is not possible at the moment.
    Down(String),
    /// The topic does not exist, or this user must not write to it.
    NotAllowed(ErrorCode),
}

/// See [`Kafka::problem`](super::Kafka::problem).
pub(super) async fn problem(config: &KafkaConfig) -> Result<Option<String>> {
    let Some(topic) = &config.topic else { return Ok(None) };
    let producer = Producer::make(&settings(config, Kind::Plain)?);
    let producer = producer.map_err(|error| not_opened(&config.brokers, &error))?;
    let is_created = config.create_topics.iter().any(|created| created.name == *topic);
    Ok(match topic_health(&producer, topic).await {
        TopicHealth::Up => None,
        TopicHealth::Down(why) => Some(format!("topic {topic:?}: {why}")),
        TopicHealth::NotAllowed(ErrorCode::TopicAuthorizationFailed) => {
            Some(described(topic, ErrorCode::TopicAuthorizationFailed))
        }
        TopicHealth::NotAllowed(code) => (!is_created).then(|| described(topic, code)),
    })
}

/// Requests the metadata of a topic, without creating it.
pub(super) async fn topic_health(producer: &Producer, topic: &str) -> TopicHealth {
    let Some(client) = producer.client().cloned() else {
        return TopicHealth::Down("the client is gone".to_owned());
    };
    let topic = topic.to_owned();
    let fetched = tokio::task::spawn_blocking(move || fetch_topic_health(&client, &topic));
    fetched.await.unwrap_or_else(|error| TopicHealth::Down(error.to_string()))
}

/// Blocking variant. The client caches the new metadata too: otherwise it would treat a topic that was missing once as
/// missing for minutes.
pub(super) fn fetch_topic_health(client: &Client, topic: &str) -> TopicHealth {
    let metadata = match client.client().fetch_metadata(Some(topic), METADATA_TIMEOUT) {
        Ok(metadata) => metadata,
        Err(KafkaError::MetadataFetch(code)) if meaning(code) == Meaning::NotAllowedYet => {
            return TopicHealth::NotAllowed(code);
        }
        Err(error) => {
            let last = client.context().last_error();
            return TopicHealth::Down(if last.is_empty() { error.to_string() } else { last });
        }
    };
    let Some(topic) = metadata.topics().first() else {
        return TopicHealth::NotAllowed(ErrorCode::UnknownTopic);
    };
    if let Some(error) = topic.error() {
        let code = ErrorCode::from(error);
        return match meaning(code) {
            Meaning::NotAllowedYet => TopicHealth::NotAllowed(code),
            _ => TopicHealth::Down(code.to_string()),
        };
    }
    match topic.partitions().iter().find(|partition| partition.leader() < 0) {
        Some(partition) => TopicHealth::Down(format!("partition {} has no leader", partition.id())),
        None => TopicHealth::Up,
    }
}

/// The number of partitions of a topic.
pub(super) async fn partition_count(producer: &Producer, topic: &str) -> Option<usize> {
    let client = producer.client()?.clone();
    let topic = topic.to_owned();
    let fetched = tokio::task::spawn_blocking(move || {
        let metadata = client.client().fetch_metadata(Some(&topic), METADATA_TIMEOUT).ok()?;
        metadata
            .topics()
            .first()
            .filter(|topic| topic.error().is_none())
            .map(|topic| topic.partitions().len())
    });
    fetched.await.ok().flatten()
}
