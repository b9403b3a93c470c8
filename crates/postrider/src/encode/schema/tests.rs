//! The encoder as a whole: frames, envelopes, bindings, and a registry that fails.

use std::path::{Path, PathBuf};

use postrider_testkit::servers::fake_registry::{FakeRegistry, Fault};
use tempfile::TempDir;

use super::*;
use crate::encode::{Encoder, Outgoing};
use crate::{ActionContext, Code, Event, Position, Timestamp};

const WALLET: &str = r#"{"type":"record","name":"WalletCreated","namespace":"com.example.finance.avro","fields":[
    {"name":"modelId","type":"string"},
    {"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
    {"name":"note","type":["null","string"],"default":null}]}"#;
const PAYLOAD: &str = r#"{"modelId":"m1","amount":77.10}"#;
const NAME: &str = "com.example.finance.avro.WalletCreated";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A configuration with the schema of a wallet.
    fn avro(&self) -> SchemaConfig {
        let mut config = SchemaConfig::new(Format::Avro);
        config.schemas.push(SchemaBinding::new("WalletCreated", self.add("WalletCreated.avsc", WALLET)));
        config
    }
}

fn event() -> Event {
    let mut event = Event::new("WalletCreated", PAYLOAD).with_aggregate("Wallet", "w-1");
    event.id = "01980b7c-5a00-7000-8000-000000000001".parse().unwrap();
    event.time = Timestamp::from_micros(1_763_242_500_000_001);
    event.namespace = Some("com.example.finance".into());
    event.action = Some(ActionContext {
        id: "01980b7c-5a00-7000-8000-0000000000aa".parse().unwrap(),
        name: "CreateWallet".into(),
        params: r#"{"owner":"Ada"}"#.into(),
        started: Timestamp::from_micros(1_763_242_499_900_000),
        completed: Timestamp::from_micros(-1),
    });
    event
}

fn encode(config: &SchemaConfig, event: &Event) -> crate::Result<Vec<u8>> {
    encoded_by(&SchemaEncoder::open(config)?, event)
}

