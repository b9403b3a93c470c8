//! Avro: exact bytes, what fits, and that other readers read the same values.

use std::fmt::Write as _;

use apache_avro::types::Value as Decoded;

use super::*;
use crate::encode::schema::dropped::DroppedFields;

const RULES: Rules = Rules { refuses_unknown_fields: false, refuses_ties: false };

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"Top","fields":{fields}}}"#)
}

fn written_with(schema: &str, json: &str, rules: Rules) -> Result<Vec<u8>, String> {
    let writer = AvroWriter::compile(schema)?;
    let document = Document::parse(json.as_bytes())?;
    let mut out = Vec::new();
    let done = writer.write(&document, rules, &DroppedFields::default(), &mut out);
    done.map(|()| out).map_err(|misfit| misfit.to_string())
}

fn written(schema: &str, json: &str) -> Result<Vec<u8>, String> {
    written_with(schema, json, RULES)
}

/// The value of the field `a`, as apache-avro reads it.
fn decoded(of: &str, json: &str) -> Result<Decoded, String> {
    let schema = record(&format!(r#"[{{"name":"a","type":{of}}}]"#));
    let bytes = written(&schema, &format!(r#"{{"a":{json}}}"#))?;
    let parsed = Schema::parse_str(&schema).unwrap();
    let mut rest = &bytes[..];
    let value = apache_avro::reader::datum::GenericDatumReader::builder(&parsed)
        .build()
        .unwrap()
        .read_value(&mut rest)
        .unwrap();
    assert!(rest.is_empty(), "{} bytes are left", rest.len());
    let Decoded::Record(mut fields) = value else { panic!("no record") };
    Ok(fields.remove(0).1)
}

#[test]
fn the_golden_record_has_the_golden_bytes() {
    let schema = record(
        r#"[{"name":"modelId","type":"string"},
            {"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
            {"name":"note","type":["null","string"],"default":null}]"#,
    );
    let bytes = written(&schema, r#"{"amount":77.10,"note":null,"modelId":"m1"}"#).unwrap();
    assert_eq!(bytes, [0x04, 0x6d, 0x31, 0x04, 0x1e, 0x1e, 0x00]);
}

#[test]
fn a_value_of_every_type_is_read_back() {
    let branch = |number: u32, value: Decoded| Decoded::Union(number, Box::new(value));
    for (of, json, value) in [
        (r#""null""#, "null", Decoded::Null),
        (r#""boolean""#, "true", Decoded::Boolean(true)),
        (r#""int""#, "-2147483648", Decoded::Int(i32::MIN)),
        (r#""long""#, "9223372036854775807", Decoded::Long(i64::MAX)),
        (r#""float""#, "0.1", Decoded::Float(0.1)),
        (r#""double""#, "-1.5e300", Decoded::Double(-1.5e300)),
        (r#""string""#, r#""\u00e9\n""#, Decoded::String("é\n".into())),
        (r#""bytes""#, r#""/wA=""#, Decoded::Bytes(vec![0xff, 0])),
        (r#"{"type":"fixed","name":"F","size":2}"#, r#""/wA=""#, Decoded::Fixed(2, vec![0xff, 0])),
        (r#"{"type":"enum","name":"E","symbols":["A","B"]}"#, r#""B""#, Decoded::Enum(1, "B".into())),
        (
            r#"{"type":"array","items":"int"}"#,
            "[1,2]",
            Decoded::Array(vec![Decoded::Int(1), Decoded::Int(2)]),
        ),
        (r#"{"type":"array","items":"int"}"#, "[]", Decoded::Array(vec![])),
        (r#"{"type":"map","values":"int"}"#, "{}", Decoded::Map([].into())),
        (
            r#"{"type":"map","values":"int"}"#,
            r#"{"b":1,"a":2}"#,
            Decoded::Map([("a".into(), Decoded::Int(2)), ("b".into(), Decoded::Int(1))].into()),
        ),
        (r#"["null","int"]"#, "7", branch(1, Decoded::Int(7))),
        (r#"["int","null"]"#, "null", branch(1, Decoded::Null)),
        (r#"{"type":"int","logicalType":"date"}"#, r#""1970-01-03""#, Decoded::Date(2)),
        (r#"{"type":"int","logicalType":"time-millis"}"#, r#""00:00:01.5""#, Decoded::TimeMillis(1500)),
        (
            r#"{"type":"long","logicalType":"time-micros"}"#,
            "86399999999",
            Decoded::TimeMicros(86_399_999_999),
        ),
        (
            r#"{"type":"long","logicalType":"timestamp-millis"}"#,
            r#""1970-01-01T00:00:01+00:00""#,
            Decoded::TimestampMillis(1000),
        ),
        (r#"{"type":"long","logicalType":"timestamp-micros"}"#, "17", Decoded::TimestampMicros(17)),
        (
            r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
            r#""1970-01-01T00:00:01""#,
            Decoded::LocalTimestampMicros(1_000_000),
        ),
        (
            r#"{"type":"string","logicalType":"uuid"}"#,
            r#""01980b7c-5a00-7000-8000-000000000001""#,
            Decoded::Uuid("01980b7c-5a00-7000-8000-000000000001".parse().unwrap()),
        ),
        (
            r#"{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}"#,
            r#""01980b7c-5a00-7000-8000-000000000001""#,
            Decoded::Uuid("01980b7c-5a00-7000-8000-000000000001".parse().unwrap()),
        ),
        (
            r#"{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":8,"scale":2}"#,
            "-1.28",
            Decoded::Decimal(vec![0xff, 0xff, 0xff, 0x80].into()),
        ),
    ] {
        assert_eq!(decoded(of, json), Ok(value), "{of} {json}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_path_and_the_wanted_type() {
    let timestamp = r#"{"type":"long","logicalType":"timestamp-millis"}"#;
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}"#;
    for (of, json, error) in [
        (r#""int""#, "2147483648", "payload.a: wanted int, found a number out of range"),
        (r#""int""#, "1.5", "payload.a: wanted int, found a number with a fraction"),
        (r#""long""#, r#""1""#, "payload.a: wanted long, found a text"),
        (r#""string""#, "1", "payload.a: wanted string, found a number"),
        (r#""string""#, "null", "payload.a: wanted string, found null"),
        (r#""bytes""#, r#""%""#, "payload.a: wanted bytes in base64, found a text that is not base64"),
        (r#""double""#, "1e400", "payload.a: wanted double, found a number out of range"),
        (decimal, "0.001", "payload.a: wanted decimal(4, 2), found a number with more decimals"),
        (decimal, "100", "payload.a: wanted decimal(4, 2), found a number with more digits"),
        (decimal, "1e999999999", "payload.a: wanted decimal(4, 2), found a number with more digits"),
        (
            timestamp,
            r#""1970-01-01T00:00:00.0001Z""#,
            "payload.a: wanted a timestamp in milliseconds, found a time with more decimals",
        ),
        (
            r#"{"type":"enum","name":"E","symbols":["A"]}"#,
            r#""C""#,
            "payload.a: wanted a symbol of E (A), found another text",
        ),
        (
            r#"{"type":"array","items":{"type":"map","values":"int"}}"#,
            r#"[{},{"x":[]}]"#,
            "payload.a[1].x: wanted int, found an array",
        ),
        (
            r#"{"type":"map","values":"int"}"#,
            r#"{"x":1,"x":2}"#,
            "payload.a.x: wanted each name once, found it twice",
        ),
        (r#"["null","int"]"#, r#""x""#, "payload.a: wanted int, found a text"),
        (
            r#"["null","int","boolean"]"#,
            r#""x""#,
            "payload.a: wanted one of null | int | boolean, found a text that fits none",
        ),
        (r#"["int","boolean"]"#, "null", "payload.a: wanted one of int | boolean, found null"),
    ] {
        assert_eq!(decoded(of, json), Err(error.to_owned()), "{of} {json}");
    }
    let schema = record(r#"[{"name":"a","type":"int"}]"#);
    assert_eq!(written(&schema, "{}").unwrap_err(), "payload.a: wanted int, found nothing");
    assert_eq!(written(&schema, "[]").unwrap_err(), "payload: wanted a JSON object, found an array");
    assert_eq!(
        written(&schema, r#"{"a":1,"a":1}"#).unwrap_err(),
        "payload.a: wanted each name once, found it twice"
    );
}

#[test]
fn entries_of_maps_are_sorted_whatever_their_order_in_the_payload() {
    let schema = record(r#"[{"name":"m","type":{"type":"map","values":"int"}}]"#);
    let sorted = written(&schema, r#"{"m":{"a":1,"b":2,"c":3}}"#).unwrap();
    assert_eq!(sorted, [6, 2, b'a', 2, 2, b'b', 4, 2, b'c', 6, 0]);
    assert_eq!(written(&schema, r#"{"m":{"c":3,"a":1,"b":2}}"#).unwrap(), sorted);
}

#[test]
fn a_missing_field_has_the_default_of_the_schema() {
    let schema = record(
        r#"[{"name":"a","type":"int","default":5},
            {"name":"b","type":"bytes","default":"\u00ff"},
            {"name":"c","type":["null","string"],"default":null},
            {"name":"d","type":{"type":"record","name":"In","fields":[{"name":"x","type":"int","default":1},{"name":"y","type":"string"}]},"default":{"y":"z"}},
            {"name":"e","type":{"type":"array","items":"int"},"default":[1]}]"#,
    );
    assert_eq!(written(&schema, "{}").unwrap(), [10, 2, 0xff, 0, 2, 2, b'z', 2, 2, 0]);
    assert_eq!(written(&schema, r#"{"a":null}"#).unwrap_err(), "payload.a: wanted int, found null");
}

#[test]
fn a_default_takes_the_branch_that_can_hold_it() {
    let schema = record(r#"[{"name":"a","type":["int","long"],"default":3000000000}]"#);
    assert_eq!(written(&schema, "{}").unwrap(), [2, 128, 248, 130, 173, 22], "the second branch, a long");
}

#[test]
fn unknown_fields_are_dropped_or_refused() {
    let schema = record(r#"[{"name":"a","type":"int"}]"#);
    assert_eq!(written(&schema, r#"{"b":{"c":1},"a":1}"#).unwrap(), [2]);
    let strict = Rules { refuses_unknown_fields: true, ..RULES };
    let error = written_with(&schema, r#"{"b":1,"a":1}"#, strict).unwrap_err();
    assert_eq!(error, "payload.b: wanted a field of record Top, found a field that the schema does not have");
}

#[test]
fn a_union_takes_the_branch_that_explains_most_then_the_tighter_one() {
    let card = r#"{"type":"record","name":"Card","fields":[{"name":"id","type":"string"},{"name":"number","type":["null","string"],"default":null}]}"#;
    let cash = r#"{"type":"record","name":"Cash","fields":[{"name":"id","type":"string"},{"name":"till","type":["null","int"],"default":null}]}"#;
    let plain = r#"{"type":"record","name":"Plain","fields":[{"name":"id","type":"string"}]}"#;
    let of = format!("[{card},{cash},{plain}]");
    let branch = |json: &str| match decoded(&of, json) {
        Ok(Decoded::Union(number, _)) => Ok(number),
        other => Err(other),
    };
    assert_eq!(branch(r#"{"id":"1","till":3}"#), Ok(1));
    assert_eq!(branch(r#"{"id":"1","number":"4"}"#), Ok(0));
    assert_eq!(branch(r#"{"id":"1"}"#), Ok(2), "without defaults is tighter");
    for (of, json, number) in [
        (r#"["double","int"]"#, "1", 1),
        (r#"["double","int"]"#, "1.5", 0),
        (r#"["int","long"]"#, "3000000000", 1),
        (r#"["string",{"type":"enum","name":"E","symbols":["A"]}]"#, r#""A""#, 1),
        (r#"["string",{"type":"enum","name":"E","symbols":["A"]}]"#, r#""B""#, 0),
    ] {
        assert!(matches!(decoded(of, json), Ok(Decoded::Union(found, _)) if found == number), "{of} {json}");
    }
}

#[test]
fn a_tie_takes_the_first_branch_unless_unions_are_strict() {
    let of = |name: &str| {
        format!(r#"{{"type":"record","name":"{name}","fields":[{{"name":"id","type":"string"}}]}}"#)
    };
    let schema = record(&format!(r#"[{{"name":"a","type":[{},{}]}}]"#, of("One"), of("Two")));
    let json = r#"{"a":{"id":"1"}}"#;
    assert_eq!(written(&schema, json).unwrap(), [0, 2, b'1']);
    let strict = Rules { refuses_ties: true, ..RULES };
    let error = written_with(&schema, json, strict).unwrap_err();
    assert!(error.ends_with("found a value that fits several equally well"), "{error}");
}

#[test]
fn recursive_schemas_are_written_and_their_unions_do_not_explode() {
    let fields = r#"[{"name":"next","type":["null","One","Two"],"default":null}]"#;
    let schema = record(&format!(
        r#"[{{"name":"a","type":[{{"type":"record","name":"One","fields":[{{"name":"next","type":["null","One",{{"type":"record","name":"Two","fields":{fields}}}],"default":null}}]}},"Two"]}}]"#
    ));
    assert!(written(&schema, r#"{"a":{"next":{"next":null}}}"#).is_ok());
    let deep = format!("{}null{}", r#"{"next":"#.repeat(60), "}".repeat(60));
    let error = written(&schema, &format!(r#"{{"a":{deep}}}"#)).unwrap_err();
    assert!(error.contains("too large for its schema"), "{error}");
}

#[test]
fn a_small_payload_cannot_become_a_large_message() {
    let default = "x".repeat(60_000);
    let item = format!(
        r#"{{"type":"record","name":"I","fields":[{{"name":"x","type":"string","default":"{default}"}}]}}"#
    );
    let schema = record(&format!(r#"[{{"name":"a","type":{{"type":"array","items":{item}}}}}]"#));
    let many = vec!["{}"; 100_000].join(",");
    let error = written(&schema, &format!(r#"{{"a":[{many}]}}"#)).unwrap_err();
    assert!(error.contains("too large for its schema"), "{error}");
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    for (schema, why) in [
        ("", "Failed to parse"),
        (r#""string""#, "the schema is not a record"),
        (r#"{"type":"record","name":"T","fields":[{"name":"a","type":"Missing"}]}"#, "Missing"),
        (r#"{"type":"record","name":"T","fields":[{"name":"a","type":"int","default":"x"}]}"#, "default"),
        (r#"{"type":"record","name":"T","fields":[{"name":"a","type":"T","default":{}}]}"#, "default"),
        (
            r#"{"type":"record","name":"T","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
            "a",
        ),
        (
            r#"{"type":"record","name":"T","fields":[{"name":"a","type":{"type":"bytes","logicalType":"big-decimal"}}]}"#,
            "big-decimal",
        ),
    ] {
        let error = AvroWriter::compile(schema).unwrap_err();
        assert!(error.contains(why), "{schema}: {error}");
    }
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(5_000), "}".repeat(5_000));
    assert!(AvroWriter::compile(&record(&format!(r#"[{{"name":"a","type":{deep}}}]"#))).is_err());
}

/// Random schemas with a payload for each: what apache-avro reads is the payload.
#[test]
fn random_payloads_are_read_back_as_they_are() {
    for seed in 1..=3_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut names = 0;
        let (of, json, expected) = random.value(3, &mut names);
        let found = decoded(&of, &json.to_string());
        assert_eq!(found, Ok(expected), "seed {seed}: {of} {json}");
    }
}

/// Cut and changed payloads never crash the writer, and what is written is always readable.
#[test]
fn changed_payloads_are_refused_or_readable() {
    let mut refused = 0;
    for seed in 1..=3_000_u64 {
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let (of, json, _) = random.value(3, &mut 0);
        let (_, other, _) = random.value(2, &mut 100);
        let mut text = json.to_string();
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let at = places[random.below(places.len())];
        match random.below(3) {
            0 => text.truncate(at),
            1 => text.insert_str(at, &other.to_string()),
            _ => text = other.to_string(),
        }
        refused += usize::from(
            Document::parse(format!(r#"{{"a":{text}}}"#).as_bytes()).is_err() || decoded(&of, &text).is_err(),
        );
    }
    assert!(refused > 500, "{refused}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % end
    }

    fn text(&mut self) -> String {
        let length = self.below(6);
        (0..length).fold(String::new(), |mut text, _| {
            _ = write!(text, "{}", ['a', '"', '\\', 'é', '\n', '😀', '0'][self.below(7)]);
            text
        })
    }

    /// A type, a value of it, and what a reader should see.
    fn value(&mut self, depth: usize, names: &mut usize) -> (String, serde_json::Value, Decoded) {
        use serde_json::json;
        match self.below(if depth == 0 { 7 } else { 11 }) {
            0 => (r#""null""#.into(), json!(null), Decoded::Null),
            1 => (r#""boolean""#.into(), json!(true), Decoded::Boolean(true)),
            2 => {
                let number = i32::try_from(self.below(1 << 31)).unwrap() - (1 << 30);
                (r#""int""#.into(), json!(number), Decoded::Int(number))
            }
            3 => {
                let number = self.0.cast_signed();
                (r#""long""#.into(), json!(number), Decoded::Long(number))
            }
            4 => {
                let number = f64::from(u32::try_from(self.below(1 << 31)).unwrap()) / 7.0;
                (r#""double""#.into(), json!(number), Decoded::Double(number))
            }
            5 => {
                let micros = i64::try_from(self.below(1 << 42)).unwrap();
                let text = crate::Timestamp::from_micros(micros).to_string();
                (
                    r#"{"type":"long","logicalType":"timestamp-micros"}"#.into(),
                    json!(text),
                    Decoded::TimestampMicros(micros),
                )
            }
            6 => {
                let text = self.text();
                (r#""string""#.into(), json!(text), Decoded::String(text))
            }
            7 => {
                let (of, value, expected) = self.value(depth - 1, names);
                let count = self.below(3);
                (
                    format!(r#"{{"type":"array","items":{of}}}"#),
                    json!(vec![value; count]),
                    Decoded::Array(vec![expected; count]),
                )
            }
            8 => {
                let (of, value, expected) = self.value(depth - 1, names);
                let keys: Vec<String> = (0..self.below(4)).map(|_| self.text()).collect();
                let object = keys.iter().map(|key| (key.clone(), value.clone())).collect();
                let map = keys.iter().map(|key| (key.clone(), expected.clone())).collect();
                (
                    format!(r#"{{"type":"map","values":{of}}}"#),
                    serde_json::Value::Object(object),
                    Decoded::Map(map),
                )
            }
            9 => {
                let (of, value, expected) = self.value(depth - 1, names);
                if of == r#""null""# || of.starts_with('[') {
                    return (of, value, expected);
                }
                let of = format!(r#"["null",{of}]"#);
                (of, value, Decoded::Union(1, Box::new(expected)))
            }
            _ => {
                *names += 1;
                let name = format!("R{names}");
                let (mut fields, mut object, mut record) = (Vec::new(), serde_json::Map::new(), Vec::new());
                for number in 0..self.below(16) {
                    let (of, value, expected) = self.value(depth - 1, names);
                    fields.push(format!(r#"{{"name":"f{number}","type":{of}}}"#));
                    object.insert(format!("f{number}"), value);
                    record.push((format!("f{number}"), expected));
                }
                let of = format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, fields.join(","));
                (of, serde_json::Value::Object(object), Decoded::Record(record))
            }
        }
    }
}
