//! Protobuf: exact bytes, what fits, and that `prost-reflect` reads the same values.

use prost_reflect::{DynamicMessage, SerializeOptions};

use super::file::ProtobufFile;
use super::*;
use crate::encode::schema::dropped::DroppedFields;
use crate::encode::schema::files::Budget;

const RULES: Rules = Rules { refuses_unknown_fields: false, refuses_ties: false };

fn file(text: &str) -> Result<ProtobufFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.proto");
    std::fs::write(&path, text).unwrap();
    ProtobufFile::read(&path, &Budget::default())
}

fn body(fields: &str) -> String {
    format!(
        r#"syntax = "proto3"; package t;
        import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
        import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/field_mask.proto";
        message Top {{ {fields} }} enum Color {{ RED = 0; BLUE = 3; }} message In {{ string x = 1; In next = 2; }}"#
    )
}

fn written_with(text: &str, json: &str, rules: Rules) -> Result<(Vec<u8>, MessageDescriptor), String> {
    let file = file(text)?;
    let message = file.message(Some("t.Top"), "")?;
    let writer = ProtobufWriter::compile(&message)?;
    let document = Document::parse(json.as_bytes())?;
    let mut out = Vec::new();
    let done = writer.write(&document, rules, &DroppedFields::default(), &mut out);
    done.map(|()| (out, message)).map_err(|misfit| misfit.to_string())
}

fn written(fields: &str, json: &str) -> Result<Vec<u8>, String> {
    written_with(&body(fields), json, RULES).map(|(bytes, _)| bytes)
}

/// As `prost-reflect` reads it, as JSON of Protobuf.
fn decoded(fields: &str, json: &str) -> Result<serde_json::Value, String> {
    let (bytes, message) = written_with(&body(fields), json, RULES)?;
    let message = DynamicMessage::decode(message, &bytes[..]).unwrap();
    let options = SerializeOptions::new().stringify_64_bit_integers(false).use_proto_field_name(true);
    Ok(message.serialize_with_options(serde_json::value::Serializer, &options).unwrap())
}

