//! `type = "mqtt"`

#[cfg(feature = "mqtt")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Bool, Choice, Duration, Path, Secret, Size, Text};
use crate::config::schema::{COUNT, KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "mqtt",
    summary: "MQTT 5",
    keys: KEYS,
    #[cfg(feature = "mqtt")]
    read: Ok(target::read),
    #[cfg(not(feature = "mqtt"))]
    read: Err("mqtt"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("address", Text, r#""broker-1:1883""#, "`host:port` of the broker.").required(),
    key("client_id", Text, r#""shop-relay""#, "The beginning of the client id; a random part follows.").default("postrider"),
    key("username", Text, r#""relay""#, "The user name. If unset, the client does not authenticate."),
    key("password", Secret, r#""correct horse""#, "The password; preferably `env:NAME` or `file:PATH`."),
    key("topic", Text, r#""shop/orders""#, "The topic for all events; rules must then not set a destination. If unset, routing selects the topic of each event."),
    key("qos", Choice(&["1", "2"]), r#""2""#, "How the broker confirms an event: at least once or exactly once between relay and broker.").default("1"),
    key("retain", Bool, "true", "Whether the broker keeps the last event of each topic for future subscribers.").default("false"),
    key("require_subscriber", Bool, "false", "Whether an event fails that no subscription matches: the broker discards it. Not all brokers report this.").default("true"),
    key("message_max", Size, r#""256KiB""#, "Larger events are rejected before they are sent. The broker's own limit also applies.").default("1MiB"),
    key("in_flight_max", COUNT, "100", "Maximum events that wait for a confirmation. The broker's own limit also applies.").default("1000"),
    key("timeout", Duration, r#""2s""#, "How long the broker may confirm nothing. Must be less than the publish timeout of its subscriptions.").default("5s"),
    key("connect_timeout", Duration, r#""1s""#, "How long connecting may take.").default("3s"),
    key("tls", Bool, "true", "Whether the connection uses TLS.").default("false"),
    key("tls_ca", Path, r#""ca.pem""#, "A PEM file with the trusted CA certificates. Default: the certificates of the operating system."),
    key("tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate."),
    key("tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate."),
];
