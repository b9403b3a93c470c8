//! `type = "nats"`

#[cfg(feature = "nats")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Bool, Duration, List, Path, Secret, Text, Url};
use crate::config::schema::{COUNT, KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "nats",
    summary: "NATS JetStream",
    keys: KEYS,
    #[cfg(feature = "nats")]
    read: Ok(target::read),
    #[cfg(not(feature = "nats"))]
    read: Err("nats"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("url", Url, r#""nats://nats-1:4222,nats://nats-2:4222""#, "`nats://HOST:PORT`, or `tls://HOST:PORT` for TLS; several are separated by commas.").required(),
    key("stream", Text, r#""ORDERS""#, "The stream that stores the events. A message that another stream would store is refused.").required(),
    key("subject", Text, r#""orders""#, "The subject for all events; rules must then not set a destination. If unset, routing selects the subject of each event."),
    key("username", Text, r#""relay""#, "User name; needs `password`."),
    key("password", Secret, r#""correct horse""#, "Password; preferably `env:NAME` or `file:PATH`."),
    key("token", Secret, r#""a-token""#, "Token for authentication."),
    key("credentials_file", Path, r#""relay.creds""#, "A file with a JWT and its key, as `nsc` creates it."),
    key("nkey_seed", Secret, r#""SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY""#, "The seed of an NKey; preferably `env:NAME` or `file:PATH`."),
    key("ack_timeout", Duration, r#""5s""#, "How long the sink waits for acknowledgements. `publish_timeout` of the subscription must be more than twice this value.").default("10s"),
    key("connection_name", Text, r#""shop-relay""#, "The name of the connection in the server's lists.").default("postrider"),
    key("create_subjects", List, r#"["orders.>"]"#, "Creates the stream, with these subjects and stored in files, when the sink connects, if it does not exist. An existing stream is not changed."),
    key("create_replicas", COUNT, "3", "The number of servers that store a created stream.").default("1"),
    key("monitoring", Url, r#""http://nats-1:8222""#, "The server's monitoring endpoint, where `doctor` finds out whether it syncs before it acknowledges."),
    key("tls", Bool, "true", "Whether connections must use TLS. If unset, they use it if the server requires it.").default("false"),
    key("tls_ca", Path, r#""ca.pem""#, "A PEM file with CA certificates to trust in addition to those of the operating system."),
    key("tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate."),
    key("tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate."),
];
