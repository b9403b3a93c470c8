//! Schemas and payloads that would cost too much, files that are elsewhere, and a registry that mixes schemas up.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use postrider_testkit::servers::fake_registry::{FakeRegistry, Fault};
use tempfile::TempDir;

use super::limits::{FILE_BYTES_MAX, IMPORTS_MAX};
use super::*;
use crate::encode::{Encoder, Outgoing};
use crate::{Code, Event, Position};

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn add(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn of(format: Format, path: &Path) -> SchemaConfig {
    let mut config = SchemaConfig::new(format);
    config.schemas.push(SchemaBinding::new("T", path));
    config
}

/// The message with which the encoder is refused.
fn refused(format: Format, path: &Path) -> String {
    let error = SchemaEncoder::open(&of(format, path)).unwrap_err();
    assert_eq!(error.code(), Code::SchemaInvalid, "{}", error.report());
    assert!(error.message().len() < 2_000, "{} bytes", error.message().len());
    error.message().to_owned()
}

/// The length of the message of a payload, or why there is none.
fn encoded(format: Format, path: &Path, payload: String) -> Result<usize, String> {
    let encoder = SchemaEncoder::open(&of(format, path)).unwrap();
    let event = Event::new("T", payload);
    let encoded = encoder.encode(&Outgoing::new(Position::new(1), &event));
    encoded.map(|encoded| encoded.body.len()).map_err(|error| {
        assert_eq!(error.code(), Code::SchemaMisfit);
        error.message().to_owned()
    })
}

fn record(name: &str, fields: &str) -> String {
    format!(r#"{{"type":"record","name":"{name}","fields":[{fields}]}}"#)
}

fn message(fields: &str) -> String {
    format!("syntax = \"proto3\"; message T {{ {fields} }}")
}

#[test]
fn a_file_must_be_in_the_folder_that_the_configuration_names() {
    let files = Files::new();
    let schema = record("T", "");
    let outside = files.add("outside/T.avsc", &schema);
    files.add("schemas/a", "");
    let link = files.path("schemas/T.avsc");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    assert!(refused(Format::Avro, &link).contains("a symbolic link that leads out of its folder"));
    // As Kubernetes mounts files.
    files.add("mounted/..2026/T.avsc", &schema);
    std::os::unix::fs::symlink("..2026", files.path("mounted/..data")).unwrap();
    std::os::unix::fs::symlink("..data/T.avsc", files.path("mounted/T.avsc")).unwrap();
    assert!(SchemaEncoder::open(&of(Format::Avro, &files.path("mounted/T.avsc"))).is_ok());
    for (path, why) in [
        ("schemas", "it is not a file"),
        ("schemas/..", "it is not a file"),
        ("schemas/none.avsc", "it cannot be read: there is no such file"),
        ("none/T.avsc", "it cannot be read: there is no such file"),
    ] {
        assert!(refused(Format::Avro, &files.path(path)).ends_with(why), "{path}");
    }
}

#[test]
fn an_import_must_be_in_the_folder_of_its_schema() {
    let files = Files::new();
    files.add("secret.proto", "syntax = \"proto3\"; message S { string a = 1; }");
    let secret = files.path("secret.proto");
    files.add("schemas/sub/a.proto", "syntax = \"proto3\"; message A { string a = 1; }");
    std::os::unix::fs::symlink(&secret, files.path("schemas/linked.proto")).unwrap();
    std::os::unix::fs::symlink(files.0.path(), files.path("schemas/up")).unwrap();
    let import = |name: &str| format!("syntax = \"proto3\"; import \"{name}\";");
    let importing = |name: &str| files.add("schemas/T.proto", &format!("{} message T {{}}", import(name)));
    for name in [
        "../secret.proto",
        "sub/../../secret.proto",
        secret.to_str().unwrap(),
        "linked.proto",
        "up/secret.proto",
        "./../secret.proto",
    ] {
        let why = refused(Format::Protobuf, &importing(name));
        let is_named = ["an import with `..`", "not a path within the folder", "leads out of its folder"]
            .iter()
            .any(|words| why.contains(words));
        assert!(is_named, "{name}: {why}");
    }
    assert!(SchemaEncoder::open(&of(Format::Protobuf, &importing("sub/a.proto"))).is_ok());
    assert!(SchemaEncoder::open(&of(Format::Protobuf, &importing("google/protobuf/any.proto"))).is_ok());
}

#[test]
fn files_have_limits_of_size_and_number() {
    let files = Files::new();
    let large = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
    for (format, name) in
        [(Format::Avro, "l.avsc"), (Format::Protobuf, "l.proto"), (Format::JsonSchema, "l.json")]
    {
        let why = refused(format, &files.add(name, &" ".repeat(large)));
        assert!(why.contains("it has more than 1048576 bytes"), "{why}");
    }
    assert!(refused(Format::Avro, Path::new("/dev/zero")).contains("it is not a file"));
    let import = |number: usize| format!("import \"{number}.proto\";\n");
    // One after the other, which is recursive, and all at once.
    for number in 0..=IMPORTS_MAX {
        files.add(&format!("{number}.proto"), &format!("syntax = \"proto3\"; {}", import(number + 1)));
    }
    let chain = files.add("T.proto", &format!("syntax = \"proto3\"; {} message T {{}}", import(0)));
    assert!(refused(Format::Protobuf, &chain).contains("it imports more than 200 files"));
    let imports: String = (0..=IMPORTS_MAX).map(import).collect();
    for number in 0..=IMPORTS_MAX {
        files.add(&format!("{number}.proto"), "syntax = \"proto3\";");
    }
    let wide = files.add("T.proto", &format!("syntax = \"proto3\"; {imports} message T {{}}"));
    assert!(refused(Format::Protobuf, &wide).contains("it imports more than 200 files"));
    let mut many = SchemaConfig::new(Format::Avro);
    let padded = format!("{}{}", record("T", ""), " ".repeat(large - 100));
    for number in 0..40 {
        let mut binding = SchemaBinding::new(format!("t{number}"), files.add("padded.avsc", &padded));
        binding.message = Some("T".into());
        many.schemas.push(binding);
    }
    let error = SchemaEncoder::open(&many).unwrap_err();
    assert!(error.message().contains("all schema files together"), "{}", error.message());
}

#[test]
fn compiled_schemas_have_limits_of_their_size() {
    let files = Files::new();
    let fields = |count: usize, of: &str| -> String {
        let fields = (0..count).map(|number| format!(r#"{{"name":"f{number}","type":{of}}}"#));
        fields.collect::<Vec<_>>().join(",")
    };
    let long = format!(r#"{{"name":"a","type":"string","default":"{}"}}"#, "x".repeat(60_000));
    let of_long = format!(
        r#"{{"name":"f","type":{}}},{}"#,
        record("L", &long),
        (0..200)
            .map(|n| format!(r#"{{"name":"g{n}","type":"L","default":{{}}}}"#))
            .collect::<Vec<_>>()
            .join(",")
    );
    let avro = [
        (fields(16_000, r#"["null","string"]"#), "more than 10000 types"),
        (
            r#"{"name":"f","type":{"type":"fixed","name":"F","size":2000000000}}"#.to_owned(),
            "the fixed \"F\" has 2000000000 bytes; the limit is 1048576",
        ),
        (
            r#"{"name":"f","type":{"type":"fixed","name":"F","size":2000000000,"logicalType":"decimal","precision":9}}"#
                .to_owned(),
            "has 2000000000 bytes",
        ),
        (of_long, "its defaults have more than 4194304 bytes together"),
        (doubling(0, 20), "default"),
    ];
    for (fields, why) in avro {
        let said = refused(Format::Avro, &files.add("T.avsc", &record("T", &fields)));
        assert!(said.contains(why), "{said}");
    }
    let mut messages = String::new();
    for number in 0..25_000 {
        _ = write!(messages, "message M{number} {{ M{} a = 1; }} ", number + 1);
    }
    let proto = format!("syntax = \"proto3\"; message T {{ M0 a = 1; }} {messages} message M25000 {{}}");
    let said = refused(Format::Protobuf, &files.add("T.proto", &proto));
    assert!(said.contains("more than 10000 messages"), "{said}");
}

/// A field with a default whose union has two branches, of which each has such a field. No branch fits in the end.
fn doubling(level: usize, levels: usize) -> String {
    if level == levels {
        return r#"{"name":"f","type":"int"}"#.to_owned();
    }
    let by_name = match level + 1 == levels {
        true => doubling(levels, levels),
        false => format!(r#"{{"name":"f","type":["A{0}","B{0}"],"default":{{}}}}"#, level + 1),
    };
    let one = record(&format!("A{level}"), &doubling(level + 1, levels));
    let other = record(&format!("B{level}"), &by_name);
    format!(r#"{{"name":"f","type":[{one},{other}],"default":{{}}}}"#)
}

#[test]
fn schemas_that_are_nested_deeply_are_compiled_or_refused_and_never_end_the_process() {
    let files = Files::new();
    for levels in [20, 60, 100, 10_000] {
        let array = format!(r#"{}"int"{}"#, r#"{"type":"array","items":"#.repeat(levels), "}".repeat(levels));
        let avro = files.add("T.avsc", &record("T", &format!(r#"{{"name":"f","type":{array}}}"#)));
        assert!(SchemaEncoder::open(&of(Format::Avro, &avro)).is_ok() || levels > 60, "{levels}");
        let records = (0..levels).fold(r#""int""#.to_owned(), |inner, level| {
            if inner.len() > 900_000 {
                inner
            } else {
                record(&format!("R{level}"), &format!(r#"{{"name":"f","type":{inner}}}"#))
            }
        });
        let avro = files.add("T.avsc", &record("T", &format!(r#"{{"name":"f","type":{records}}}"#)));
        _ = SchemaEncoder::open(&of(Format::Avro, &avro));
        let nested = format!("{}{}", "message T { ".repeat(levels), "}".repeat(levels));
        _ = SchemaEncoder::open(&of(
            Format::Protobuf,
            &files.add("T.proto", &format!("syntax = \"proto3\"; {nested}")),
        ));
        let braces = format!("{}{}", "option (a) = { b: ".repeat(levels), "}".repeat(levels));
        _ = SchemaEncoder::open(&of(
            Format::Protobuf,
            &files.add("T.proto", &format!("syntax = \"proto3\"; {braces}")),
        ));
        let text_format = format!("option (a) = {} {};", "{ b: ".repeat(levels), "}".repeat(levels));
        _ = SchemaEncoder::open(&of(
            Format::Protobuf,
            &files.add("T.proto", &format!("syntax = \"proto3\"; {text_format}")),
        ));
        let json = format!("{}{{}}{}", r#"{"not":"#.repeat(levels), "}".repeat(levels));
        assert!(
            SchemaEncoder::open(&of(Format::JsonSchema, &files.add("T.json", &json))).is_ok() || levels > 60
        );
    }
}

#[test]
fn a_small_payload_cannot_make_a_wide_schema_cost_much() {
    let files = Files::new();
    // Three bytes of payload for each object with thousands of fields.
    let objects = format!("{{\"r\":[{}{{}}]}}", "{},".repeat(1_000_000));
    let optional: Vec<String> =
        (0..5_000).map(|number| format!(r#"{{"name":"f{number}","type":"int","default":0}}"#)).collect();
    let wide = record("W", &optional.join(","));
    let avro = record("T", &format!(r#"{{"name":"r","type":{{"type":"array","items":{wide}}}}}"#));
    let fields: String = (1..5_000).map(|number| format!("int32 f{number} = {number}; ")).collect();
    let proto = format!("syntax = \"proto3\"; message T {{ repeated W r = 1; }} message W {{ {fields} }}");
    for (format, path) in
        [(Format::Avro, files.add("T.avsc", &avro)), (Format::Protobuf, files.add("T.proto", &proto))]
    {
        let why = encoded(format, &path, objects.clone()).unwrap_err();
        assert!(why.contains("a payload that is too large for its schema"), "{why}");
        assert!(encoded(format, &path, "{\"r\":[{},{}]}".into()).is_ok());
    }
}

#[test]
fn decimals_and_long_texts_in_branches_are_counted() {
    let files = Files::new();
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":1000,"scale":0}"#;
    let path = files.add(
        "T.avsc",
        &record("T", &format!(r#"{{"name":"d","type":{{"type":"array","items":{decimal}}}}}"#)),
    );
    let numbers = format!("{{\"d\":[{}1]}}", "1e999,".repeat(1_000_000));
    assert!(encoded(Format::Avro, &path, numbers).unwrap_err().contains("too large for its schema"));
    assert!(encoded(Format::Avro, &path, "{\"d\":[1e999,1,-1]}".into()).is_ok());
    // Each of a hundred branches copies the text.
    let branches: Vec<String> = (0..100)
        .map(|number| {
            record(&format!("R{number}"), r#"{"name":"a","type":"string"},{"name":"b","type":"int"}"#)
        })
        .collect();
    let path =
        files.add("T.avsc", &record("T", &format!(r#"{{"name":"u","type":[{}]}}"#, branches.join(","))));
    let of_length = |length: usize| format!(r#"{{"u":{{"a":"{}","b":1}}}}"#, "x".repeat(length));
    assert!(encoded(Format::Avro, &path, of_length(10_000_000)).is_err());
    assert!(encoded(Format::Avro, &path, of_length(100_000)).is_ok());
}

#[test]
fn enums_with_many_symbols_are_found_by_name_and_number() {
    let files = Files::new();
    let symbols: Vec<String> = (0..2_000).map(|number| format!("\"S{number}\"")).collect();
    let of_symbols = format!(r#"{{"type":"enum","name":"E","symbols":[{}]}}"#, symbols.join(","));
    let path = files.add(
        "T.avsc",
        &record("T", &format!(r#"{{"name":"e","type":{{"type":"array","items":{of_symbols}}}}}"#)),
    );
    assert_eq!(encoded(Format::Avro, &path, r#"{"e":["S0","S1999","\u0053500"]}"#.into()), Ok(10 + 7));
    assert!(encoded(Format::Avro, &path, r#"{"e":["S2000"]}"#.into()).unwrap_err().contains("(S0, S1, "));
    let values: String = (0..2_000).map(|number| format!("S{number} = {number}; ")).collect();
    let proto = format!("{} enum E {{ {values} }}", message("repeated E e = 1;"));
    let path = files.add("T.proto", &proto);
    assert_eq!(encoded(Format::Protobuf, &path, r#"{"e":["S1","S1999",1999,"S0"]}"#.into()), Ok(8));
    for payload in [r#"{"e":["S2000"]}"#, r#"{"e":[2000]}"#, r#"{"e":[-1]}"#] {
        assert!(encoded(Format::Protobuf, &path, payload.into()).is_err(), "{payload}");
    }
}

#[tokio::test]
async fn a_registry_that_fails_after_some_imports_is_asked_only_for_the_rest() {
    let files = Files::new();
    let registry = FakeRegistry::start(Fault::None);
    let mut texts = Vec::new();
    for number in 0..5 {
        let text = format!("syntax = \"proto3\"; message M{number} {{}}");
        files.add(&format!("{number}.proto"), &text);
        texts.push(text);
    }
    let imports: String = (0..5).map(|number| format!("import \"{number}.proto\";\n")).collect();
    let text = format!("syntax = \"proto3\"; {imports} message T {{ M0 a = 1; }}");
    let mut config = of(Format::Protobuf, &files.add("T.proto", &text));
    config.registry = Some(RegistryConfig::new(registry.url()));
    let encoder = SchemaEncoder::open(&config).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let before = registry.requests();
        // As written, and normalised.
        assert_eq!(encoder.prepare().await.unwrap_err().code(), Code::SchemaRefused);
        assert_eq!(registry.requests() - before, if number == 0 { 2 } else { 3 }, "import {number}");
        registry.add(&format!("{number}.proto"), text);
    }
    registry.add("T", &text);
    encoder.prepare().await.unwrap();
}

/// Prepares an encoder of two types, which a registry has under these ids.
async fn prepared(ids: (u32, u32), texts: (&str, &str)) -> crate::Result<()> {
    let files = Files::new();
    let registry = FakeRegistry::start(Fault::None);
    registry.add_with_id("A", texts.0, ids.0);
    registry.add_with_id("B", texts.1, ids.1);
    let mut config = SchemaConfig::new(Format::Avro);
    for (name, text) in [("A", texts.0), ("B", texts.1)] {
        let mut binding = SchemaBinding::new(name, files.add(&format!("{name}.avsc"), text));
        binding.message = Some("R".into());
        binding.subject = Some(name.into());
        config.schemas.push(binding);
    }
    config.registry = Some(RegistryConfig::new(registry.url()));
    SchemaEncoder::open(&config).unwrap().prepare().await
}

#[tokio::test]
async fn a_registry_that_answers_one_id_for_two_schemas_is_refused() {
    let int = record("R", r#"{"name":"a","type":"int"}"#);
    let text = record("R", r#"{"name":"a","type":"string"}"#);
    let spaced = int.replace(',', " ,\n ");
    let error = prepared((7, 7), (&int, &text)).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaRefused);
    assert!(
        error.message().contains("the id 7 for two different schemas, of the subjects \"A\" and \"B\""),
        "{}",
        error.message()
    );
    prepared((7, 8), (&int, &text)).await.unwrap();
    prepared((7, 7), (&int, &spaced)).await.unwrap();
    let error = prepared((7, u32::MAX), (&int, &text)).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaUnavailable, "consumers read the id with a sign");
}

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % end.max(1)
    }

    /// The text with one to three changes: cut, repeated, moved, or with other words in it.
    fn changed(&mut self, text: &str, words: &[&str]) -> String {
        let mut text = text.to_owned();
        for _ in 0..=self.below(3) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if places.is_empty() {
                break;
            }
            let one = places[self.below(places.len())];
            let other = places[self.below(places.len())];
            let (from, to) = (one.min(other), one.max(other));
            let part = text[from..to].to_owned();
            match self.below(5) {
                0 => text.replace_range(from..to, ""),
                1 => text.insert_str(to, &part),
                2 => text.insert_str(places[self.below(places.len())], &part),
                3 => text.insert_str(one, words[self.below(words.len())]),
                _ => {
                    let word = words[self.below(words.len())];
                    text = text.replacen(word, words[self.below(words.len())], 1);
                }
            }
            text.truncate(text.floor_char_boundary(20_000));
        }
        text
    }
}

const FUZZED_AVRO: &str = r#"{"type":"record","name":"T","namespace":"n","fields":[
    {"name":"a","type":["null","string",{"type":"fixed","name":"F","size":4}],"default":null},
    {"name":"b","type":{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"x","type":"n.T"}]}},"default":[]},
    {"name":"c","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2},"default":"\u0001"},
    {"name":"d","type":{"type":"enum","name":"E","symbols":["A","B"]},"default":"A"},
    {"name":"e","type":{"type":"map","values":{"type":"long","logicalType":"timestamp-micros"}},"default":{}}]}"#;

const FUZZED_PROTOBUF: &str = r#"syntax = "proto3"; package n; import "google/protobuf/timestamp.proto";
    option java_package = "a.b"; // a comment
    message T { string a = 1; repeated R b = 2 [packed = false]; map<string, int64> c = 3; oneof o { E d = 4; bytes e = 5; }
      google.protobuf.Timestamp t = 6; reserved 8 to 10; message R { T x = 1; optional uint32 y = 2; } }
    enum E { A = 0; B = 1; }"#;

const FUZZED_JSON: &str = r##"{"$id":"https://example.com/t","title":"T","type":"object","required":["a"],
    "properties":{"a":{"type":"string","pattern":"^x+$","maxLength":9},"b":{"items":{"$ref":"#/$defs/r"},"uniqueItems":true},
    "c":{"oneOf":[{"const":1},{"enum":["y"]},{"not":{"type":"null"}}]}},"patternProperties":{"^z":{"multipleOf":0.5}},
    "additionalProperties":false,"$defs":{"r":{"if":{"type":"object"},"then":{"$ref":"#"}}}}"##;

const WORDS: [&str; 40] = [
    "\"type\"",
    "\"record\"",
    "\"fields\"",
    "\"name\"",
    "\"default\"",
    "\"size\"",
    "null",
    "-1",
    "1e999",
    "99999999999999999999",
    "\"\"",
    "{}",
    "[]",
    "\"T\"",
    "\"n.T\"",
    "message ",
    "T ",
    "repeated ",
    "map<",
    "oneof ",
    "= ",
    "0",
    "536870911",
    "19000",
    "import \"T.proto\";",
    "option ",
    "\"$ref\"",
    "\"#\"",
    "\"#/$defs/r\"",
    "\"pattern\"",
    "\"(\"",
    "\"oneOf\"",
    "\"not\"",
    "\"items\"",
    "\u{0}",
    "\u{feff}",
    "é😀",
    "\\u0000",
    "/*",
    "extend ",
];

#[test]
fn changed_schemas_are_compiled_or_refused_whatever_is_in_them() {
    let files = Files::new();
    let payloads = ["{}", r#"{"a":"x","b":[],"c":1,"d":"A","e":{}}"#, r#"{"a":null,"b":[{"x":{"a":"x"}}]}"#];
    for (format, name, text) in [
        (Format::Avro, "T.avsc", FUZZED_AVRO),
        (Format::Protobuf, "T.proto", FUZZED_PROTOBUF),
        (Format::JsonSchema, "T.json", FUZZED_JSON),
    ] {
        let (mut compiled, mut refused) = (0, 0);
        for seed in 1..=1_500_u64 {
            let changed = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).changed(text, &WORDS);
            match SchemaEncoder::open(&of(format, &files.add(name, &changed))) {
                Err(error) => {
                    assert_eq!(error.code(), Code::SchemaInvalid, "seed {seed}");
                    refused += 1;
                }
                Ok(encoder) => {
                    compiled += 1;
                    for payload in payloads {
                        _ = encoder.encode(&Outgoing::new(Position::new(1), &Event::new("T", payload)));
                    }
                }
            }
        }
        assert!(compiled > 50 && refused > 200, "{name}: {compiled} compiled, {refused} refused");
    }
}
