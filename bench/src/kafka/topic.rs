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

/// A fresh topic, deleted by [`Topic::delete`].
pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    pub(crate) async fn create(brokers: &str, name: &str) -> Result<Self, Error> {
        let admin: AdminClient<_> = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
        // Of its own, whatever an earlier run that was cut short has left.
        let name = format!("postrider-bench-{name}-{}", uuid::Uuid::now_v7().simple());
        // What is deleted goes at once: the next run needs the room.
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

    /// No process's run begins with waiting for the cluster.
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

    /// Offsets in use. Of a topic without transactions: records.
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