fn encoded_by(encoder: &SchemaEncoder, event: &Event) -> crate::Result<Vec<u8>> {
    Ok(encoder.encode(&Outgoing::new(Position::new(1), event))?.body.to_vec())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

#[tokio::test]
async fn the_golden_frame_has_the_golden_bytes() {
    let files = Files::new();
    let registry = FakeRegistry::start(Fault::None);
    assert_eq!(registry.add(NAME, WALLET), 1);
    let mut config = files.avro();
    config.registry = Some(RegistryConfig::new(registry.url()));
    let encoder = SchemaEncoder::open(&config).unwrap();
    encoder.prepare().await.unwrap();
    assert_eq!(encoded_by(&encoder, &event()).unwrap(), hex("0000000001 046d31 041e1e 00"));
    let asked = registry.requests();
    encoder.prepare().await.unwrap();
    assert_eq!(registry.requests(), asked, "ids are asked for once");
}

/// The fingerprint is that of the documents' schema, as fastavro and avro-tools compute it.
#[test]
fn the_envelope_has_the_fingerprint_of_the_documents() {
    let compiled = avro::AvroWriter::compile(action_event::AVRO).unwrap();
    assert_eq!(compiled.fingerprint().to_vec(), hex("7355c7eafad5f812"));
    assert_eq!(compiled.name(), action_event::subject(Format::Avro));
}

#[test]
fn an_avro_envelope_has_its_13_fields_and_a_framed_payload() {
    let files = Files::new();
    let mut config = files.avro();
    config.envelope = SchemaEnvelope::ActionEvent;
    let bytes = encode(&config, &event()).unwrap();
    assert_eq!(bytes[..10], hex("c301 7355c7eafad5f812"));
    let schema = apache_avro::Schema::parse_str(action_event::AVRO).unwrap();
    let mut rest = &bytes[10..];
    let read = apache_avro::reader::datum::GenericDatumReader::builder(&schema).build().unwrap();
    let apache_avro::types::Value::Record(fields) = read.read_value(&mut rest).unwrap() else { panic!() };
    assert!(rest.is_empty());
    let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
    assert_eq!(shown[0], r#"id String("01980b7c-5a00-7000-8000-000000000001")"#);
    assert_eq!(shown[4], r#"action_params String("{\"owner\":\"Ada\"}")"#);
    assert_eq!(shown[6], "completion_date TimestampMicros(-1)");
    assert_eq!(shown[7], r#"model_id Union(1, String("w-1"))"#);
    assert_eq!(shown[12], "delivered Boolean(false)");
    let payload = encode(&files.avro(), &event()).unwrap();
    assert_eq!(payload[..2], hex("c301"));
    assert_eq!(payload[10..], hex("046d31 041e1e 00"));
    assert_eq!(shown[10], format!("payload Union(1, Bytes({payload:?}))"));
}

#[test]
fn a_protobuf_envelope_has_its_13_fields_and_a_bare_payload() {
    let files = Files::new();
    let text = r#"syntax = "proto3"; package com.example.finance.proto; message WalletCreated { string model_id = 1; }"#;
    let mut config = SchemaConfig::new(Format::Protobuf);
    config.schemas.push(SchemaBinding::new("WalletCreated", files.add("w.proto", text)));
    config.envelope = SchemaEnvelope::ActionEvent;
    let bytes = encode(&config, &event()).unwrap();
    let path = files.add("ActionEvent.proto", action_event::PROTOBUF);
    let message = protobuf::file::ProtobufFile::read(&path, &files::Budget::default())
        .unwrap()
        .message(None, "ActionEvent")
        .unwrap();
    assert_eq!(message.full_name(), action_event::subject(Format::Protobuf));
    let read = prost_reflect::DynamicMessage::decode(message, &bytes[..]).unwrap();
    let json = serde_json::to_value(&read).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "id": "01980b7c-5a00-7000-8000-000000000001",
            "namespace": "com.example.finance",
            "actionId": "01980b7c-5a00-7000-8000-0000000000aa",
            "actionName": "CreateWallet",
            "actionParams": "{\"owner\":\"Ada\"}",
            "startedDate": "2025-11-15T21:34:59.900Z",
            "completionDate": "1969-12-31T23:59:59.999999Z",
            "modelId": "w-1",
            "modelType": "Wallet",
            "eventType": "WalletCreated",
            "payload": "CgJtMQ==",
            "eventDate": "2025-11-15T21:35:00.000001Z",
        })
    );
    config.envelope = SchemaEnvelope::None;
    assert_eq!(encode(&config, &event()).unwrap(), hex("0a026d31"));
}

#[test]
fn a_json_schema_validates_and_changes_nothing() {
    let files = Files::new();
    let schema = r#"{"type":"object","properties":{"modelId":{"type":"string","pattern":"^m"},"amount":{"type":"number"}},"required":["modelId"]}"#;
    let mut config = SchemaConfig::new(Format::JsonSchema);
    config.schemas.push(SchemaBinding::new("WalletCreated", files.add("w.json", schema)));
    assert_eq!(encode(&config, &event()).unwrap(), PAYLOAD.as_bytes());
    for (payload, why) in [
        (r#"{"modelId":"secret"}"#, "payload.modelId: wanted what the schema says at "),
        (r#"{"modelId":1}"#, "payload.modelId: wanted what the schema says at "),
        ("{}", "payload: wanted what the schema says at /required"),
        (r#"{"modelId":"m","modelId":"m"}"#, "payload.modelId: wanted each name once"),
        ("[]", "payload: wanted a JSON object"),
    ] {
        let mut event = event();
        event.payload = payload.into();
        let error = encode(&config, &event).unwrap_err();
        assert_eq!(error.code(), Code::SchemaMisfit);
        assert!(error.message().starts_with(why), "{payload}: {}", error.message());
        assert!(!error.message().contains("secret"), "{}", error.message());
    }
    config.envelope = SchemaEnvelope::ActionEvent;
    let envelope: serde_json::Value = serde_json::from_slice(&encode(&config, &event()).unwrap()).unwrap();
    let own = json_schema::JsonSchema::compile(action_event::JSON_SCHEMA).unwrap();
    let bytes = envelope.to_string();
    let document = json::Document::parse(bytes.as_bytes()).unwrap();
    assert_eq!(own.write(&document, bytes.as_bytes(), &mut Vec::new()), Ok(()));
    assert_eq!((&envelope["payload"]["modelId"], envelope.as_object().unwrap().len()), (&"m1".into(), 13));
}

#[test]
fn json_schemas_that_refer_elsewhere_or_to_themselves_are_no_danger() {
    for schema in [r#"{"$ref":"https://example.com/a.json"}"#, r#"{"$ref":"file:///etc/passwd"}"#, "[]", "{"]
    {
        assert!(json_schema::JsonSchema::compile(schema).is_err(), "{schema}");
    }
    let own = r##"{"properties":{"a":{"$ref":"#"}}}"##;
    let schema = json_schema::JsonSchema::compile(own).unwrap();
    let deep = format!("{}{{}}{}", r#"{"a":"#.repeat(60), "}".repeat(60));
    let document = json::Document::parse(deep.as_bytes()).unwrap();
    assert_eq!(schema.write(&document, deep.as_bytes(), &mut Vec::new()), Ok(()));
}

#[test]
fn an_event_without_the_fields_of_the_envelope_is_refused_with_the_name_of_the_field() {
    let files = Files::new();
    let mut config = files.avro();
    config.envelope = SchemaEnvelope::ActionEvent;
    for (field, event) in
        [("namespace", Event { namespace: None, ..event() }), ("action", Event { action: None, ..event() })]
    {
        let error = encode(&config, &event).unwrap_err();
        assert_eq!(error.code(), Code::SchemaMisfit);
        assert!(error.message().contains(&format!("has no {field}")), "{}", error.message());
    }
    let empty = Event { payload: crate::Bytes::new(), ..event() };
    assert!(encode(&config, &empty).is_ok(), "an event without a payload has a payload of null");
}

#[test]
fn the_binding_of_the_namespace_comes_before_the_one_for_all() {
    let files = Files::new();
    let of = |name: &str, field: &str| {
        format!(r#"{{"type":"record","name":"{name}","fields":[{{"name":"{field}","type":"string"}}]}}"#)
    };
    let mut config = SchemaConfig::new(Format::Avro);
    config.schemas.push(SchemaBinding::new("T", files.add("all.avsc", &of("T", "a"))));
    let mut special = SchemaBinding::new("T", files.add("special.avsc", &of("n.T", "b")));
    special.namespace = Some("n".into());
    config.schemas.push(special);
    let of_namespace = |namespace: Option<&str>, payload: &'static str| {
        let event = Event { namespace: namespace.map(str::to_owned), ..Event::new("T", payload) };
        encode(&config, &event).is_ok()
    };
    assert!(of_namespace(Some("n"), r#"{"b":"x"}"#) && !of_namespace(Some("n"), r#"{"a":"x"}"#));
    assert!(of_namespace(Some("m"), r#"{"a":"x"}"#) && of_namespace(None, r#"{"a":"x"}"#));
}

#[test]
fn a_type_without_a_binding_waits_or_is_refused() {
    let files = Files::new();
    let mut config = files.avro();
    let other = Event::new("Other", "{}");
    let encoder = SchemaEncoder::open(&config).unwrap();
    assert_eq!(encoder.missing_for(&other).as_deref(), Some("no schema is configured for type \"Other\""));
    assert_eq!(encoder.missing_for(&event()), None);
    config.unbound = Unbound::Reject;
    assert_eq!(SchemaEncoder::open(&config).unwrap().missing_for(&other), None);
    assert_eq!(encode(&config, &other).unwrap_err().code(), Code::SchemaUnbound);
}

#[test]
fn what_cannot_work_is_refused_when_the_encoder_is_created() {
    let files = Files::new();
    let wallet = files.add("w.avsc", WALLET);
    let proto =
        files.add("p.proto", "syntax = \"proto3\"; import \"gone.proto\"; message P { string a = 1; }");
    let invalid = files.add("i.avsc", "{\"type\":\"record\"}");
    let binding = |event_type: &str, file: &Path| SchemaBinding::new(event_type, file);
    let config = |format, schemas: Vec<SchemaBinding>| {
        let mut config = SchemaConfig::new(format);
        config.schemas = schemas;
        config
    };
    let named = |message: &str| {
        let mut named = binding("WalletCreated", &wallet);
        named.message = Some(message.into());
        named
    };
    let in_namespace = |namespace: &str| {
        let mut of = binding("WalletCreated", &wallet);
        of.namespace = Some(namespace.into());
        of
    };
    let refusals = [
        (
            config(Format::Avro, vec![binding("T", &files.0.path().join("none.avsc"))]),
            "none.avsc: it cannot be read",
        ),
        (
            config(Format::Avro, vec![binding("T", &wallet)]),
            "the binding is for \"T\", the file defines \"com.example.finance.avro.WalletCreated\"",
        ),
        (config(Format::Avro, vec![named("a.B")]), "the binding is for \"a.B\""),
        (
            config(Format::Avro, vec![in_namespace("com.other")]),
            "the binding is for \"com.other.avro.WalletCreated\"",
        ),
        (config(Format::Avro, vec![binding("i", &invalid)]), "i.avsc"),
        (
            config(Format::Avro, vec![binding("WalletCreated", &wallet), binding("WalletCreated", &wallet)]),
            "has two schemas",
        ),
        (config(Format::Protobuf, vec![binding("P", &proto)]), "gone.proto"),
        (config(Format::JsonSchema, vec![binding("P", &proto)]), "p.proto"),
    ];
    for (config, why) in refusals {
        let error = SchemaEncoder::open(&config).unwrap_err();
        assert_eq!(error.code(), Code::SchemaInvalid);
        assert!(error.message().contains(why), "{why}: {}", error.message());
    }
    assert!(SchemaEncoder::open(&config(Format::Avro, vec![in_namespace("com.example.finance")])).is_ok());
    assert!(SchemaEncoder::open(&config(Format::Avro, vec![named(NAME)])).is_ok());
    for (format, framing, why) in [
        (
            Format::Protobuf,
            Framing::SingleObject,
            "framing \"single-object\" is for Avro, not for \"protobuf\"",
        ),
        (
            Format::JsonSchema,
            Framing::SingleObject,
            "framing \"single-object\" is for Avro, not for \"json-schema\"",
        ),
        (Format::Avro, Framing::Confluent, "framing \"confluent\" needs a registry"),
    ] {
        let mut config = SchemaConfig::new(format);
        config.framing = Some(framing);
        assert!(SchemaEncoder::open(&config).unwrap_err().message().starts_with(why), "{why}");
    }
}

#[test]
fn registries_that_cannot_be_used_are_refused_without_their_secrets() {
    let files = Files::new();
    for url in
        ["", "ftp://a/b", "http://", "https://u:hunter2@host/?x=1", "https://host/#x", "not a url hunter2"]
    {
        let mut config = files.avro();
        config.registry = Some(RegistryConfig::new(url));
        let error = SchemaEncoder::open(&config).unwrap_err();
        assert_eq!(error.code(), Code::SchemaInvalid, "{url}");
        assert!(!error.report().contains("hunter2"), "{}", error.report());
    }
    let mut config = files.avro();
    let mut registry = RegistryConfig::new("https://u:hunter2@localhost:1/a");
    config.registry = Some(registry.clone());
    assert!(!format!("{:?}", SchemaEncoder::open(&config).unwrap().registry_address()).contains("hunter2"));
    registry.auth = Some(RegistryAuth::Bearer("hunter2".into()));
    assert!(!format!("{registry:?}").contains("hunter2"));
    config.registry = Some(registry);
    assert!(SchemaEncoder::open(&config).is_err(), "two logins");
}

/// The error of `prepare` with a registry in this state, and what was sent for the login.
async fn prepared(fault: Fault, auth: Option<RegistryAuth>) -> (crate::Result<()>, Vec<String>) {
    let files = Files::new();
    let registry = FakeRegistry::start(fault);
    registry.add(NAME, WALLET);
    let mut config = files.avro();
    let mut of_registry = RegistryConfig::new(registry.url());
    of_registry.auth = auth;
    config.registry = Some(of_registry);
    let encoder = SchemaEncoder::open(&config).unwrap();
    let done = encoder.prepare().await;
    (done, registry.logins())
}

#[tokio::test]
async fn a_registry_that_fails_is_unavailable_and_one_that_refuses_refuses() {
    for (fault, code, words) in [
        (Fault::Down, Code::SchemaUnavailable, "the connection failed"),
        (Fault::Broken, Code::SchemaUnavailable, "it answers 500"),
        (Fault::Unauthorised, Code::SchemaUnavailable, "it refuses the login (401)"),
        (Fault::Wrong, Code::SchemaUnavailable, "its answer is not JSON; check the URL"),
        (Fault::Redirect, Code::SchemaUnavailable, "it redirects (302)"),
        (Fault::Huge, Code::SchemaUnavailable, "its answer has more than"),
        (Fault::Incompatible, Code::SchemaRefused, "field x was removed (409)"),
    ] {
        let auth = Some(RegistryAuth::Basic { username: "relay".into(), password: "hunter2".into() });
        let error = prepared(fault, auth).await.0.unwrap_err();
        assert_eq!(error.code(), code, "{fault:?}: {}", error.report());
        assert!(error.message().contains(words), "{fault:?}: {}", error.report());
        assert!(!error.report().contains("hunter2"), "{}", error.report());
    }
}

#[tokio::test]
async fn a_registry_gets_the_login() {
    let basic = RegistryAuth::Basic { username: "relay".into(), password: "hunter2".into() };
    assert_eq!(prepared(Fault::None, Some(basic)).await.1, ["Basic cmVsYXk6aHVudGVyMg=="]);
    let bearer = RegistryAuth::Bearer("token".into());
    assert_eq!(prepared(Fault::None, Some(bearer)).await.1, ["Bearer token"]);
    assert_eq!(prepared(Fault::None, None).await.1, [""; 0]);
}

#[tokio::test]
async fn an_unknown_schema_is_registered_only_if_that_is_configured() {
    let files = Files::new();
    let registry = FakeRegistry::start(Fault::None);
    let mut config = files.avro();
    let mut of_registry = RegistryConfig::new(registry.url());
    config.registry = Some(of_registry.clone());
    let error = SchemaEncoder::open(&config).unwrap().prepare().await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaRefused);
    assert!(error.message().contains(NAME), "{}", error.message());
    of_registry.register = true;
    config.registry = Some(of_registry);
    let encoder = SchemaEncoder::open(&config).unwrap();
    encoder.prepare().await.unwrap();
    assert_eq!(encoded_by(&encoder, &event()).unwrap()[..5], [0, 0, 0, 0, 1]);
}

#[test]
fn an_encoder_that_was_not_prepared_encodes_nothing() {
    let files = Files::new();
    let mut config = files.avro();
    config.registry = Some(RegistryConfig::new("http://localhost:1"));
    assert_eq!(encode(&config, &event()).unwrap_err().code(), Code::SchemaUnavailable);
}
