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
    key(Relay, "name", Text, r#""relay-1""#, "Name of this relay in status and logs. It holds leases as `NAME#` and a random number: after a crash the next relay waits until the lease expires, whatever its name. Two running relays with the same name work; the standby logs a warning. Without it a random name is made."),
    key(Relay, "log", Choice(&["error", "warn", "info", "debug", "trace"]), r#""debug""#, "How much is logged to standard error.").default("info"),
    key(Relay, "log_format", Choice(&["text", "json"]), r#""json""#, "Lines for people, or one JSON object per line.").default("text"),

    key(Outbox, "url", Url, r#""sqlite:shop.db""#, "The database: `sqlite:PATH`, relative to the working directory, or `sqlite:///absolute/path`; or `postgres://USER@HOST:PORT/DATABASE`, `mysql://USER@HOST:PORT`, `mariadb://USER@HOST:PORT`.").required(),
    key(Outbox, "password", Secret, r#""env:SHOP_PASSWORD""#, "The password, instead of one in the URL. Not for SQLite."),
    key(Outbox, "schema", Text, r#""shop_outbox""#, "The schema with the tables, on MySQL and MariaDB their database. Not for SQLite; without it `postrider`."),
    key(Outbox, "layout", Choice(&["postrider", "event_outbox", "outbox", "outbox_events", "custom"]), r#""outbox_events""#, "The shape of the outbox: ours, or a table with a state per row as docs/src/layouts.md tells. `event_outbox` on PostgreSQL, MySQL and MariaDB, `outbox` on PostgreSQL, `outbox_events` and `custom` on every database.").default("postrider"),
    key(Outbox, "table", Text, r#""shop_events""#, "The table with a state per row. Without it the name of the layout; `outboxevent` with `preset = \"debezium\"`."),
    key(Outbox, "preset", Choice(&["debezium"]), r#""debezium""#, "Columns that a table of layout `custom` has: those of Debezium's outbox event router. `columns` adds to them."),
    key(Outbox, "columns", Map, r#"{ id = "id", type = "kind", payload = "body", status = "state" }"#, "Which column of a table of layout `custom` holds what; see docs/src/layouts.md."),
    key(Outbox, "states", Map, r#"{ pending = "NEW", done = "SENT", failed = "STUCK" }"#, "The words in the column that `columns` names for `status`; `failed` may be left out."),
    key(Outbox, "also_pending", List, r#"["RETRY"]"#, "Other words of rows that wait, beside `pending` of `states`."),
    key(Outbox, "event_type", Text, r#""order.placed""#, "The type of every event in a table of layout `custom` that has no column for it."),
    key(Outbox, "type_header", Text, r#""name""#, "The header with the type of an event, in a table of layout `custom` that has no column for it; `columns` names one for `headers`."),
    key(Outbox, "delete_delivered", Bool, "true", "Rows of a table of layout `custom` are deleted when they are delivered.").default("false"),
    key(Outbox, "table_schema", Text, r#""shop""#, "The schema of that table, on MySQL and MariaDB its database. Without it `public`, or the database of the URL. Not for SQLite."),
    key(Outbox, "max_attempts", COUNT, "5", "Attempts before a row of that table is given up, where the row itself does not say; the one of the subscription does not count there. Without it 10."),
    key(Outbox, "shared", Bool, "true", "Publishers of others work on that table at the same time: not `event_outbox` on MySQL and MariaDB; order across publishers is not promised.").default("false"),
    key(Outbox, "foreign_claim_timeout", Duration, r#""1h""#, "After this long a row of `outbox_events` that somebody else marked as PUBLISHING counts as abandoned. Without it, never."),
    key(Outbox, "tls_root_cert", Path, r#""/etc/shop/root.pem""#, "A file with the certificates to believe, in PEM. Not for SQLite; without it those of the system."),
    key(Outbox, "tls_client_cert", Path, r#""/etc/shop/relay.pem""#, "A file with the certificate that tells the server who this is, in PEM. Not for SQLite."),
    key(Outbox, "tls_client_key", Path, r#""/etc/shop/relay.key""#, "A file with the key of that certificate, in PEM. Not for SQLite."),
    key(Outbox, "retention", Retention, r#""30d""#, "How long delivered events are kept; `forever` deletes nothing. Parked and given up events are not deleted. `expires_at`: published rows of layout `outbox` are deleted once their own `expires_at` is past. Without it 7d with layout `postrider`, and forever with every other layout."),
    key(Outbox, "retention_scope", Choice(&["own", "all"]), r#""all""#, "Which delivered rows `retention` deletes in a table with a state per row: `own`, those that Postrider delivered while a retention was set; `all`, also those that were adopted or that another program delivered.").default("own"),
    key(Outbox, "after_failover", Choice(&["halt", "check"]), r#""check""#, "After a failover of the database the subscriptions halt for an operator, or go on if the last event they saw is still there. Not on SQLite.").default("halt"),
    key(Outbox, "pooler", Choice(&["detect", "transaction", "none"]), r#""none""#, "What stands between here and the server: a pooler that shares connections between transactions, or none. PostgreSQL only.").default("detect"),
    key(Outbox, "listen", Bool, "true", "Listen for the NOTIFY of writers, over one more connection. PostgreSQL only.").default("false"),
    key(Outbox, "payload_max", Size, r#""256KiB""#, "Largest payload of an event that is written.").default("1MiB"),
    key(Outbox, "text_max", Size, r#""120B""#, "Longest type, aggregate, key, topic, namespace or producer.").default("255B"),
    key(Outbox, "headers_max", Number { min: 0 }, "16", "Headers of one event.").default("64"),
    key(Outbox, "header_name_max", Size, r#""64B""#, "Longest name of a header.").default("128B"),
    key(Outbox, "header_value_max", Size, r#""1KiB""#, "Longest value of a header.").default("4KiB"),
    key(Outbox, "events_per_call_max", COUNT, "500", "Events written by one call.").default("10000"),

    key(Sink, "type", Choice(&["file", "stdout", "null", "webhook", "kafka"]), r#""file""#, "Where events go: lines in a file, lines on standard output, nowhere, one HTTP POST each, or Apache Kafka.").required(),
    key(Sink, "encoder", Choice(&["envelope", "plain", "cloudevents", "cloudevents-binary"]), r#""plain""#, "How an event becomes bytes.").default("envelope"),
    key(Sink, "source", Text, r#""/shop/checkout""#, "The source that CloudEvents name: a URI or a path. Without it `/` and the event's namespace, else `/postrider`."),
    key(Sink, "path", Path, r#""events.jsonl""#, "The file to write to; its folder must exist.").required().only_for("file"),
    key(Sink, "rotate_size", Size, r#""64MiB""#, "Begin a new file before this one grows larger. Without it the file grows for ever.").only_for("file"),
    key(Sink, "url", Url, r#""https://hooks.example/orders""#, "The address every event goes to; give one with a token in it as `env:NAME` or `file:PATH`. Without it an event goes to the URL its rule gives; values of the event in it are escaped.").only_for("webhook"),
    key(Sink, "secret", Secret, r#""whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#, "Signs requests as Standard Webhooks says: `whsec_` and 24 to 64 bytes in base64. Without it they are not signed.").only_for("webhook"),
    key(Sink, "old_secret", Secret, r#""whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZA==""#, "Signs them too, until every receiver knows the new one.").only_for("webhook"),
    key(Sink, "authorization", Secret, r#""Bearer a-token""#, "Value of the header `authorization`.").only_for("webhook"),
    key(Sink, "headers", Map, r#"{ x-shop = "north" }"#, "Headers of every request. Not for secrets.").only_for("webhook"),
    key(Sink, "timeout", Duration, r#""10s""#, "How long one request may take. The publish_timeout of a subscription must be more than one and a half times this.").default("15s").only_for("webhook"),
    key(Sink, "concurrency", COUNT, "4", "Requests to one address at the same time; at most 256.").default("16").only_for("webhook"),
    key(Sink, "allow_private", Bool, "true", "Lets requests go to loopback, private and other special addresses.").default("false").only_for("webhook"),
    key(Sink, "allow_networks", List, r#"["10.1.0.0/16"]"#, "Lets requests go to special addresses of these networks.").only_for("webhook"),
    key(Sink, "allow_hosts", List, r#"["hooks.example", "*.tenants.example"]"#, "Hosts that an event may choose, where its topic or a value in the host of a rule's URL says where it goes: `HOST`, `HOST:PORT`, `*.HOST` for all below it, `*` for every host, to which the token and the signature then go. Without it, none.").only_for("webhook"),
    key(Sink, "allow_http", Bool, "true", "Lets requests go unencrypted. To the own machine they may anyway, if its addresses are allowed.").default("false").only_for("webhook"),
    key(Sink, "ca_file", Path, r#""ca.pem""#, "Certificates to trust besides those of the operating system.").only_for("webhook"),

    key(Sink, "brokers", Text, r#""kafka-1:9092,kafka-2:9092""#, "Some of the brokers of the cluster.").required().only_for("kafka"),
    key(Sink, "topic", Text, r#""orders""#, "The topic all events go to; rules may then name no destination. Without it each goes to the topic its routing names.").only_for("kafka"),
    key(Sink, "client_id", Text, r#""shop-relay""#, "What brokers call this client in their logs and quotas.").default("postrider").only_for("kafka"),
    key(Sink, "compression", Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), r#""lz4""#, "How batches of records are compressed.").default("none").only_for("kafka"),
    key(Sink, "delivery_timeout", Duration, r#""5s""#, "How long the client tries to deliver an event. Below the lease and the publish timeout of its subscriptions.").default("10s").only_for("kafka"),
    key(Sink, "message_max", Size, r#""512KiB""#, "Larger events are rejected without asking the broker, whose own limit holds too.").default("1MiB").only_for("kafka"),
    key(Sink, "transactional", Bool, "true", "Each batch is a transaction, and the broker shuts out a relay that lost its lease.").default("false").only_for("kafka"),
    key(Sink, "transactional_id", Text, r#""shop-eu""#, "Beginning of the transactional id; the names of outbox and subscription follow. Must differ between databases that share a cluster.").default("postrider").only_for("kafka"),
    key(Sink, "create_topics", List, r#"["orders"]"#, "Topics that are created at the start if they are missing. No others are.").only_for("kafka"),
    key(Sink, "create_partitions", COUNT, "12", "Partitions of a topic that is created. Without it, what the cluster gives by default.").only_for("kafka"),
    key(Sink, "create_replication", COUNT, "3", "Brokers that hold a topic that is created. Without it, what the cluster gives by default.").only_for("kafka"),
    key(Sink, "sasl_mechanism", Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]), r#""SCRAM-SHA-512""#, "How name and password are shown to the broker. Without it, they are not.").only_for("kafka"),
    key(Sink, "sasl_username", Text, r#""relay""#, "The name.").only_for("kafka"),
    key(Sink, "sasl_password", Secret, r#""correct horse""#, "The password; best as `env:NAME` or `file:PATH`.").only_for("kafka"),
    key(Sink, "tls", Bool, "true", "Whether connections are encrypted.").default("false").only_for("kafka"),
    key(Sink, "tls_ca", Path, r#""ca.pem""#, "Certificates that vouch for the brokers. Without it, those of the system.").only_for("kafka"),
    key(Sink, "tls_certificate", Path, r#""relay.pem""#, "Our own certificate.").only_for("kafka"),
    key(Sink, "tls_key", Path, r#""relay.key""#, "The key of our own certificate.").only_for("kafka"),
    key(Sink, "tls_key_password", Secret, r#""battery staple""#, "The password of that key; best as `env:NAME` or `file:PATH`.").only_for("kafka"),
    key(Sink, "properties", Map, r#"{ "linger.ms" = "5" }"#, "Other settings of librdkafka by its names; not for secrets. Those that promises rest on are refused.").only_for("kafka"),

    key(Subscription, "outbox", Reference(Outbox), r#""shop""#, "The outbox it reads. May be left out when there is only one."),
    key(Subscription, "sink", Reference(Sink), r#""out""#, "The sink it sends to.").required(),
    key(Subscription, "start", Start, r#""position:123""#, "Where it begins when it is created: `beginning` (every event that is still in the outbox), `now` (skips every earlier event), `position:NUMBER` or `time:RFC3339`. Later starts of a relay continue where it left off.").default("beginning"),
    key(Subscription, "only", List, r#"["order.placed", "order.paid"]"#, "Takes only events of these types. Without it, all."),
    key(Subscription, "match", Choice(&["first", "all"]), r#""all""#, "Whether an event goes where the first matching rule says, or where every matching rule says.").default("first"),
    key(Subscription, "unrouted", Choice(&["hold", "skip"]), r#""skip""#, "An event that no rule matches is held back, visibly, or counts as done.").default("hold"),
    key(Subscription, "order", Choice(&["key", "none"]), r#""none""#, "Events of one key in their order, or no order at all.").default("key"),
    key(Subscription, "on_dead", Choice(&["proceed", "block"]), r#""block""#, "After an event is given up, the later ones of its key go on or wait for an operator.").default("proceed"),
    key(Subscription, "several_destinations", Bool, "true", "Events of a destination that is down are parked, so that those of others go on.").default("false"),

    key(Subscription, "batch_events_max", COUNT, "500", "Events in one batch to the sink.").default("1000"),
    key(Subscription, "batch_bytes_max", Size, r#""1MiB""#, "Payload in one batch to the sink; one event may be larger alone.").default("4MiB"),
    key(Subscription, "batch_linger", Duration, r#""10ms""#, "How long a batch that is not full waits for more while others are in flight.").default("5ms"),
    key(Subscription, "batches_in_flight_max", COUNT, "2", "Batches at the sink at one time.").default("4"),
    key(Subscription, "publish_timeout", Duration, r#""10s""#, "How long the sink may take for a batch.").default("30s"),

    key(Subscription, "read_ahead_events_max", COUNT, "4096", "Events held in memory.").default("8192"),
    key(Subscription, "read_ahead_bytes_max", Size, r#""64MiB""#, "Payload held in memory.").default("16MiB"),
    key(Subscription, "claim_events_max", COUNT, "1000", "Events read from the database at once.").default("2000"),

    key(Subscription, "window_events_max", COUNT, "1024", "Events in flight or not yet settled: the bound on duplicates after a crash.").default("8192"),
    key(Subscription, "flush_interval", Duration, r#""20ms""#, "Progress is written at the latest this long after an acknowledgement.").default("50ms"),
    key(Subscription, "flush_events", COUNT, "1024", "Progress is written at the latest after so many acknowledgements.").default("4096"),

    key(Subscription, "max_attempts", COUNT, "5", "Attempts before an event is given up, unless the event says otherwise. A failure that may be the destination's is tried once more before an attempt counts.").default("10"),
    key(Subscription, "backoff_min", Duration, r#""500ms""#, "Wait after the first failure; doubles with each.").default("1s"),
    key(Subscription, "backoff_max", Duration, r#""1m""#, "Longest wait between two tries.").default("5m"),
    key(Subscription, "parked_max", COUNT, "5000", "Events set aside at one time, given up ones included. At the limit nothing new is read.").default("100000"),

    key(Subscription, "breaker_keys", Number { min: 2 }, "3", "Keys that must fail with no success between before a destination is taken for down.").default("5"),
    key(Subscription, "probe_min", Duration, r#""2s""#, "First wait before a destination that is down is tried again; doubles with each.").default("1s"),
    key(Subscription, "probe_max", Duration, r#""1m""#, "Longest wait between two such tries.").default("30s"),

    key(Subscription, "lease", Duration, r#""5s""#, "A relay that died is replaced after this; at least 100ms.").default("15s"),
    key(Subscription, "poll_min", Duration, r#""50ms""#, "Wait between two looks at an outbox that has just run dry; doubles with each empty look.").default("10ms"),
    key(Subscription, "poll_max", Duration, r#""2s""#, "Longest wait between two looks at an idle outbox.").default("500ms"),
    key(Subscription, "drain_timeout", Duration, r#""10s""#, "How long a shutdown waits for what is in flight.").default("30s"),

    key(Subscription, "trial_events", COUNT, "1", "Events in the first batch after a relay died.").default("8"),
    key(Subscription, "trial_deaths_max", COUNT, "2", "Relays that may die with one event alone before it is given up.").default("3"),

    key(Rule, "types", List, r#"["order.*"]"#, "Matches events of these types; `*` stands for any text. Without it, all types."),
    key(Rule, "aggregates", List, r#"["Order"]"#, "Matches events of these aggregate types; `*` stands for any text. Without it, all."),
    key(Rule, "destination", Text, r#""orders.{type}""#, "Template of the destination's name."),
    key(Rule, "key", Text, r#""{aggregate_id}""#, "Template of the key the destination gets."),
    key(Rule, "headers", Map, r#"{ tenant = "{header.tenant}" }"#, "Templates of headers that are added."),
];
