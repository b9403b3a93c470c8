//! What the cluster says of a topic, after a message timed out.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Answer};
use rdkafka::producer::Producer as _;

use super::error::{Meaning, meaning};
use super::producer::{Client, Producer};

/// How long the cluster may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What the cluster says of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopicHealth {
    /// All its partitions have leaders.
    Up,
    /// It cannot be written to now.
    Down(String),
    /// It is not there, or not ours.
    NotAllowed(Answer),
}

/// Asks for a topic, and creates none.
pub(super) async fn topic_health(producer: &Producer, topic: &str) -> TopicHealth {
    let Some(client) = producer.client().cloned() else {
        return TopicHealth::Down("the client is gone".to_owned());
    };
    let topic = topic.to_owned();
    let fetched = tokio::task::spawn_blocking(move || fetch_topic_health(&client, &topic));
    fetched.await.unwrap_or_else(|error| TopicHealth::Down(error.to_string()))
}

/// The same, for a thread that may wait. The client learns the answer too: it would otherwise take a topic that it
/// once found missing for missing for minutes.
pub(super) fn fetch_topic_health(client: &Client, topic: &str) -> TopicHealth {
    let metadata = match client.client().fetch_metadata(Some(topic), ANSWER_MAX) {
        Ok(metadata) => metadata,
        Err(KafkaError::MetadataFetch(answer)) if meaning(answer) == Meaning::NotAllowedYet => {
            return TopicHealth::NotAllowed(answer);
        }
        Err(error) => {
            let last = client.context().last_error();
            return TopicHealth::Down(if last.is_empty() { error.to_string() } else { last });
        }
    };
    let Some(topic) = metadata.topics().first() else { return TopicHealth::NotAllowed(Answer::UnknownTopic) };
    if let Some(error) = topic.error() {
        let answer = Answer::from(error);
        return match meaning(answer) {
            Meaning::NotAllowedYet => TopicHealth::NotAllowed(answer),
            _ => TopicHealth::Down(answer.to_string()),
        };
    }
    match topic.partitions().iter().find(|partition| partition.leader() < 0) {
        Some(partition) => TopicHealth::Down(format!("partition {} has no leader", partition.id())),
        None => TopicHealth::Up,
    }
}
