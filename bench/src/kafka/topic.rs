//! A topic for one run.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;

use crate::Error;

const PARTITIONS: i32 = 6;
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A new topic, deleted by [`Topic::delete`].
pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    pub(crate) async fn create(brokers: &str, name: &str) -> Result<Self, Error> {
        let admin: AdminClient<_> = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
        // A unique name, because an interrupted run may have left a topic.
        let name = format!("postrider-bench-{name}-{}", uuid::Uuid::now_v7().simple());
        // Deleted records are removed immediately, because the next run needs the disk space.
        let new =
            NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1)).set("file.delete.delay.ms", "100");
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_MAX));
        for created in admin.create_topics([&new], &options).await? {
            created.map_err(|(topic, why)| format!("{topic} cannot be created: {why}"))?;
        }
        let topic = Self { brokers: brokers.to_owned(), name, admin };
        topic.wait_for_leaders().await?;
        Ok(topic)
    }

    /// Waits until the topic is ready, so that no run starts with a wait for the cluster.
    async fn wait_for_leaders(&self) -> Result<(), Error> {
        for _ in 0..300 {
            let metadata = self.admin.inner().fetch_metadata(Some(&self.name), ANSWER_MAX)?;
            let partitions = metadata.topics().first().map(|topic| topic.partitions()).unwrap_or_default();
            if partitions.len() == PARTITIONS as usize && partitions.iter().all(|one| one.leader() >= 0) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("{} has no leaders", self.name).into())
    }

    /// Number of offsets in use. In a topic without transactions this is the number of records.
    pub(crate) fn offsets(&self) -> Result<u64, Error> {
        let reader: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &self.brokers).create()?;
        let mut offsets = 0;
        for partition in 0..PARTITIONS {
            let (low, high) = reader.fetch_watermarks(&self.name, partition, ANSWER_MAX)?;
            offsets += u64::try_from(high - low)?;
        }
        Ok(offsets)
    }

    pub(crate) async fn delete(self) -> Result<(), Error> {
        let options = AdminOptions::new().operation_timeout(Some(ANSWER_MAX));
        for deleted in self.admin.delete_topics(&[&self.name], &options).await? {
            match deleted {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, why)) => return Err(format!("{topic} cannot be deleted: {why}").into()),
            }
        }
        Ok(())
    }
}
