//! Readers without a registry: fastavro, and the tools of the reference implementation of Avro.

use postrider::encode::schema::{Format, Framing, SchemaEncoder, SchemaEnvelope};
use postrider_testkit::servers::apicurio::{avro_tool, read_with_python};
use serde_json::Value;

use super::files::{AVRO, Files, encoded, hex};

/// Reads a single-object message by the fingerprint of the schema, and prints it.
const FASTAVRO: &str = r#"
import io, json, sys
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import fingerprint, to_parsing_canonical_form
schema = json.loads(sys.argv[1])
message = bytes.fromhex(sys.argv[2])
expected = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
assert message[:2] == b"\xc3\x01", message[:2]
assert message[2:10].hex() == expected, (message[2:10].hex(), expected)
rest = io.BytesIO(message[10:])
print(json.dumps(schemaless_reader(rest, parse_schema(schema)), default=str))
assert not rest.read()
"#;

/// Schemas whose canonical form is easy to get wrong.
const SCHEMAS: [&str; 4] = [
    r#"{"type":"record","name":"A","fields":[{"name":"x","type":{"type":"int","logicalType":"date"},"default":0,"doc":"d"}]}"#,
    r#"{"type":"record","name":"a.b.A","namespace":"ignored","aliases":["Z"],"fields":[{"name":"x","type":["null","A"],"default":null,"order":"ignore"}]}"#,
    r#"{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":{"type":"fixed","name":"m.F","size":3}},{"name":"y","type":"m.F"},{"name":"e","type":{"type":"enum","name":"E","symbols":["A"],"default":"A"}}]}"#,
    r#"{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":{"type":"map","values":{"type":"array","items":{"type":"record","name":"In","namespace":"","fields":[]}}}}]}"#,
];

fn encoder(files: &Files, framing: Framing) -> SchemaEncoder {
    let mut config = files.config(Format::Avro);
    config.framing = Some(framing);
    SchemaEncoder::open(&config).unwrap()
}

#[test]
fn fastavro_reads_single_objects_by_their_fingerprint() {
    let files = Files::new();
    let message = hex(&encoded(&encoder(&files, Framing::SingleObject)));
    let Some(read) = read_with_python(FASTAVRO, &[AVRO, &message]).unwrap() else { return };
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(
        (&read["total"], &read["state"], &read["channel"]),
        (&"77.10".into(), &"PAID".into(), &"web".into())
    );
}

#[test]
fn fingerprints_are_those_of_avro_tools() {
    let files = Files::new();
    for schema in SCHEMAS.into_iter().chain([AVRO]) {
        std::fs::write(files.path("any.avsc"), schema).unwrap();
        let path = files.path("any.avsc").display().to_string();
        let Some(said) = avro_tool(&["fingerprint", "--fingerprint", "CRC-64-AVRO", &path]).unwrap() else {
            return;
        };
        let expected = said.split_whitespace().next().unwrap();
        let mut config = files.config(Format::Avro);
        config.schemas[0].file = files.path("any.avsc");
        let parsed: Value = serde_json::from_str(schema).unwrap();
        let name = parsed["name"].as_str().unwrap();
        let namespace = parsed["namespace"].as_str().filter(|_| !name.contains('.'));
        config.schemas[0].message = Some(namespace.map_or(name.to_owned(), |of| format!("{of}.{name}")));
        let encoder = SchemaEncoder::open(&config).unwrap();
        assert_eq!(hex(&encoder.fingerprint("order.placed").unwrap()), expected, "{schema}");
    }
}

#[test]
fn avro_tools_read_bare_messages() {
    let files = Files::new();
    std::fs::write(files.path("message"), encoded(&encoder(&files, Framing::Bare))).unwrap();
    let (schema, message) = (files.path("order.avsc"), files.path("message"));
    let arguments =
        ["fragtojson", "--schema-file", &schema.display().to_string(), &message.display().to_string()];
    let Some(read) = avro_tool(&arguments).unwrap() else { return };
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(
        (&read["id"], &read["lines"][1]["count"], &read["note"]),
        (&"o-1 é".into(), &(-2).into(), &Value::Null)
    );
}

/// The messages in all formats.
fn messages() -> Vec<String> {
    let files = Files::new();
    let message = |format| {
        let mut config = files.config(format);
        config.envelope = SchemaEnvelope::ActionEvent;
        hex(&encoded(&SchemaEncoder::open(&config).unwrap()))
    };
    [Format::Avro, Format::Protobuf, Format::JsonSchema].map(message).into()
}

#[test]
fn the_same_event_has_the_same_bytes_in_other_processes() {
    let expected = messages();
    for _ in 0..3 {
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "readers::messages_are_printed_for_another_process", "--nocapture"]);
        let said = String::from_utf8(other.output().unwrap().stdout).unwrap();
        assert!(expected.iter().all(|message| said.contains(message.as_str())), "{said}");
    }
}

#[test]
fn messages_are_printed_for_another_process() {
    let messages = messages();
    messages.iter().for_each(|message| println!("{message}"));
    assert_eq!(messages.len(), 3);
}
