//! Encoders with schemas in the configuration, and `postrider schemas check`.

use postrider_testkit::servers::fake_registry::{FakeRegistry, Fault};
use serde_json::{Value, json};

use crate::program::Program;

const SCHEMA: &str = r#"{"type":"record","name":"OrderPlaced","fields":[{"name":"number","type":"int"}]}"#;

/// A configuration whose sink, which takes every message, has these keys.
fn program(keys: &str) -> Program {
    program_with("type = 'null'", keys)
}

fn program_with(sink: &str, keys: &str) -> Program {
    let config = format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.out]\n{sink}\n{keys}\n[subscription.s]\nsink = 'out'\n"
    );
    Program::with_config(&config).file("OrderPlaced.avsc", SCHEMA)
}

const AVRO: &str = "encoder = 'avro'\nschemas = [{ type = 'OrderPlaced', file = 'OrderPlaced.avsc' }]\n";

#[test]
fn a_configuration_with_schemas_is_checked_without_a_network() {
    let ran = program(&format!("{AVRO}registry = {{ url = 'http://127.0.0.1:1', register = true }}"))
        .run(&["config", "check"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for (keys, code, words) in [
        ("encoder = 'avro'", "PR-0605", "needs the schema of each event type"),
        ("framing = 'bare'", "PR-0604", "only for the encoders avro, protobuf and json-schema"),
        (
            "encoder = 'avro'\nschemas = [{ type = 'OrderPlaced', file = 'gone.avsc' }]",
            "PR-0508",
            "gone.avsc: it cannot be read",
        ),
        (
            "encoder = 'avro'\nschemas = [{ type = 'Other', file = 'OrderPlaced.avsc' }]",
            "PR-0508",
            "the binding is for \"Other\", the file defines \"OrderPlaced\"",
        ),
        (
            "encoder = 'protobuf'\nschemas = [{ type = 'OrderPlaced', file = 'OrderPlaced.avsc' }]",
            "PR-0508",
            "OrderPlaced.avsc",
        ),
        (&format!("{AVRO}framing = 'confluent'"), "PR-0508", "needs a registry"),
        (
            &format!("{AVRO}framing = 'single'"),
            "PR-0604",
            "one of \"single-object\", \"confluent\", \"bare\"",
        ),
        (&format!("{AVRO}action_params = true"), "PR-0604", "only for the encoders plain, cloudevents"),
        (
            &format!("{AVRO}registry = {{ urll = 'http://a' }}"),
            "PR-0604",
            "the unknown field \"urll\" (did you mean \"url\"?)",
        ),
        (&format!("{AVRO}registry = {{ register = true }}"), "PR-0604", "a table without \"url\""),
        (
            &format!("{AVRO}registry = {{ url = 'http://a', register = 'yes' }}"),
            "PR-0604",
            "for \"register\", which takes true or false",
        ),
        (
            &format!("{AVRO}registry = {{ url = 'http://a', username = 'u' }}"),
            "PR-0604",
            "set username and password, or token, or neither",
        ),
        (&format!("{AVRO}registry = {{ url = 'env:SR_URL' }}"), "PR-0607", "the variable SR_URL is not set"),
        ("encoder = 'avro'\nschemas = [{ type = 'A' }]", "PR-0604", "entry 1: a table without \"file\""),
        (
            "encoder = 'avro'\nschemas = [{ type = 'A', file = 'b', fille = 'c' }]",
            "PR-0604",
            "entry 1: the unknown field \"fille\" (did you mean \"file\"?)",
        ),
        ("encoder = 'avro'\nschemas = 'a'", "PR-0604", "a list of tables"),
    ] {
        let ran = program(keys).run(&["config", "check"]);
        assert_eq!(ran.exit, Some(2), "{keys}: {ran:?}");
        assert!(ran.stderr.contains(code) && ran.stderr.contains(words), "{keys}: {}", ran.stderr);
    }
}

#[test]
fn binary_messages_are_refused_for_sinks_that_write_lines() {
    let json = "encoder = 'json-schema'\nschemas = [{ type = 'a', file = 'a.json' }]\n";
    let protobuf = AVRO.replace("avro", "protobuf");
    let framed = format!("{json}registry = {{ url = 'http://a' }}");
    for sink in ["type = 'stdout'", "type = 'file'\npath = 'out'"] {
        for keys in [AVRO, &protobuf, &framed] {
            let ran = program_with(sink, keys).run(&["config", "check"]);
            assert_eq!(ran.exit, Some(2), "{sink} {keys}: {ran:?}");
            let says = "this sink writes lines of text, and";
            assert!(ran.stderr.contains("PR-0604") && ran.stderr.contains(says), "{}", ran.stderr);
        }
        let ran = program_with(sink, json).file("a.json", "{}").run(&["config", "check"]);
        assert_eq!(ran.exit, Some(0), "{sink}: {ran:?}");
    }
}

#[test]
fn files_elsewhere_are_refused_by_config_check() {
    let proto = "syntax = \"proto3\"; import \"../secret.proto\"; message OrderPlaced {}";
    let keys = "encoder = 'protobuf'\nschemas = [{ type = 'OrderPlaced', file = 'order.proto' }]";
    let ran = program(keys).file("order.proto", proto).run(&["config", "check"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    let says = "order.proto:1:27: invalid group name, or an import with `..`";
    assert!(ran.stderr.contains("PR-0508") && ran.stderr.contains(says), "{}", ran.stderr);
}

#[test]
fn no_output_contains_the_secrets_of_a_registry() {
    let keys = format!("{AVRO}registry = {{ url = 'https://me:hunter2@sr.example', token = 'hunter2' }}");
    for args in
        [&["config", "show"][..], &["config", "show", "--json"], &["config", "check"], &["schemas", "check"]]
    {
        let ran = program(&keys).run(args);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("hunter2"), "{args:?}: {ran:?}");
    }
}

fn checked(registry: &FakeRegistry, keys: &str, args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let keys = format!("{AVRO}registry = {{ url = '{}' {keys} }}", registry.url());
    let ran = program(&keys).run(&[&["schemas", "check", "--json"], args].concat());
    let rows = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    (ran.exit, rows)
}

#[test]
fn schemas_check_says_what_the_registry_knows() {
    let registry = FakeRegistry::start(Fault::None);
    let (exit, rows) = checked(&registry, "", &[]);
    assert_eq!(
        (exit, &rows[0]["state"], &rows[0]["refuses_start"]),
        (Some(5), &json!("compatible"), &json!(true))
    );
    let (exit, rows) = checked(&registry, ", register = true", &[]);
    assert_eq!((exit, &rows[0]["refuses_start"]), (Some(0), &json!(false)));
    let (exit, rows) = checked(&registry, "", &["--offline"]);
    assert_eq!((exit, &rows[0]["state"]), (Some(0), &json!("readable")));
    registry.add("OrderPlaced", SCHEMA);
    let (exit, rows) = checked(&registry, "", &[]);
    assert_eq!(exit, Some(0));
    assert_eq!(
        (&rows[0]["state"], &rows[0]["id"], &rows[0]["subject"]),
        (&json!("known"), &json!(1), &json!("OrderPlaced"))
    );
    registry.set(Fault::Unauthorised);
    let keys = format!("{AVRO}registry = {{ url = '{}' }}", registry.url());
    let ran = program(&keys).run(&["schemas", "check"]);
    assert!(ran.stderr.contains("PR-0506") && ran.stderr.contains("refuses the login"), "{ran:?}");
}

#[test]
fn doctor_checks_schemas_and_registry() {
    let registry = FakeRegistry::start(Fault::None);
    let keys = format!("{AVRO}registry = {{ url = '{}' }}", registry.url());
    let program = program(&keys);
    program.run(&["migrate", "up"]);
    let said = program.run(&["doctor"]).stdout;
    assert!(said.contains("the registry does not know the schema of subject \"OrderPlaced\""), "{said}");
    registry.add("OrderPlaced", SCHEMA);
    let said = program.run(&["doctor"]).stdout;
    assert!(said.contains("1 schema(s) of encoder avro") && said.contains("accepts all 1"), "{said}");
}

#[test]
fn a_relay_writes_validated_json_and_refuses_what_does_not_fit() {
    let schema = r#"{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]}"#;
    let keys = "encoder = 'json-schema'\nschemas = [{ type = 'order.placed', file = 'order.json' }]";
    let program = program_with("type = 'file'\npath = 'out'", keys).file("order.json", schema);
    program.run(&["migrate", "up"]);
    for payload in [r#"{"number":1}"#, r#"{"number":"one"}"#, r#"{"number":2}"#] {
        let ran = program.run(&["write", "--type", "order.placed", "--payload", payload]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(
        std::fs::read_to_string(program.path().join("out")).unwrap(),
        "{\"number\":1}\n{\"number\":2}\n",
        "{ran:?}"
    );
    let dead = program.run(&["dead", "list", "--json"]).stdout;
    assert!(dead.contains("payload.number"), "{dead}");
}
