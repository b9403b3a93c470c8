//! The one table of keys.

use super::Section::{Outbox, Relay, Rule, Sink, Subscription};
use super::{KeySpec, Section};
use crate::config::kind::Kind::{self, *};

const fn key(
    section: Section,
    name: &'static str,
    kind: Kind,
    example: &'static str,
    doc: &'static str,
) -> KeySpec {
    KeySpec::new(section, name, kind, example, doc)
}

const COUNT: Kind = Number { min: 1 };

/// Every key there is. The example of a key is never its default, so that a test can tell whether it arrives.
#[rustfmt::skip]
pub(super) const KEYS: &[KeySpec] = &[
    key(Relay, "name", Text, r#""relay-1""#, "Name of this relay in status and logs. It holds leases as `NAME#` and a random number: after a crash the next relay waits until the lease expires, whatever its name. Two running relays with the same name work; the standby logs a warning. Default: a random name."),
    key(Relay, "log", Choice(&["error", "warn", "info", "debug", "trace"]), r#""debug""#, "Log level. Logs go to standard error.").default("info"),
    key(Relay, "log_format", Choice(&["text", "json"]), r#""json""#, "Log format: `text` for people, or one JSON object per line.").default("text"),

    key(Outbox, "url", Url, r#""sqlite:shop.db""#, "The database: `sqlite:PATH`, relative to the working directory, or `sqlite:///absolute/path`; or `postgres://USER@HOST:PORT/DATABASE`, `mysql://USER@HOST:PORT`, `mariadb://USER@HOST:PORT`.").required(),
    key(Outbox, "password", Secret, r#""env:SHOP_PASSWORD""#, "The password, if it is not part of the URL. Not for SQLite."),
    key(Outbox, "schema", Text, r#""shop_outbox""#, "The schema that contains Postrider's tables; on MySQL and MariaDB, the database. Not for SQLite. Default: `postrider`."),
    key(Outbox, "layout", Choice(&["postrider", "event_outbox", "outbox", "outbox_events", "custom"]), r#""outbox_events""#, "The layout of the outbox: `postrider`, or an existing table with a state per row (see docs/src/layouts.md). `event_outbox` on PostgreSQL, MySQL and MariaDB, `outbox` on PostgreSQL, `outbox_events` and `custom` on every database.").default("postrider"),
    key(Outbox, "table", Text, r#""shop_events""#, "The name of the table with a state per row. Default: the name of the
layout; `outboxevent` with `preset = \"debezium\"`."),
    key(Outbox, "preset", Choice(&["debezium"]), r#""debezium""#, "A predefined column map for layout `custom`: the columns of Debezium's outbox event router. `columns` overrides and extends it."),
    key(Outbox, "columns", Map, r#"{ id = "id", type = "kind", payload = "body", status = "state" }"#, "The column map for layout `custom`; see docs/src/layouts.md."),
    key(Outbox, "states", Map, r#"{ pending = "NEW", done = "SENT", failed = "STUCK" }"#, "The values of the status column for layout `custom`; `failed` is optional."),
    key(Outbox, "also_pending", List, r#"["RETRY"]"#, "Additional status values that mean a row waits for delivery."),
    key(Outbox, "event_type", Text, r#""order.placed""#, "The type of every event, for a table of layout `custom` without a type column."),
    key(Outbox, "type_header", Text, r#""name""#, "The header that contains the event type, for a table of layout `custom` without a type column; `columns` must map `headers`."),
    key(Outbox, "delete_delivered", Bool, "true", "Delete rows of a table of layout `custom` as soon as they are delivered.").default("false"),
    key(Outbox, "table_schema", Text, r#""shop""#, "The schema of the table with a state per row; on MySQL and MariaDB, its database. Not for SQLite. Default: `public`, or the database in the URL."),
    key(Outbox, "max_attempts", COUNT, "5", "Attempts before a row of that table is dead, unless the row has its own limit; `max_attempts` of the subscription is ignored there. Default: 10."),
    key(Outbox, "shared", Bool, "true", "Other publishers work on the same table at the same time. Not supported for `event_outbox` on MySQL and MariaDB. Order across publishers is not guaranteed.").default("false"),
    key(Outbox, "foreign_claim_timeout", Duration, r#""1h""#, "A row of `outbox_events` that another publisher marked as PUBLISHING is considered abandoned after this time. Default: never."),
    key(Outbox, "tls_root_cert", Path, r#""/etc/shop/root.pem""#, "A PEM file with the trusted CA certificates. Not for SQLite. Default: the certificates of the operating system."),
    key(Outbox, "tls_client_cert", Path, r#""/etc/shop/relay.pem""#, "A PEM file with the client certificate. Not for SQLite."),
    key(Outbox, "tls_client_key", Path, r#""/etc/shop/relay.key""#, "A PEM file with the private key of the client certificate. Not for SQLite."),
    key(Outbox, "retention", Retention, r#""30d""#, "How long delivered events are kept; `forever` deletes nothing. Parked and dead events are not deleted. `expires_at`: published rows of layout `outbox` are deleted when their own `expires_at` has passed. Default: 7d with layout `postrider`, forever with every other layout."),
    key(Outbox, "retention_scope", Choice(&["own", "all"]), r#""all""#, "Which delivered rows `retention` deletes in a table with a state per row: `own`, rows that Postrider delivered while a retention was set; `all`, also rows that were adopted or delivered by another program.").default("own"),
    key(Outbox, "after_failover", Choice(&["halt", "check"]), r#""check""#, "After a database failover: `halt` stops the subscriptions until an operator acts; `check` continues if the last event they saw still exists. Not for SQLite.").default("halt"),
    key(Outbox, "pooler", Choice(&["detect", "transaction", "none"]), r#""none""#, "Whether a connection pooler in transaction mode (such as PgBouncer) is between the relay and the server. PostgreSQL only.").default("detect"),
    key(Outbox, "listen", Bool, "true", "Wake up on the writers' NOTIFY, over one additional connection. PostgreSQL only.").default("false"),
    key(Outbox, "payload_max", Size, r#""256KiB""#, "Maximum payload size of an event.").default("1MiB"),
    key(Outbox, "text_max", Size, r#""120B""#, "Maximum length of the type, aggregate, key, topic, namespace or producer.").default("255B"),
    key(Outbox, "headers_max", Number { min: 0 }, "16", "Maximum number of headers per event.").default("64"),
    key(Outbox, "header_name_max", Size, r#""64B""#, "Maximum length of a header name.").default("128B"),
    key(Outbox, "header_value_max", Size, r#""1KiB""#, "Maximum length of a header value.").default("4KiB"),
    key(Outbox, "events_per_call_max", COUNT, "500", "Maximum number of events per call.").default("10000"),

    key(Sink, "type", Choice(&["file", "stdout", "null", "webhook", "kafka"]), r#""file""#, "The kind of destination: lines in a file, lines on standard output, `null` (discards events), one HTTP POST per event, or Apache Kafka.").required(),
    key(Sink, "encoder", Choice(&["envelope", "plain", "cloudevents", "cloudevents-binary"]), r#""plain""#, "The encoding of the message body.").default("envelope"),
    key(Sink, "source", Text, r#""/shop/checkout""#, "The CloudEvents `source`: a URI or a path. Default: `/` and the event's namespace, or `/postrider` if it has none."),
    key(Sink, "path", Path, r#""events.jsonl""#, "The file to write to. Its folder must exist.").required().only_for("file"),
    key(Sink, "rotate_size", Size, r#""64MiB""#, "Start a new file before the current one exceeds this size. Default: no limit.").only_for("file"),
    key(Sink, "url", Url, r#""https://hooks.example/orders""#, "The URL that receives every event; give a URL that contains a token as `env:NAME` or `file:PATH`. If unset, each event goes to the URL from its rule; event values in that URL are escaped.").only_for("webhook"),
    key(Sink, "secret", Secret, r#""whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#, "Signs requests according to Standard Webhooks: `whsec_` followed by 24 to 64 bytes in base64. If unset, requests are not signed.").only_for("webhook"),
    key(Sink, "old_secret", Secret, r#""whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZA==""#, "The previous signing secret: requests are signed with both until every receiver uses the new one.").only_for("webhook"),
    key(Sink, "authorization", Secret, r#""Bearer a-token""#, "Value of the `authorization` header.").only_for("webhook"),
    key(Sink, "headers", Map, r#"{ x-shop = "north" }"#, "Additional headers of every request. Not for secrets.").only_for("webhook"),
    key(Sink, "timeout", Duration, r#""10s""#, "Timeout of one request. `publish_timeout` of the subscription must be more than 1.5 times this value.").default("15s").only_for("webhook"),
    key(Sink, "concurrency", COUNT, "4", "Maximum concurrent requests to one address; at most 256.").default("16").only_for("webhook"),
    key(Sink, "allow_private", Bool, "true", "Allows requests to loopback, private and other special addresses.").default("false").only_for("webhook"),
    key(Sink, "allow_networks", List, r#"["10.1.0.0/16"]"#, "Allows requests to special addresses within these networks.").only_for("webhook"),
    key(Sink, "allow_hosts", List, r#"["hooks.example", "*.tenants.example"]"#, "Hosts that an event may select through its topic or through a value in the host part of a rule's URL: `HOST`, `HOST:PORT`, `*.HOST` for all subdomains, or `*` for every host. A selected host receives the token and the signature. Default: none.").only_for("webhook"),
    key(Sink, "allow_http", Bool, "true", "Allows unencrypted requests. Requests to this machine may be unencrypted in any case, if its addresses are allowed.").default("false").only_for("webhook"),
    key(Sink, "ca_file", Path, r#""ca.pem""#, "A PEM file with CA certificates to trust in addition to those of the operating system.").only_for("webhook"),

    key(Sink, "brokers", Text, r#""kafka-1:9092,kafka-2:9092""#, "Bootstrap brokers of the cluster.").required().only_for("kafka"),
    key(Sink, "topic", Text, r#""orders""#, "The topic for all events; rules must then not set a destination. If unset, routing selects the topic of each event.").only_for("kafka"),
    key(Sink, "client_id", Text, r#""shop-relay""#, "The client id in broker logs and quotas.").default("postrider").only_for("kafka"),
    key(Sink, "compression", Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), r#""lz4""#, "Compression of record batches.").default("none").only_for("kafka"),
    key(Sink, "delivery_timeout", Duration, r#""5s""#, "How long the client tries to deliver an event. Must be less than the lease and the publish timeout of its subscriptions.").default("10s").only_for("kafka"),
    key(Sink, "message_max", Size, r#""512KiB""#, "Larger events are rejected before they are sent. The broker's own limit also applies.").default("1MiB").only_for("kafka"),
    key(Sink, "transactional", Bool, "true", "Publish each batch in a Kafka transaction. The broker then rejects a relay that lost its lease.").default("false").only_for("kafka"),
    key(Sink, "transactional_id", Text, r#""shop-eu""#, "Prefix of the transactional id; the names of outbox and subscription follow. Must be different for databases that share a cluster.").default("postrider").only_for("kafka"),
    key(Sink, "create_topics", List, r#"["orders"]"#, "Topics to create at startup if they are missing. Other topics are never created.").only_for("kafka"),
    key(Sink, "create_partitions", COUNT, "12", "Partitions of a created topic. Default: the cluster's default.").only_for("kafka"),
    key(Sink, "create_replication", COUNT, "3", "Replication factor of a created topic. Default: the cluster's default.").only_for("kafka"),
    key(Sink, "sasl_mechanism", Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]), r#""SCRAM-SHA-512""#, "SASL mechanism. If unset, the client does not authenticate.").only_for("kafka"),
    key(Sink, "sasl_username", Text, r#""relay""#, "SASL user name.").only_for("kafka"),
    key(Sink, "sasl_password", Secret, r#""correct horse""#, "SASL password; preferably `env:NAME` or `file:PATH`.").only_for("kafka"),
    key(Sink, "tls", Bool, "true", "Whether connections use TLS.").default("false").only_for("kafka"),
    key(Sink, "tls_ca", Path, r#""ca.pem""#, "A PEM file with the trusted CA certificates. Default: the certificates of the operating system.").only_for("kafka"),
    key(Sink, "tls_certificate", Path, r#""relay.pem""#, "A PEM file with the client certificate.").only_for("kafka"),
    key(Sink, "tls_key", Path, r#""relay.key""#, "A PEM file with the private key of the client certificate.").only_for("kafka"),
    key(Sink, "tls_key_password", Secret, r#""battery staple""#, "The password of the private key; preferably `env:NAME` or `file:PATH`.").only_for("kafka"),
    key(Sink, "properties", Map, r#"{ "linger.ms" = "5" }"#, "Additional librdkafka settings; not for secrets. Settings that the guarantees depend on are rejected.").only_for("kafka"),

    key(Subscription, "outbox", Reference(Outbox), r#""shop""#, "The outbox to read. Optional if there is only one."),
    key(Subscription, "sink", Reference(Sink), r#""out""#, "The sink to send to.").required(),
    key(Subscription, "start", Start, r#""position:123""#, "Where a new subscription starts: `beginning` (every event that is still in the outbox), `now` (skips all earlier events), `position:NUMBER` or `time:RFC3339`. Ignored once the subscription exists.").default("beginning"),
    key(Subscription, "only", List, r#"["order.placed", "order.paid"]"#, "Deliver only events of these types. Default: all."),
    key(Subscription, "match", Choice(&["first", "all"]), r#""all""#, "`first`: an event goes to the destination of the first matching rule. `all`: it goes to the destinations of all matching rules.").default("first"),
    key(Subscription, "unrouted", Choice(&["hold", "skip"]), r#""skip""#, "What happens to an event that no rule matches: it is parked as unrouted, or skipped.").default("hold"),
    key(Subscription, "order", Choice(&["key", "none"]), r#""none""#, "Deliver events with the same key in order, or without any order.").default("key"),
    key(Subscription, "on_dead", Choice(&["proceed", "block"]), r#""block""#, "When an event is dead, deliver later events with the same key, or hold them until an operator acts.").default("proceed"),
    key(Subscription, "several_destinations", Bool, "true", "The subscription sends to several destinations: events for a destination that is down are parked, and the other destinations are not delayed.").default("false"),

    key(Subscription, "batch_events_max", COUNT, "500", "Maximum events per batch.").default("1000"),
    key(Subscription, "batch_bytes_max", Size, r#""1MiB""#, "Maximum payload bytes per batch. A larger event is sent in its own batch.").default("4MiB"),
    key(Subscription, "batch_linger", Duration, r#""10ms""#, "How long a partial batch waits for more events while other batches are in flight.").default("5ms"),
    key(Subscription, "batches_in_flight_max", COUNT, "2", "Maximum batches in flight.").default("4"),
    key(Subscription, "publish_timeout", Duration, r#""10s""#, "Timeout for one batch.").default("30s"),

    key(Subscription, "read_ahead_events_max", COUNT, "4096", "Maximum events in memory.").default("8192"),
    key(Subscription, "read_ahead_bytes_max", Size, r#""64MiB""#, "Maximum payload bytes in memory.").default("16MiB"),
    key(Subscription, "claim_events_max", COUNT, "1000", "Maximum events per read from the database.").default("2000"),

    key(Subscription, "window_events_max", COUNT, "1024", "Maximum events in flight or acknowledged but not yet settled: the limit on duplicates after a crash.").default("8192"),
    key(Subscription, "flush_interval", Duration, r#""20ms""#, "Maximum time between an acknowledgement and the commit of the progress.").default("50ms"),
    key(Subscription, "flush_events", COUNT, "1024", "Maximum number of acknowledgements between two commits of the progress.").default("4096"),

    key(Subscription, "max_attempts", COUNT, "5", "Attempts before an event is dead, unless the event has its own limit. A failure that may be caused by the destination is retried once before it counts as an attempt.").default("10"),
    key(Subscription, "backoff_min", Duration, r#""500ms""#, "Delay before the first retry; doubles with each failure.").default("1s"),
    key(Subscription, "backoff_max", Duration, r#""1m""#, "Maximum delay between two retries.").default("5m"),
    key(Subscription, "parked_max", COUNT, "5000", "Maximum number of parked events, including dead ones. At the limit the subscription reads no new events.").default("100000"),

    key(Subscription, "breaker_keys", Number { min: 2 }, "3", "Number of keys that must fail in a row, without any success, before a destination is considered down.").default("5"),
    key(Subscription, "probe_min", Duration, r#""2s""#, "Delay before the first probe of a destination that is down; doubles with each probe.").default("1s"),
    key(Subscription, "probe_max", Duration, r#""1m""#, "Maximum delay between two probes.").default("30s"),

    key(Subscription, "lease", Duration, r#""5s""#, "Lease duration: a standby takes over from a crashed relay after this time. At least 100ms.").default("15s"),
    key(Subscription, "poll_min", Duration, r#""50ms""#, "Poll interval after the outbox became empty; doubles with each empty poll.").default("10ms"),
    key(Subscription, "poll_max", Duration, r#""2s""#, "Maximum poll interval of an idle outbox.").default("500ms"),
    key(Subscription, "drain_timeout", Duration, r#""10s""#, "How long a shutdown waits for events in flight.").default("30s"),

    key(Subscription, "trial_events", COUNT, "1", "Batch size right after a relay crashed.").default("8"),
    key(Subscription, "trial_deaths_max", COUNT, "2", "Number of relay crashes with a single event in flight before that event is dead.").default("3"),

    key(Rule, "types", List, r#"["order.*"]"#, "Matches events of these types; `*` matches any text. Default: all types."),
    key(Rule, "aggregates", List, r#"["Order"]"#, "Matches events of these aggregate types; `*` matches any text. Default: all."),
    key(Rule, "destination", Text, r#""orders.{type}""#, "Template for the destination."),
    key(Rule, "key", Text, r#""{aggregate_id}""#, "Template for the message key."),
    key(Rule, "headers", Map, r#"{ tenant = "{header.tenant}" }"#, "Templates for additional headers."),
];
