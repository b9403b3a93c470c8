//! `type = "rabbitmq"`

#[cfg(feature = "rabbitmq")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Choice, Duration, List, Path, Secret, Size, Text, Url};
use crate::config::schema::{KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "rabbitmq",
    summary: "RabbitMQ",
    keys: KEYS,
    #[cfg(feature = "rabbitmq")]
    read: Ok(target::read),
    #[cfg(not(feature = "rabbitmq"))]
    read: Err("rabbitmq"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("url", Url, r#""amqps://rabbit.internal:5671/shop""#, "`amqp://HOST:PORT/VHOST`, or `amqps://` for TLS. `%2f` is the virtual host `/`, which is also the default.").required(),
    key("username", Text, r#""relay""#, "User name. Default: the one in the URL, otherwise `guest`."),
    key("password", Secret, r#""correct horse""#, "Password; preferably `env:NAME` or `file:PATH`."),
    key("exchange", Text, r#""orders""#, "The exchange for all events; routing selects the routing key of each. If unset, the default exchange: the routing key is the name of a queue."),
    key("exchanges", List, r#"["orders", "audit"]"#, "The exchanges that routing may select: a destination is then `EXCHANGE/ROUTING_KEY`. Excludes `exchange` and `routing_key`."),
    key("routing_key", Text, r#""billing""#, "The routing key for all events; rules must then not set a destination."),
    key("confirm_timeout", Duration, r#""5s""#, "How long the sink waits for confirms. `publish_timeout` of the subscription must be more than twice this value.").default("10s"),
    key("message_max", Size, r#""512KiB""#, "Larger events are rejected before they are sent. The server's own limit also applies.").default("16MiB"),
    key("connection_name", Text, r#""shop-relay""#, "The name of the connection in the server's lists.").default("postrider"),
    key("declare_exchange", Choice(&["direct", "fanout", "topic", "headers"]), r#""topic""#, "Declares `exchange`, durable and with this type, when the sink connects. If unset, it must exist."),
    key("declare_queues", List, r#"["billing"]"#, "Quorum queues to declare when the sink connects. If `exchange` is set, they are bound to it."),
    key("declare_binding", Text, r#""order.*""#, "The binding key of `declare_queues`.").default("#"),
    key("tls_ca", Path, r#""ca.pem""#, "A PEM file with CA certificates to trust in addition to those of the operating system."),
    key("tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate."),
    key("tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate."),
];
