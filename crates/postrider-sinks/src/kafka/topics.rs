//! Creates the configured topics at startup.

use std::time::Duration;

use postrider::{Code, Error, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic as Request, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::FromClientConfig;
use rdkafka::error::RDKafkaErrorCode;

use super::config::{KafkaConfig, NewTopic};
use super::error::not_opened;
use super::producer::{Kind, settings};

/// Timeout for the creation of topics.
const CREATE_MAX: Duration = Duration::from_secs(30);
/// Uses the default of the cluster.
const BY_DEFAULT: i32 = -1;

/// Creates the topics that do not exist. Existing topics are not changed.
///
/// # Errors
/// [`Code::SinkOpen`] with the cluster's error for the first topic that could not be created.
pub(super) fn create(config: &KafkaConfig) -> Result<()> {
    if config.create_topics.is_empty() {
        return Ok(());
    }
    // In a separate thread: the caller's thread may belong to an async runtime, where `block_on` panics.
    let created = std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        scope.spawn(|| runtime.map(|runtime| runtime.block_on(create_missing(config)))).join()
    });
    match created {
        Ok(Ok(created)) => created,
        Ok(Err(error)) => {
            Err(Error::new(Code::SinkOpen, "kafka: cannot start a thread to create topics")
                .with_source(error))
        }
        Err(_) => Err(Error::new(Code::SinkOpen, "kafka: creating topics panicked")),
    }
}

async fn create_missing(config: &KafkaConfig) -> Result<()> {
    let settings = settings(config, Kind::Plain)?;
    let admin: AdminClient<DefaultClientContext> =
        AdminClient::from_config(&settings).map_err(|error| not_opened(&config.brokers, &error))?;
    let requests: Vec<Request<'_>> = config.create_topics.iter().map(request).collect();
    let options = AdminOptions::new().request_timeout(Some(CREATE_MAX)).operation_timeout(Some(CREATE_MAX));
    let created = admin.create_topics(&requests, &options).await;
    for topic in created.map_err(|error| not_opened(&config.brokers, &error))? {
        match topic {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, why)) => {
                let what = format!("kafka {}: cannot create topic {name}: {why}", config.brokers);
                return Err(Error::new(Code::SinkOpen, what));
            }
        }
    }
    Ok(())
}

fn request(topic: &NewTopic) -> Request<'_> {
    let number = |given: Option<u16>| given.map_or(BY_DEFAULT, i32::from);
    Request::new(&topic.name, number(topic.partitions), TopicReplication::Fixed(number(topic.replication)))
}
