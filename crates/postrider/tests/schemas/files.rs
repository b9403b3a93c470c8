//! Schema files, and an event that uses most types.

use std::path::{Path, PathBuf};

use postrider::encode::schema::{Format, SchemaBinding, SchemaConfig, SchemaEncoder};
use postrider::encode::{Encoder, Outgoing};
use postrider::{ActionContext, Event, Position, Timestamp};
use tempfile::TempDir;

pub(crate) const AVRO: &str = r#"{"type":"record","name":"OrderPlaced","namespace":"shop.avro","doc":"An order.","fields":[
    {"name":"id","type":"string"},
    {"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
    {"name":"placed","type":{"type":"long","logicalType":"timestamp-micros"}},
    {"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
        {"name":"sku","type":"string"},{"name":"count","type":"int"}]}}},
    {"name":"labels","type":{"type":"map","values":"string"}},
    {"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","PAID"]}},
    {"name":"note","type":["null","string"],"default":null},
    {"name":"channel","type":"string","default":"web"}]}"#;

/// Imports a file, and the message is the second one in the first one of the file.
pub(crate) const PROTOBUF: &str = r#"syntax = "proto3";
package shop.proto;
import "google/protobuf/timestamp.proto";
import "line.proto";
message Orders {
  message Cancelled { string id = 1; }
  message OrderPlaced {
    string id = 1;
    int64 total_cents = 2;
    google.protobuf.Timestamp placed = 3;
    repeated shop.proto.Line lines = 4;
    map<string, string> labels = 5;
    State state = 6;
    optional string note = 7;
  }
  enum State { NEW = 0; PAID = 1; }
}
"#;

pub(crate) const LINE: &str = r#"syntax = "proto3";
package shop.proto;
message Line { string sku = 1; int32 count = 2; }
"#;

pub(crate) const JSON: &str = r#"{"$schema":"http://json-schema.org/draft-07/schema#","title":"OrderPlaced","type":"object",
    "properties":{"id":{"type":"string"},"total":{"type":"number"}},"required":["id"]}"#;

pub(crate) const PAYLOAD: &str = r#"{"id":"o-1 é","total":77.10,"total_cents":7710,"placed":"2026-11-15T21:35:00.000001Z",
    "lines":[{"sku":"a","count":1},{"sku":"b","count":-2}],"labels":{"z":"1","a":"2"},"state":"PAID","note":null}"#;

/// The files in a folder that is removed at the end.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        for (name, text) in
            [("order.avsc", AVRO), ("order.proto", PROTOBUF), ("line.proto", LINE), ("order.json", JSON)]
        {
            std::fs::write(files.path(name), text).unwrap();
        }
        files
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// With the schema of an order.
    pub(crate) fn config(&self, format: Format) -> SchemaConfig {
        let (file, message) = match format {
            Format::Avro => ("order.avsc", "shop.avro.OrderPlaced"),
            Format::Protobuf => ("order.proto", "shop.proto.Orders.OrderPlaced"),
            _ => ("order.json", "OrderPlaced"),
        };
        let mut binding = SchemaBinding::new("order.placed", self.path(file));
        binding.message = Some(message.into());
        let mut config = SchemaConfig::new(format);
        config.schemas.push(binding);
        config
    }
}

pub(crate) fn event() -> Event {
    let mut event = Event::new("order.placed", PAYLOAD).with_aggregate("Order", "o-1");
    event.id = "01980b7c-5a00-7000-8000-000000000001".parse().unwrap();
    event.time = Timestamp::from_micros(1_763_242_500_000_001);
    event.namespace = Some("shop".into());
    let mut action = ActionContext::new("PlaceOrder", r#"{"cart":9}"#);
    action.id = "01980b7c-5a00-7000-8000-0000000000aa".parse().unwrap();
    action.started = Timestamp::from_micros(1_763_242_499_900_000);
    action.completed = Timestamp::from_micros(1_763_242_500_000_002);
    event.action = Some(action);
    event
}

pub(crate) fn encoded(encoder: &SchemaEncoder) -> Vec<u8> {
    encoder.encode(&Outgoing::new(Position::new(1), &event())).unwrap().body.to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