#[test]
fn fields_have_the_bytes_of_the_specification_in_the_order_of_their_numbers() {
    let fields = "string b = 16; int32 a = 1; repeated int32 p = 2; sint64 s = 3; In i = 4;";
    let bytes = written(fields, r#"{"b":"x","i":{},"a":150,"s":-1,"p":[1,300]}"#).unwrap();
    let expected =
        [0x08, 0x96, 0x01, 0x12, 0x03, 0x01, 0xac, 0x02, 0x18, 0x01, 0x22, 0x00, 0x82, 0x01, 0x01, b'x'];
    assert_eq!(bytes, expected);
    let long = "x".repeat(200);
    let bytes = written("In i = 1;", &format!(r#"{{"i":{{"x":"{long}"}}}}"#)).unwrap();
    assert_eq!(bytes[..6], [0x0a, 0xcb, 0x01, 0x0a, 0xc8, 0x01]);
}

#[test]
fn a_value_of_every_type_is_read_back() {
    for (of, json) in [
        ("double a = 1;", "-1.5e300"),
        ("float a = 1;", "0.5"),
        ("int32 a = 1;", "-2147483648"),
        ("int64 a = 1;", "-9223372036854775808"),
        ("uint32 a = 1;", "4294967295"),
        ("uint64 a = 1;", "18446744073709551615"),
        ("sint32 a = 1;", "-3"),
        ("sint64 a = 1;", "9223372036854775807"),
        ("fixed32 a = 1;", "7"),
        ("fixed64 a = 1;", "7"),
        ("sfixed32 a = 1;", "-7"),
        ("sfixed64 a = 1;", "-7"),
        ("bool a = 1;", "true"),
        ("string a = 1;", r#""é\n""#),
        ("bytes a = 1;", r#""/wA=""#),
        ("Color a = 1;", r#""BLUE""#),
        ("In a = 1;", r#"{"x":"y","next":{"x":"z"}}"#),
        ("repeated string a = 1;", r#"["a",""]"#),
        ("repeated sint32 a = 1;", "[0,-1,5]"),
        ("repeated In a = 1;", r#"[{"x":"1"},{}]"#),
        ("map<string, int32> a = 1;", r#"{"b":1,"a":0}"#),
        ("map<int64, In> a = 1;", r#"{"-5":{"x":"1"},"7":{}}"#),
        ("map<bool, string> a = 1;", r#"{"true":"t"}"#),
        ("optional int32 a = 1;", "0"),
        ("optional string a = 1;", r#""""#),
        ("google.protobuf.Timestamp a = 1;", r#""2026-11-15T21:35:00.123456Z""#),
        ("google.protobuf.Timestamp a = 1;", r#""1969-12-31T23:59:59.500Z""#),
        ("google.protobuf.Duration a = 1;", r#""-1.500s""#),
        ("google.protobuf.StringValue a = 1;", r#""""#),
        ("google.protobuf.Int64Value a = 1;", "0"),
        ("google.protobuf.Struct a = 1;", r#"{"b":[1.0,null,{"c":true}],"a":"x"}"#),
        ("google.protobuf.Value a = 1;", "null"),
        ("google.protobuf.ListValue a = 1;", "[1.5,\"x\"]"),
        ("google.protobuf.FieldMask a = 1;", r#""fooBar,baz""#),
        ("oneof o { int32 a = 1; string b = 2; }", "0"),
    ] {
        let expected: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            decoded(of, &format!(r#"{{"a":{json}}}"#)).map(|found| found["a"].clone()),
            Ok(expected),
            "{of} {json}"
        );
    }
}

#[test]
fn defaults_without_presence_are_not_written_and_minus_zero_is() {
    let fields = "int32 a = 1; string b = 2; bool c = 3; double d = 4; Color e = 5; bytes f = 6; repeated int32 g = 7;";
    let json = r#"{"a":0,"b":"","c":false,"d":0.0,"e":"RED","f":"","g":[]}"#;
    assert_eq!(written(fields, json).unwrap(), [0; 0]);
    assert_eq!(written("double d = 4;", r#"{"d":-0.0}"#).unwrap(), [0x21, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    assert_eq!(written("optional int32 a = 1;", r#"{"a":null}"#).unwrap(), [0; 0]);
}

#[test]
fn names_of_the_file_and_of_json_are_accepted() {
    for json in [r#"{"order_id":1}"#, r#"{"orderId":1}"#, r#"{"order\u005fid":1}"#] {
        assert_eq!(written("int32 order_id = 1;", json).unwrap(), [8, 1], "{json}");
    }
    let both = written("int32 order_id = 1;", r#"{"order_id":1,"orderId":1}"#).unwrap_err();
    assert_eq!(both, "payload.orderId: wanted each name once, found it twice");
}

#[test]
fn a_name_in_json_comes_before_the_same_name_in_the_file_whatever_the_order_of_keys() {
    let fields = "string a = 1 [json_name = \"b\"]; string b = 2 [json_name = \"a\"];";
    for json in [r#"{"a":"1"}"#, r#"{"a":"1","b":"2"}"#, r#"{"b":"2","a":"1"}"#] {
        let bytes = written(fields, json).unwrap();
        assert!(bytes.ends_with(&[18, 1, b'1']), "{json}: {bytes:?}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_path_and_the_wanted_type() {
    for (of, json, error) in [
        ("int32 a = 1;", "2147483648", "payload.a: wanted a 32-bit integer, found a number out of range"),
        (
            "uint32 a = 1;",
            "-1",
            "payload.a: wanted a 32-bit integer without sign, found a number out of range",
        ),
        ("int32 a = 1;", "1.5", "payload.a: wanted a 32-bit integer, found a number with a fraction"),
        ("int32 a = 1;", "null", "payload.a: wanted a 32-bit integer, found null"),
        ("string a = 1;", "1", "payload.a: wanted string, found a number"),
        ("bool a = 1;", "1", "payload.a: wanted bool, found a number"),
        ("float a = 1;", "1e39", "payload.a: wanted float, found a number out of range"),
        ("Color a = 1;", r#""GREEN""#, "payload.a: wanted a value of t.Color, found another value"),
        ("Color a = 1;", "1", "payload.a: wanted a value of t.Color, found another value"),
        ("In a = 1;", r#"{"next":{"x":1}}"#, "payload.a.next.x: wanted string, found a number"),
        ("repeated int32 a = 1;", "[1,true]", "payload.a[1]: wanted a 32-bit integer, found a boolean"),
        (
            "map<string, int32> a = 1;",
            r#"{"x":"y"}"#,
            "payload.a.x: wanted a 32-bit integer, found a text that is no number",
        ),
        (
            "map<int32, int32> a = 1;",
            r#"{"x":1}"#,
            "payload.a.x: wanted a number as the key, found a text that is no number",
        ),
        (
            "map<int32, int32> a = 1;",
            r#"{"1":1,"1.0":2}"#,
            "payload.a.1: wanted each name once, found it twice",
        ),
        (
            "google.protobuf.Timestamp a = 1;",
            "5",
            "payload.a: wanted a time such as 2026-01-31T12:00:00Z, found a number",
        ),
        (
            "google.protobuf.Timestamp a = 1;",
            r#""-000001-01-01T00:00:00Z""#,
            "payload.a: wanted a time such as 2026-01-31T12:00:00Z, found a time before the year 1",
        ),
        (
            "google.protobuf.Duration a = 1;",
            r#""1m""#,
            "payload.a: wanted a duration such as 1.5s, found a text that is no duration",
        ),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            r#"1,"b":0"#,
            "payload.b: wanted one field of its oneof, found a second one",
        ),
    ] {
        assert_eq!(written(of, &format!(r#"{{"a":{json}}}"#)), Err(error.to_owned()), "{of} {json}");
    }
    let strict = Rules { refuses_unknown_fields: true, ..RULES };
    let error = written_with(&body("int32 a = 1;"), r#"{"b":1}"#, strict).unwrap_err();
    assert_eq!(
        error,
        "payload.b: wanted a field of message t.Top, found a field that the schema does not have"
    );
    assert_eq!(written("int32 a = 1;", r#"{"b":1}"#).unwrap(), [0; 0]);
}

#[test]
fn required_fields_of_proto2_are_required() {
    let text = r#"syntax = "proto2"; package t; message Top { required int32 a = 1; optional int32 b = 2; }"#;
    assert_eq!(written_with(text, r#"{"a":0}"#, RULES).unwrap().0, [8, 0]);
    assert_eq!(
        written_with(text, r#"{"b":0}"#, RULES).unwrap_err(),
        "payload.a: wanted a 32-bit integer, found nothing"
    );
}

#[test]
fn entries_of_maps_are_sorted_so_that_two_processes_write_the_same_bytes() {
    let fields = "map<string, int32> m = 1; google.protobuf.Struct s = 2; map<sint32, int32> n = 3;";
    let mut keys: Vec<String> = (0..50).map(|number| format!("key-{number}")).collect();
    let json = |keys: &[String]| {
        let entries = keys.iter().map(|key| format!(r#""{key}":1"#)).collect::<Vec<_>>().join(",");
        let numbers = keys.iter().map(|key| format!(r#""{}":1"#, &key[4..])).collect::<Vec<_>>().join(",");
        format!(r#"{{"m":{{{entries}}},"s":{{{entries}}},"n":{{{numbers}}}}}"#)
    };
    let first = written(fields, &json(&keys)).unwrap();
    keys.reverse();
    assert_eq!(written(fields, &json(&keys)).unwrap(), first);
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    for (text, why) in [
        ("", "there is no message"),
        ("syntax = \"proto3\"; message {", "expected"),
        ("syntax = \"proto3\"; import \"missing.proto\"; package t; message Top {}", "missing.proto"),
        ("syntax = \"proto3\"; package t; message Top { Nothing a = 1; }", "Nothing"),
        (
            "syntax = \"proto3\"; package t; import \"google/protobuf/any.proto\"; message Top { google.protobuf.Any a = 1; }",
            "Any",
        ),
        ("syntax = \"proto2\"; package t; message Top { optional group G = 1 { } }", "group"),
    ] {
        let error = written_with(text, "{}", RULES).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let deep = format!(
        "syntax = \"proto3\"; package t; message Top {{ {} {} }}",
        "message M {".repeat(3_000),
        "}".repeat(3_000)
    );
    assert!(written_with(&deep, "{}", RULES).is_err());
}

#[test]
fn a_message_that_contains_itself_is_limited_by_the_depth_of_the_payload() {
    let json = |depth: usize| format!(r#"{{"a":{}{{}}{}}}"#, r#"{"next":"#.repeat(depth), "}".repeat(depth));
    assert!(written("In a = 1;", &json(61)).is_ok());
    assert!(written("In a = 1;", &json(100)).unwrap_err().contains("64 levels"));
}

#[test]
fn the_path_of_a_nested_message_is_known() {
    let text = r#"syntax = "proto3"; package t; message A {} message B { message C {} message D {} }"#;
    let file = file(text).unwrap();
    let indexes =
        |name| ProtobufWriter::compile(&file.message(Some(name), "").unwrap()).unwrap().indexes().to_vec();
    assert_eq!((indexes("t.A"), indexes("t.B"), indexes("t.B.D")), (vec![0], vec![1], vec![1, 1]));
    assert_eq!(
        file.message(None, "Other").unwrap_err(),
        "the binding does not name its message; the file has t.A, t.B"
    );
}

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % end
    }

    fn number(&mut self, bits: u32) -> i64 {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) | 1;
        self.0.cast_signed() >> (64 - bits)
    }

    /// A scalar type, and a value of it other than its default.
    fn scalar(&mut self) -> (&'static str, serde_json::Value) {
        use serde_json::json;
        match self.below(10) {
            0 => ("bool", json!(true)),
            1 => ("string", json!(["a\"b", "é😀\n", "\\u0041"][self.below(3)])),
            2 => ("bytes", json!("AAH/")),
            3 => ("Color", json!("BLUE")),
            4 => ("double", json!(f64::from(i32::try_from(self.number(31)).unwrap()) / 7.0 + 0.5)),
            5 => (["int64", "sint64", "sfixed64"][self.below(3)], json!(self.number(63) | 1)),
            6 => (["uint64", "fixed64"][self.below(2)], json!(self.number(64).unsigned_abs() | 1)),
            7 => (["uint32", "fixed32"][self.below(2)], json!(self.number(32).unsigned_abs() | 1)),
            _ => (["int32", "sint32", "sfixed32"][self.below(3)], json!(self.number(31) | 1)),
        }
    }

    /// The body of a message with nested ones, and a payload in the order of another number.
    fn message(&mut self, depth: usize) -> (String, serde_json::Value) {
        use serde_json::{Value, json};
        let (mut body, mut payload) = (String::new(), Vec::new());
        for field in 1..=self.below(6) {
            let (of, value) = self.scalar();
            let number = field * 7 + self.below(7);
            let name = format!("field_{field}");
            let (declared, value) = match self.below(if depth == 0 { 4 } else { 6 }) {
                0 => (format!("optional {of}"), value),
                1 => (format!("repeated {of}"), json!([value, value])),
                2 => (format!("map<string, {of}>"), json!({"b": value, "a": value})),
                3 => (of.to_owned(), value),
                other => {
                    let (inner, value) = self.message(depth - 1);
                    body.push_str(&format!("message M{field} {{ {inner} }} "));
                    match other {
                        4 => (format!("M{field}"), value),
                        _ => (format!("repeated M{field}"), json!([value, value])),
                    }
                }
            };
            body.push_str(&format!("{declared} {name} = {number}; "));
            payload.push((name, value));
        }
        payload.reverse();
        (body, Value::Object(payload.into_iter().collect()))
    }
}

/// Random messages with a payload for each: what `prost-reflect` reads is the payload.
#[test]
fn random_payloads_are_read_back_as_they_are() {
    for seed in 1..=400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (fields, payload) = random.message(3);
        assert_eq!(decoded(&fields, &payload.to_string()), Ok(payload), "seed {seed}: {fields}");
    }
}
