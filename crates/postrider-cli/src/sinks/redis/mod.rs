//! `type = "redis"`

#[cfg(feature = "redis")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Bool, Duration, Number, Path, Secret, Size, Text};
use crate::config::schema::{COUNT, KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "redis",
    summary: "Redis Streams",
    keys: KEYS,
    #[cfg(feature = "redis")]
    read: Ok(target::read),
    #[cfg(not(feature = "redis"))]
    read: Err("redis"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("address", Text, r#""redis-1:6379""#, "`host:port` of the primary.").required(),
    key("database", Number { min: 0 }, "1", "The number of the database.").default("0"),
    key("username", Text, r#""relay""#, "The ACL user. Default: the default user."),
    key("password", Secret, r#""correct horse""#, "The password; preferably `env:NAME` or `file:PATH`. If unset, the client does not authenticate."),
    key("stream", Text, r#""orders""#, "The stream for all events; rules must then not set a destination. If unset, routing selects the stream of each event."),
    key("create_streams", Bool, "false", "Whether the first event of a missing stream creates it. If false, the event fails.").default("true"),
    key("max_len", COUNT, "1000000", "Trim each stream to about this many entries, whether consumers have read them or not. Default: no limit."),
    key("message_max", Size, r#""1MiB""#, "Larger events are rejected before they are sent.").default("8MiB"),
    key("timeout", Duration, r#""2s""#, "How long the server may take to respond. Must be less than the publish timeout of its subscriptions.").default("5s"),
    key("connect_timeout", Duration, r#""1s""#, "How long connecting may take.").default("3s"),
    key("replicas", COUNT, "1", "Acknowledge only events that this many replicas have (`WAIT`). Default: the primary is enough."),
    key("replicas_timeout", Duration, r#""500ms""#, "How long to wait for the replicas. Afterwards the events are sent again.").default("1s"),
    key("fencing", Bool, "true", "Check before each write that no other relay has taken over the subscription. Needs a key in Redis for each subscription.").default("false"),
    key("fence", Text, r#""shop-eu""#, "Prefix of that key; the names of outbox and subscription follow. Must be different for databases that share a server.").default("postrider"),
    key("tls", Bool, "true", "Whether the connection uses TLS.").default("false"),
    key("tls_ca", Path, r#""ca.pem""#, "A PEM file with the trusted CA certificates. Default: the certificates of the operating system."),
    key("tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate."),
    key("tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate."),
];
