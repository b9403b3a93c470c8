//! The table of keys agrees with the library, and every key in it has an effect.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Limits;
use postrider::layout::{FanOutPolicy, RowLayout, RowTable};
use postrider::relay::{Policy, Retention};
use postrider_cli::config::kind::Kind;
use postrider_cli::config::layer::{ConfigFile, Sources};
use postrider_cli::config::schema::{IfUnset, KeySpec, Schema, Section};
use postrider_cli::config::{Effective, Environment, Problem, Settings, json_schema};

fn settings(text: &str) -> Result<Settings, Vec<Problem>> {
    let environment: Environment =
        [("SHOP_PASSWORD", "secret"), ("OTLP_AUTHORIZATION", "secret")].into_iter().collect();
    let file = ConfigFile::new("test.toml", text);
    let sources = Sources { file: Some(&file), environment: &environment, flags: &[] };
    let (effective, problems) = Effective::merge(Schema::postrider(), &sources);
    if problems.is_empty() { Settings::new(&effective, &environment) } else { Err(problems) }
}

/// A file with the required keys and this key of no type; without a value, the key is omitted.
fn file(section: Section, key: &str, value: &str) -> String {
    file_of(section, None, key, value)
}

/// The same for a key that only this type has.
fn file_of(section: Section, of_type: Option<&str>, key: &str, value: &str) -> String {
    let mut lines: BTreeMap<String, String> = [
        ("outbox.shop.url", "'sqlite:a'"),
        ("outbox.other.url", "'sqlite:b'"),
        ("sink.out.type", "'null'"),
        ("sink.main.type", "'file'"),
        ("sink.main.path", "'a'"),
        ("subscription.s.outbox", "'other'"),
        ("subscription.s.sink", "'main'"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if is_for_servers(section, key) {
        lines.insert("outbox.shop.url".into(), "'postgres://h/db'".into());
    }
    if let Some(sink) = of_type.filter(|sink| *sink != "file") {
        lines.insert("sink.main.type".into(), format!("'{sink}'"));
        lines.remove("sink.main.path");
        for (other, value) in companions(sink, key).iter().filter(|(other, _)| *other != key) {
            lines.insert(format!("sink.main.{other}"), (*value).to_owned());
        }
    }
    if of_type == Some("webhook") {
        // Without a URL, events choose the host, which must be allowed.
        let (other, value) = if key == "url" { ("allow_hosts", "['*']") } else { ("url", "'https://h/'") };
        lines.insert(format!("sink.main.{other}"), value.into());
    }
    if is_about_rows(section, key) {
        lines.insert("outbox.shop.layout".into(), "'outbox_events'".into());
    }
    if is_about_notifications(section, key) {
        lines.insert("outbox.shop.layout".into(), "'eventlog'".into());
        lines.insert("subscription.s.outbox".into(), "'shop'".into());
    }
    if is_about_maps(section, key) || key == "layout" && value.contains("custom") {
        for (other, value) in MAPPED {
            lines.insert(format!("outbox.shop.{other}"), (*value).to_owned());
        }
    }
    if is_about_schemas(section, key, value) {
        // A file takes no binary messages.
        lines.insert("sink.main.type".into(), "'null'".into());
        lines.remove("sink.main.path");
        lines.insert("sink.main.encoder".into(), "'avro'".into());
        lines.insert("sink.main.schemas".into(), "[{ type = 'T', file = 't.avsc' }]".into());
    }
    if value.is_empty() {
        return lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    }
    if ["event_type", "type_header"].contains(&key) {
        let columns = "{ id = 'a', headers = 'b', payload = 'c', status = 's' }";
        lines.insert("outbox.shop.columns".into(), columns.into());
    }
    if let Some(other) = other_half(key) {
        lines.insert(format!("outbox.shop.{other}"), "'x'".into());
    }
    match section {
        Section::Relay => lines.insert(format!("relay.{key}"), value.to_owned()),
        Section::Http => lines.insert(format!("http.{key}"), value.to_owned()),
        Section::Dashboard => lines.insert(format!("dashboard.{key}"), value.to_owned()),
        Section::Traces => {
            // Without an endpoint, nothing is exported.
            lines.insert("traces.endpoint".into(), "'http://h'".into());
            lines.insert(format!("traces.{key}"), value.to_owned())
        }
        Section::Outbox => lines.insert(format!("outbox.shop.{key}"), value.to_owned()),
        Section::Sink => lines.insert(format!("sink.main.{key}"), value.to_owned()),
        Section::Subscription => lines.insert(format!("subscription.s.{key}"), value.to_owned()),
        Section::Rule => lines.insert("subscription.s.rule".into(), format!("[{{ {key} = {value} }}]")),
    };
    lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Keys without an effect for a SQLite file.
fn is_for_servers(section: Section, key: &str) -> bool {
    let ones = ["password", "schema", "after_failover", "pooler", "listen", "layout"];
    is_about_notifications(section, key)
        || section == Section::Outbox
            && (ones.contains(&key)
                || key.starts_with("tls_")
                || is_about_rows(section, key)
                || is_about_maps(section, key))
}

/// Keys only for encoders with schemas, and these encoders.
fn is_about_schemas(section: Section, key: &str, value: &str) -> bool {
    let ones = ["schemas", "envelope", "framing", "unknown_fields", "unions", "unbound", "registry"];
    let is_encoder = key == "encoder" && ["'avro'", "'protobuf'", "'json-schema'"].contains(&value);
    section == Section::Sink && (ones.contains(&key) || is_encoder)
}

/// Keys only for a table with a state per row.
fn is_about_rows(section: Section, key: &str) -> bool {
    let ones = ["table", "table_schema", "max_attempts", "shared", "foreign_claim_timeout"];
    section == Section::Outbox && ones.contains(&key)
}

/// Keys only for layout `eventlog`.
fn is_about_notifications(section: Section, key: &str) -> bool {
    let of_outbox = ["handle_within", "fan_out_events_max", "fan_out_poll", "search_missed_every"];
    match section {
        Section::Outbox => of_outbox.contains(&key),
        Section::Subscription => key == "aliases",
        _ => false,
    }
}

/// Keys only for a table with a column map.
fn is_about_maps(section: Section, key: &str) -> bool {
    let ones =
        ["preset", "columns", "states", "also_pending", "event_type", "type_header", "delete_delivered"];
    section == Section::Outbox && ones.contains(&key)
}

/// The required keys of a table with a column map.
const MAPPED: &[(&str, &str)] = &[
    ("layout", "'custom'"),
    ("table", "'t'"),
    ("columns", "{ id = 'a', type = 'b', payload = 'c', status = 's' }"),
    ("states", "{ pending = 'A', done = 'B' }"),
];

/// A key that another needs.
fn other_half(key: &str) -> Option<&'static str> {
    match key {
        "tls_client_cert" => Some("tls_client_key"),
        "tls_client_key" => Some("tls_client_cert"),
        _ => None,
    }
}

/// The other required keys of a Kafka sink.
/// What a sink of this type needs so that this key has an effect.
fn companions(sink: &str, key: &str) -> Vec<(&'static str, &'static str)> {
    let mut all = match sink {
        "kafka" => kafka(key).to_vec(),
        "rabbitmq" if key.starts_with("tls") => vec![("url", "'amqps://h:5671'")],
        "rabbitmq" => vec![("url", "'amqp://h:5672'")],
        "nats" => vec![("url", "'nats://h:4222'"), ("stream", "'S'")],
        "redis" | "mqtt" => vec![("address", "'h:1'")],
        _ => Vec::new(),
    };
    if sink == "kafka" {
        return all;
    }
    all.extend(match key {
        "username" | "password" => vec![("username", "'u'"), ("password", "'p'")],
        "tls_certificate" | "tls_key" => vec![("tls_certificate", "'c'"), ("tls_key", "'k'")],
        "declare_exchange" | "declare_queues" => vec![("exchange", "'x'")],
        "declare_binding" => vec![("exchange", "'x'"), ("declare_queues", "['q']")],
        "create_replicas" => vec![("create_subjects", "['s']")],
        "replicas_timeout" => vec![("replicas", "1")],
        "fence" => vec![("fencing", "true")],
        _ => Vec::new(),
    });
    if key.starts_with("tls_") && ["redis", "mqtt", "nats"].contains(&sink) {
        all.push(("tls", "true"));
    }
    all
}

fn kafka(key: &str) -> &'static [(&'static str, &'static str)] {
    match key.split_once('_') {
        Some(("sasl", _)) => &[
            ("brokers", "'h:1'"),
            ("sasl_mechanism", "'PLAIN'"),
            ("sasl_username", "'u'"),
            ("sasl_password", "'p'"),
        ],
        Some(("create", _)) => &[("brokers", "'h:1'"), ("create_topics", "['t']")],
        Some(("tls", _)) => &[("brokers", "'h:1'"), ("tls", "true")],
        Some(("transactional", _)) => &[("brokers", "'h:1'"), ("transactional", "true")],
        _ => &[("brokers", "'h:1'")],
    }
}

fn least() -> String {
    file(Section::Outbox, "url", "'sqlite:a'")
}

#[test]
fn the_documented_defaults_are_those_of_the_library() {
    let settings = settings(&least()).unwrap();
    assert_eq!(settings.subscriptions["s"].policy, Policy::default());
    assert_eq!(settings.outboxes["shop"].limits, Limits::default());
    assert_eq!(settings.outboxes["shop"].retention, Retention::default());
}

#[test]
fn the_defaults_on_an_eventlog_outbox_are_those_of_notifications() {
    let eventlog = "outbox.log.url = 'postgres://h/db'\noutbox.log.layout = 'eventlog'\nsink.out.type = 'null'\n\
                    subscription.mail.sink = 'out'\n";
    let defaults = settings(eventlog).unwrap();
    assert_eq!(defaults.subscriptions["mail"].policy, Policy::for_notifications());
    let table = RowTable::new(RowLayout::Eventlog).fan_out(FanOutPolicy::default());
    assert_eq!(defaults.outboxes["log"].database.admin().row_table(), Some(&table));
    assert_eq!(defaults.outboxes["log"].retention, Retention::default_for(Some(&table)));

    let given = settings(&format!("{eventlog}subscription.mail.backoff_min = '1s'\n")).unwrap();
    let policy = Policy::for_notifications().backoff_min(std::time::Duration::from_secs(1));
    assert_eq!(given.subscriptions["mail"].policy, policy);
}

#[test]
fn keys_of_eventlog_are_refused_elsewhere() {
    let refused = |text: &str| settings(text).unwrap_err()[0].to_json()["what"].as_str().unwrap().to_owned();
    let other = least();
    for key in [
        "handle_within = '1d'",
        "fan_out_events_max = 1",
        "fan_out_poll = '1s'",
        "search_missed_every = '1m'",
    ] {
        let message = refused(&format!("{other}outbox.shop.{key}\n"));
        assert!(message.ends_with("this key is only for `layout = \"eventlog\"`"), "{message}");
    }
    let message = refused(&format!("{other}subscription.s.aliases = ['old']\n"));
    assert!(message.contains("aliases: only for an outbox of layout `eventlog`"), "{message}");
    let message = refused("outbox.a.url = 'sqlite:a'\noutbox.a.layout = 'eventlog'\n");
    assert_eq!(message, "outbox.a.layout: layout eventlog does not exist for SQLite");
    let message = refused(
        "outbox.a.url = 'postgres://h/d'\noutbox.a.layout = 'eventlog'\noutbox.a.fan_out_poll = '0s'\n",
    );
    assert_eq!(message, "outbox.a.fan_out_poll: use a duration above 0");
}

#[test]
fn the_example_of_every_key_is_valid_and_has_an_effect() {
    for KeySpec { section, name, example, kind, of_type, .. } in Schema::postrider().0 {
        let with = settings(&file_of(*section, *of_type, name, example));
        let with = with.unwrap_or_else(|problems| panic!("{section} {of_type:?} {name}: {problems:?}"));
        let without = settings(&file_of(*section, *of_type, name, "")).or_else(|problems| {
            // A required key cannot be left out.
            if companions(of_type.unwrap_or_default(), name).iter().any(|(key, _)| key == name) {
                return settings(&file(Section::Outbox, "url", "'sqlite:a'"));
            }
            Err(problems)
        });
        let without = format!("{:?}", without.unwrap());
        // A type adds its own keys, so the smallest file already has the type of the example. Values that may be secret
        // are always masked.
        let shown = !kind.is_sensitive() || *name == "url" || name.starts_with("tls");
        assert!(format!("{with:?}") != without || *name == "type" || !shown, "{section} {name} = {example}");
    }
}

#[test]
fn every_value_of_every_choice_is_accepted() {
    for entry in Schema::postrider().0.iter().filter(|entry| entry.name != "type") {
        let Kind::Choice(words) = entry.kind else { continue };
        let meanings = words.iter().map(|word| {
            format!(
                "{:?}",
                settings(&file_of(entry.section, entry.of_type, entry.name, &format!("'{word}'"))).unwrap()
            )
        });
        assert_eq!(meanings.collect::<BTreeSet<_>>().len(), words.len(), "{}", entry.name);
    }
}

#[test]
fn every_key_is_listed_once_and_described_in_sentences() {
    let mut seen = BTreeSet::new();
    for entry in Schema::postrider().0 {
        assert!(seen.insert((entry.section, entry.of_type, entry.name)), "{} twice", entry.name);
        assert!(entry.doc.ends_with('.'), "{}", entry.doc);
    }
}

#[test]
fn the_json_schema_contains_types_defaults_and_required_keys() {
    let document = json_schema::document(Schema::postrider());
    let name = "^[A-Za-z0-9_.-]{1,100}$";
    let outbox = &document["properties"]["outbox"]["patternProperties"][name];
    let sink = &document["properties"]["sink"]["patternProperties"][name];
    let subscription = &document["properties"]["subscription"]["patternProperties"][name];
    assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(outbox["required"], serde_json::json!(["url"]));
    assert_eq!(sink["allOf"][0]["then"]["required"], serde_json::json!(["path"]));
    assert_eq!(subscription["properties"]["max_attempts"]["default"], 10);
    assert_eq!(subscription["properties"]["flush_interval"]["default"], "50ms");
    assert_eq!(subscription["properties"]["rule"]["items"]["properties"]["types"]["type"], "array");
    for entry in Schema::postrider().0.iter().filter(|entry| entry.section == Section::Subscription) {
        let has_default = subscription["properties"][entry.name].get("default").is_some();
        assert_eq!(has_default, matches!(entry.if_unset, IfUnset::Default(_)), "{}", entry.name);
    }
}
