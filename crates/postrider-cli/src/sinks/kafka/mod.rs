//! `type = "kafka"`

#[cfg(feature = "kafka")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Bool, Choice, Duration, List, Map, Path, Secret, Size, Text};
use crate::config::schema::{COUNT, KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "kafka",
    summary: "Apache Kafka",
    keys: KEYS,
    #[cfg(feature = "kafka")]
    read: Ok(target::read),
    #[cfg(not(feature = "kafka"))]
    read: Err("kafka, and kafka-tls for TLS and SCRAM"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("brokers", Text, r#""kafka-1:9092,kafka-2:9092""#, "Bootstrap brokers of the cluster.").required(),
    key("topic", Text, r#""orders""#, "The topic for all events; rules must then not set a destination. If unset, routing selects the topic of each event."),
    key("client_id", Text, r#""shop-relay""#, "The client id in broker logs and quotas.").default("postrider"),
    key("compression", Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), r#""lz4""#, "Compression of record batches.").default("none"),
    key("delivery_timeout", Duration, r#""5s""#, "How long the client tries to deliver an event. Must be less than the lease and the publish timeout of its subscriptions.").default("10s"),
    key("message_max", Size, r#""512KiB""#, "Larger events are rejected before they are sent. The broker's own limit also applies.").default("1MiB"),
    key("transactional", Bool, "true", "Publish each batch in a Kafka transaction. The broker then rejects a relay that lost its lease.").default("false"),
    key("transactional_id", Text, r#""shop-eu""#, "Prefix of the transactional id; the names of outbox and subscription follow. Must be different for databases that share a cluster.").default("postrider"),
    key("create_topics", List, r#"["orders"]"#, "Topics to create at startup if they are missing. Other topics are never created."),
    key("create_partitions", COUNT, "12", "Partitions of a created topic. Default: the cluster's default."),
    key("create_replication", COUNT, "3", "Replication factor of a created topic. Default: the cluster's default."),
    key("sasl_mechanism", Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]), r#""SCRAM-SHA-512""#, "SASL mechanism. If unset, the client does not authenticate."),
    key("sasl_username", Text, r#""relay""#, "SASL user name."),
    key("sasl_password", Secret, r#""correct horse""#, "SASL password; preferably `env:NAME` or `file:PATH`."),
    key("tls", Bool, "true", "Whether connections use TLS.").default("false"),
    key("tls_ca", Path, r#""ca.pem""#, "A PEM file with the trusted CA certificates. Default: the certificates of the operating system."),
    key("tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate."),
    key("tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate."),
    key("tls_key_password", Secret, r#""battery staple""#, "The password of the private key; preferably `env:NAME` or `file:PATH`."),
    key("properties", Map, r#"{ "linger.ms" = "5" }"#, "Additional librdkafka settings; not for secrets. Settings that the guarantees depend on are rejected."),
];
