//! The keys of every section. Those of each type of sink are in [`crate::sinks`].

use postrider::layout::RowLayout;

use super::Section::{Dashboard, Http, Outbox, Relay, Rule, Sink, Subscription, Traces};
use super::{COUNT, KeySpec, Section};
use crate::config::kind::Field;
use crate::config::kind::Kind::{self, *};
use crate::sinks::{SINK_TYPE_NAMES, SINK_TYPES};

const fn key(
    section: Section,
    name: &'static str,
    kind: Kind,
    example: &'static str,
    doc: &'static str,
) -> KeySpec {
    KeySpec::new(section, name, kind, example, doc)
}

/// All keys. The example of a key is never its default, so that a test can check that it takes effect.
pub(super) fn all() -> Vec<KeySpec> {
    let of_types = SINK_TYPES.iter().flat_map(|of| of.keys.iter().map(|key| key.only_for(of.name)));
    [
        RELAY,
        HTTP,
        DASHBOARD,
        TRACES,
        OUTBOX,
        &[sink_type()],
        SINK,
        &of_types.collect::<Vec<_>>(),
        SUBSCRIPTION,
        RULE,
    ]
    .concat()
}

/// The key `type` of a sink lists all types.
fn sink_type() -> KeySpec {
    let summaries: Vec<&str> = SINK_TYPES.iter().map(|of| of.summary).collect();
    let doc = match summaries.as_slice() {
        [first @ .., last] => format!("The kind of destination: {}, or {last}.", first.join(", ")),
        [] => String::new(),
    };
    // Created once per program, like the other keys.
    key(Sink, "type", Choice(&SINK_TYPE_NAMES), r#""file""#, doc.leak()).required()
}

#[rustfmt::skip]
const RELAY: &[KeySpec] = &[
    key(Relay, "name", Text, r#""relay-1""#, "Name of this relay in status and logs. It holds leases as `NAME#` and a random number: after a crash the next relay waits until the lease expires, whatever its name. Two running relays with the same name work; the standby logs a warning. Default: a random name."),
    key(Relay, "log", Choice(&["error", "warn", "info", "debug", "trace"]), r#""debug""#, "Log level. Logs go to standard error.").default("info"),
    key(Relay, "log_format", Choice(&["text", "json"]), r#""json""#, "Log format: `text` for people, or one JSON object per line.").default("text"),
];

#[rustfmt::skip]
const HTTP: &[KeySpec] = &[
    key(Http, "listen", Text, r#""127.0.0.1:9464""#, "Where a relay serves `/metrics` for Prometheus, `/livez` and `/readyz`: an IP address and a port. Default: nowhere."),
    key(Http, "allow_remote", Bool, "true", "Allow an address that other machines can reach. The listener has neither TLS nor a login; what it serves contains names of outboxes, subscriptions and sinks, and error texts of the database, but no events.").default("false"),
    key(Http, "stalled_after", Duration, r#""2m""#, "`/readyz` is not ready if events wait for this long and none is delivered or settled meanwhile.").default("1m"),
];

#[rustfmt::skip]
const DASHBOARD: &[KeySpec] = &[
    key(Dashboard, "listen", Text, r#""[::1]:9465""#, "Where `postrider dashboard` listens: an IP address and a port. An address that other machines can reach needs `tokens`. It has no TLS of its own: put a proxy with TLS before it.").default("127.0.0.1:9465"),
    key(Dashboard, "hosts", List, r#"["ops.example.com"]"#, "The names under which browsers reach it, without a port. Requests for any other name are refused, except for `localhost` and the numeric address: this stops pages of other sites that point their own name at it."),
    key(Dashboard, "https", Bool, "true", "Browsers reach it with HTTPS only, through a proxy: the session cookie is never sent without it.").default("false"),
    key(Dashboard, "tokens", Tables(TOKEN), r#"[{ name = "alice", role = "operator", token = "correct horse battery staple" }]"#, "Who may log in: `name` is the name in the audit trail; `role` is `viewer` (no payloads), `reader` (payloads, each time with an audit row) or `operator` (changes); `token` has at least 16 characters, best as `env:NAME` or `file:PATH`. Only in the file. Default: one person, with the link that the command prints."),
    key(Dashboard, "redact", List, r#"["card_number", "email"]"#, "Members of JSON payloads, and headers, whose values are shown to no person, at any depth and in any case. Payloads that are not JSON are then not shown at all."),
];

const TOKEN: &[Field] = &[
    Field::new("name", Text).required(),
    Field::new("role", Choice(&["viewer", "reader", "operator"])).required(),
    Field::new("token", Secret).required(),
];

#[rustfmt::skip]
const TRACES: &[KeySpec] = &[
    key(Traces, "endpoint", Text, r#""http://127.0.0.1:4318""#, "The base URL of an OpenTelemetry collector. A relay sends its spans to ENDPOINT`/v1/traces`, as OTLP over HTTP with Protobuf. A collector that is down or slow delays no event: spans are dropped, and the log says so once. Default: spans are not exported."),
    key(Traces, "authorization", Secret, r#""env:OTLP_AUTHORIZATION""#, "The value of the header `Authorization`, such as `Bearer TOKEN`."),
    key(Traces, "service_name", Text, r#""shop-relay""#, "The attribute `service.name` of the spans.").default("postrider"),
];

#[rustfmt::skip]
const OUTBOX: &[KeySpec] = &[
    key(Outbox, "url", Url, r#""sqlite:shop.db""#, "The database: `sqlite:PATH`, relative to the working directory, or `sqlite:///absolute/path`; or `postgres://USER@HOST:PORT/DATABASE`, `mysql://USER@HOST:PORT`, `mariadb://USER@HOST:PORT`.").required(),
    key(Outbox, "shards", Urls, r#"{ "1.0" = "sqlite:shop-1.db" }"#, "Further databases with the same tables, by shard: `GROUP.MEMBER`, from `0.0` to `255.63`. `url` is shard `0.0`. Every subscription and every other key of this outbox applies to each shard, `password` included. The other commands know a shard as `NAME:GROUP.MEMBER`. A running relay serves a new shard after SIGHUP. Only in the file."),
    key(Outbox, "password", Secret, r#""env:SHOP_PASSWORD""#, "The password, if it is not part of the URL. Not for SQLite."),
    key(Outbox, "schema", Text, r#""shop_outbox""#, "The schema that contains Postrider's tables; on MySQL and MariaDB, the database. Not for SQLite. Default: `postrider`."),
    key(Outbox, "layout", Choice(RowLayout::CHOICES), r#""outbox_events""#, "The layout of the outbox: `postrider`, or another one; docs/src/layouts.md describes them, and lists the databases on which each exists.").default("postrider"),
    key(Outbox, "table", Text, r#""shop_events""#, "The name of the table with a state per row. Default: the name of the layout; `events` with layout `eventlog`; `outboxevent` with `preset = \"debezium\"`."),
    key(Outbox, "preset", Choice(&["debezium"]), r#""debezium""#, "A predefined column map for layout `custom`: the columns of Debezium's outbox event router. `columns` overrides and extends it."),
    key(Outbox, "columns", Map, r#"{ id = "id", type = "kind", payload = "body", status = "state" }"#, "The column map for layout `custom`; see docs/src/layouts.md."),
    key(Outbox, "states", Map, r#"{ pending = "NEW", done = "SENT", failed = "STUCK" }"#, "The values of the status column for layout `custom`; `failed` is optional."),
    key(Outbox, "also_pending", List, r#"["RETRY"]"#, "Additional status values that mean a row waits for delivery."),
    key(Outbox, "event_type", Text, r#""order.placed""#, "The type of every event, for a table of layout `custom` without a type column."),
    key(Outbox, "type_header", Text, r#""name""#, "The header that contains the event type, for a table of layout `custom` without a type column; `columns` must map `headers`."),
    key(Outbox, "delete_delivered", Bool, "true", "Delete rows of a table of layout `custom` as soon as they are delivered.").default("false"),
    key(Outbox, "table_schema", Text, r#""shop""#, "The schema of the table with a state per row; on MySQL and MariaDB, its database. Not for SQLite. Default: `public`, or the database in the URL; `eventlog` with layout `eventlog`."),
    key(Outbox, "max_attempts", COUNT, "5", "Attempts before a row of that table is dead, unless the row has its own limit; `max_attempts` of the subscription is ignored there. Default: 10; with layout `eventlog` no limit except `handle_within`."),
    key(Outbox, "shared", Bool, "true", "Other publishers work on the same table at the same time. Order across publishers is not guaranteed.").default("false"),
    key(Outbox, "foreign_claim_timeout", Duration, r#""1h""#, "A row of `outbox_events` that another publisher marked as PUBLISHING is considered abandoned after this time. Default: never."),
    key(Outbox, "handle_within", Duration, r#""3d""#, "How long a notification of layout `eventlog` may be handled, from the later of the event's date and the notification's creation. After this time it is EXPIRED and its handler is not called. Default: 7d."),
    key(Outbox, "fan_out_events_max", COUNT, "50", "Maximum events of layout `eventlog` that one transaction fans out. Default: 200."),
    key(Outbox, "fan_out_poll", Duration, r#""250ms""#, "Poll interval of the fan-out of layout `eventlog` if there are no more events. Default: 1s."),
    key(Outbox, "search_missed_every", Duration, r#""1m""#, "How often to search an outbox of layout `eventlog` for events that another program has fanned out to its own handlers only. On PostgreSQL the search reads the whole table. Default: 10m."),
    key(Outbox, "tls_root_cert", Path, r#""/etc/shop/root.pem""#, "A PEM file with the trusted CA certificates. Not for SQLite. Default: the certificates of the operating system."),
    key(Outbox, "tls_client_cert", Path, r#""/etc/shop/relay.pem""#, "A PEM file with the client certificate. Not for SQLite."),
    key(Outbox, "tls_client_key", Path, r#""/etc/shop/relay.key""#, "A PEM file with the private key of the client certificate. Not for SQLite."),
    key(Outbox, "retention", Retention, r#""30d""#, "How long delivered events are kept; `forever` deletes nothing. Parked and dead events are not deleted. `expires_at`: published rows of layout `outbox` are deleted when their own `expires_at` has passed. Default: 7d with layout `postrider`, forever with every other layout."),
    key(Outbox, "retention_scope", Choice(&["own", "all"]), r#""all""#, "Which delivered rows `retention` deletes in a table with a state per row: `own`, rows that Postrider delivered while a retention was set; `all`, also rows that were adopted or delivered by another program.").default("own"),
    key(Outbox, "inbox_retention", Duration, r#""60d""#, "How long rows of the inbox in the same database as this outbox stay at least, even if they have expired. Not shorter than `retention`: an event that is delivered again would have its effect again. It does not apply to `processed_events`. Default: as long as `retention`."),
    key(Outbox, "after_failover", Choice(&["halt", "check"]), r#""check""#, "After a database failover: `halt` stops the subscriptions until an operator acts; `check` continues if the last event they saw still exists. Not for SQLite.").default("halt"),
    key(Outbox, "pooler", Choice(&["detect", "transaction", "none"]), r#""none""#, "Whether a connection pooler in transaction mode (such as PgBouncer) is between the relay and the server. PostgreSQL only.").default("detect"),
    key(Outbox, "listen", Bool, "true", "Wake up on the writers' NOTIFY, over one additional connection. PostgreSQL only.").default("false"),
    key(Outbox, "payload_max", Size, r#""256KiB""#, "Maximum payload size of an event.").default("1MiB"),
    key(Outbox, "text_max", Size, r#""120B""#, "Maximum length of the type, aggregate, key, topic, namespace or producer.").default("255B"),
    key(Outbox, "headers_max", Number { min: 0 }, "16", "Maximum number of headers per event.").default("64"),
    key(Outbox, "header_name_max", Size, r#""64B""#, "Maximum length of a header name.").default("128B"),
    key(Outbox, "header_value_max", Size, r#""1KiB""#, "Maximum length of a header value.").default("4KiB"),
    key(Outbox, "events_per_call_max", COUNT, "500", "Maximum number of events per call.").default("10000"),
];

#[rustfmt::skip]
const SINK: &[KeySpec] = &[
    key(Sink, "encoder", Choice(&["envelope", "plain", "cloudevents", "cloudevents-binary", "avro", "protobuf", "json-schema"]), r#""plain""#, "The encoding of the message body. The last three need `schemas`; see docs/src/schemas.md.").default("envelope"),
    key(Sink, "events_per_second_max", COUNT, "500", "Maximum events per second that a subscription sends to this sink; a retry counts again. Each subscription of each relay has its own limit. Default: no limit."),
    key(Sink, "bytes_per_second_max", Size, r#""10MiB""#, "Maximum bytes of events per second that a subscription sends to this sink, all columns. A larger event is sent, and the next one waits accordingly. Default: no limit."),
    key(Sink, "action_params", Bool, "true", "Send the parameters of an event's action too: with encoder `plain` as the header `postrider-action-params`, with CloudEvents as the attribute `actionparams`. They may be larger than a destination allows for headers.").default("false"),
    key(Sink, "schemas", Tables(SCHEMA), r#"[{ type = "OrderPlaced", file = "schemas/OrderPlaced.avsc" }]"#, "The schema of each event type: `file` is an Avro schema, a `.proto` file or a JSON Schema; `namespace` limits it to events of one namespace; `message` is the full name in the file, if it is not the event type; `subject` is the subject in the registry, by default the full name. Only for the encoders `avro`, `protobuf` and `json-schema`, as the next keys."),
    key(Sink, "envelope", Choice(&["none", "action_event"]), r#""action_event""#, "What surrounds a payload: nothing, or an `ActionEvent` with 13 fields, which requires that events have a namespace and an action. Default: `none`."),
    key(Sink, "framing", Choice(&["single-object", "confluent", "bare"]), r#""bare""#, "What precedes the bytes of a payload: Avro's single-object encoding, the id in the registry, or nothing. Default: `confluent` with a registry; otherwise `single-object` for Avro, and `bare` for the others."),
    key(Sink, "unknown_fields", Choice(&["drop", "error"]), r#""error""#, "A field of a payload that the schema does not have is not sent, which is logged once, or the event is dead. Default: `drop`."),
    key(Sink, "unions", Choice(&["best", "strict"]), r#""strict""#, "A value that fits several branches of an Avro union equally well becomes the first of them, which is logged once, or the event is dead. Default: `best`."),
    key(Sink, "unbound", Choice(&["park", "reject"]), r#""reject""#, "An event whose type has no schema is parked as unrouted until a relay starts with one, or is dead. Default: `park`."),
    key(Sink, "registry", Fields(REGISTRY), r#"{ url = "https://registry.example", register = true }"#, "A schema registry with Confluent's API. `register` adds schemas that it does not know; otherwise such a schema refuses the start. `ca_file` is a PEM file with CA certificates to trust. `username` and `password`, or `token`, authenticate the relay."),
    key(Sink, "source", Text, r#""/shop/checkout""#, "The CloudEvents `source`: a URI or a path. Default: `/` and the event's namespace, or `/postrider` if it has none."),
];

const SCHEMA: &[Field] = &[
    Field::new("type", Text).required(),
    Field::new("namespace", Text),
    Field::new("file", Path).required(),
    Field::new("message", Text),
    Field::new("subject", Text),
];

const REGISTRY: &[Field] = &[
    Field::new("url", Url).required(),
    Field::new("register", Bool),
    Field::new("ca_file", Path),
    Field::new("username", Text),
    Field::new("password", Secret),
    Field::new("token", Secret),
];

#[rustfmt::skip]
const SUBSCRIPTION: &[KeySpec] = &[
    key(Subscription, "outbox", Reference(Outbox), r#""shop""#, "The outbox to read. Optional if there is only one."),
    key(Subscription, "sink", Reference(Sink), r#""out""#, "The sink to send to.").required(),
    key(Subscription, "start", Start, r#""position:123""#, "Where a new subscription starts: `beginning` (every event that is still in the outbox), `now` (skips all earlier events), `position:NUMBER` or `time:RFC3339`. Ignored once the subscription exists.").default("beginning"),
    key(Subscription, "only", List, r#"["order.placed", "order.paid"]"#, "Deliver only events of these types. Default: all."),
    key(Subscription, "aliases", List, r#"["mail-v1"]"#, "Earlier names of this subscription in an outbox of layout `eventlog`: their notifications are handled too, and no event is fanned out to them. Only for layout `eventlog`."),
    key(Subscription, "match", Choice(&["first", "all"]), r#""all""#, "`first`: an event goes to the destination of the first matching rule. `all`: it goes to the destinations of all matching rules.").default("first"),
    key(Subscription, "unrouted", Choice(&["park", "skip"]), r#""skip""#, "What happens to an event that no rule matches: it is parked as unrouted, or skipped.").default("park"),
    key(Subscription, "order", Choice(&["key", "none"]), r#""none""#, "Deliver events with the same key in order, or without any order.").default("key"),
    key(Subscription, "on_dead", Choice(&["proceed", "block"]), r#""block""#, "When an event is dead, deliver later events with the same key, or hold them until an operator acts.").default("proceed"),
    key(Subscription, "several_destinations", Bool, "true", "The subscription sends to several destinations: events for a destination that is down are parked, and the other destinations are not delayed.").default("false"),

    key(Subscription, "batch_events_max", COUNT, "500", "Maximum events per batch.").default("1000").on_eventlog("100"),
    key(Subscription, "batch_bytes_max", Size, r#""1MiB""#, "Maximum bytes of events per batch, all columns. A larger event is sent in its own batch.").default("4MiB"),
    key(Subscription, "batch_linger", Duration, r#""10ms""#, "How long a partial batch waits for more events while other batches are in flight.").default("5ms"),
    key(Subscription, "batches_in_flight_max", COUNT, "2", "Maximum batches in flight.").default("4"),
    key(Subscription, "publish_timeout", Duration, r#""10s""#, "Timeout for one batch.").default("30s"),

    key(Subscription, "read_ahead_events_max", COUNT, "4096", "Maximum events in memory.").default("8192"),
    key(Subscription, "read_ahead_bytes_max", Size, r#""64MiB""#, "Maximum bytes of events in memory, all columns and overhead.").default("16MiB"),
    key(Subscription, "claim_events_max", COUNT, "1000", "Maximum events per read from the database.").default("2000").on_eventlog("100"),

    key(Subscription, "window_events_max", COUNT, "1024", "Maximum events in flight or acknowledged but not yet settled: the limit on duplicates after a crash.").default("8192"),
    key(Subscription, "flush_interval", Duration, r#""20ms""#, "Maximum time between an acknowledgement and the commit of the progress.").default("50ms"),
    key(Subscription, "flush_events", COUNT, "1024", "Maximum number of acknowledgements between two commits of the progress.").default("4096"),

    key(Subscription, "max_attempts", COUNT, "5", "Attempts before an event is dead, unless the event has its own limit. A failure that may be caused by the destination is retried once before it counts as an attempt. In a table with a state per row, `max_attempts` of the outbox applies instead.").default("10"),
    key(Subscription, "backoff_min", Duration, r#""500ms""#, "Delay before the first retry; doubles with each failure.").default("1s").on_eventlog("30s"),
    key(Subscription, "backoff_max", Duration, r#""1m""#, "Maximum delay between two retries.").default("5m"),
    key(Subscription, "backoff_jitter", Bool, "false", "Shorten each retry delay by a random part, up to a half, so that retries do not happen at the same moment.").default("true").on_eventlog("false"),
    key(Subscription, "expire_while_down", Bool, "false", "Events expire while their destination is down. If false, they wait until it is up again.").default("true").on_eventlog("false"),
    key(Subscription, "parked_max", COUNT, "5000", "Maximum number of parked events, including dead ones. At the limit the subscription reads no new events.").default("100000"),

    key(Subscription, "breaker_keys", Number { min: 2 }, "3", "Number of keys that must fail in a row, without any success, before a destination is considered down.").default("5"),
    key(Subscription, "probe_min", Duration, r#""2s""#, "Delay before the first probe of a destination that is down; doubles with each probe.").default("1s"),
    key(Subscription, "probe_max", Duration, r#""1m""#, "Maximum delay between two probes.").default("30s"),

    key(Subscription, "lease", Duration, r#""5s""#, "Lease duration: a standby takes over from a crashed relay after this time. At least 100ms.").default("15s"),
    key(Subscription, "poll_min", Duration, r#""50ms""#, "Poll interval after the outbox became empty; doubles with each empty poll.").default("10ms"),
    key(Subscription, "poll_max", Duration, r#""2s""#, "Maximum poll interval of an idle outbox.").default("500ms").on_eventlog("1s"),
    key(Subscription, "drain_timeout", Duration, r#""10s""#, "How long a shutdown waits for events in flight.").default("30s"),

    key(Subscription, "trial_events", COUNT, "1", "Batch size right after a relay crashed.").default("8"),
    key(Subscription, "trial_deaths_max", COUNT, "2", "Number of relay crashes with a single event in flight before that event is dead.").default("3"),
];

#[rustfmt::skip]
const RULE: &[KeySpec] = &[
    key(Rule, "types", List, r#"["order.*"]"#, "Matches events of these types; `*` matches any text. Default: all types."),
    key(Rule, "aggregates", List, r#"["Order"]"#, "Matches events of these aggregate types; `*` matches any text. Default: all."),
    key(Rule, "destination", Text, r#""orders.{type}""#, "Template for the destination."),
    key(Rule, "key", Text, r#""{aggregate_id}""#, "Template for the message key."),
    key(Rule, "headers", Map, r#"{ tenant = "{header.tenant}" }"#, "Templates for additional headers."),
];
