//! The Kafka sink of the configuration.

use std::sync::Arc;

use postrider::Result;
use postrider::sink::Sink;

use crate::config::settings::KafkaSettings;

/// Opens it.
#[cfg(feature = "kafka")]
pub(super) fn open(settings: &KafkaSettings, transactional_id: Option<&str>) -> Result<Arc<dyn Sink>> {
    use postrider_sinks::kafka::{Compression, Kafka, KafkaConfig, NewTopic, Sasl, Tls};

    let mut config = KafkaConfig::new(&settings.brokers);
    config.client_id.clone_from(&settings.client_id);
    config.topic.clone_from(&settings.topic);
    config.compression = match &*settings.compression {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::None,
    };
    config.delivery_timeout = settings.delivery_timeout;
    config.message_bytes_max = settings.message_bytes_max;
    config.transactional_id = transactional_id.map(str::to_owned);
    let (partitions, replication) = (settings.create_partitions, settings.create_replication);
    let topic = |name: &String| NewTopic { name: name.clone(), partitions, replication };
    config.create_topics = settings.create_topics.iter().map(topic).collect();
    config.sasl = settings.sasl.as_ref().map(|sasl| Sasl {
        mechanism: sasl.mechanism.clone(),
        username: sasl.username.clone(),
        password: sasl.password.expose_secret().to_owned(),
    });
    config.tls = settings.tls.as_ref().map(|tls| Tls {
        ca: tls.ca.clone(),
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        key_password: tls.key_password.as_ref().map(|password| password.expose_secret().to_owned()),
    });
    config.properties.clone_from(&settings.properties);
    Ok(Arc::new(Kafka::open(&config)?))
}

/// This program has no Kafka in it.
#[cfg(not(feature = "kafka"))]
pub(super) fn open(settings: &KafkaSettings, _: Option<&str>) -> Result<Arc<dyn Sink>> {
    use postrider::{Code, Error};

    let what = format!("kafka {}: this program was built without Kafka", settings.brokers);
    Err(Error::new(Code::SinkOpen, what)
        .with_hint("build it with --features kafka, and kafka-tls for TLS and SCRAM"))
}
