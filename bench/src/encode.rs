//! How fast one core encodes events with schemas, compared with the value types of the crates that parse the schemas.
//!
//! Each event has a payload of 340 bytes and the envelope `action_event` with 13 fields. No database and no network.

use std::hint::black_box;
use std::path::Path;

use apache_avro::Schema;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use postrider::encode::schema::{Format, SchemaBinding, SchemaConfig, SchemaEncoder, SchemaEnvelope};
use postrider::encode::{Encoder, Envelope, Outgoing, Plain};
use postrider::{ActionContext, Event, Position};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::machine::Meter;
use crate::{Error, Measure, Ratio, Report, Row, Spread};

/// How much to encode.
#[derive(Debug, Clone)]
pub struct Encode {
    /// Events per run and contender.
    pub events: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Encode {
    fn default() -> Self {
        Self { events: 200_000, repetitions: 5 }
    }
}

const AVRO: &str = r#"{"type":"record","name":"Order","fields":[
    {"name":"id","type":"string"},{"name":"customer","type":"string"},{"name":"cents","type":"long"},
    {"name":"weight","type":"double"},{"name":"paid","type":"boolean"},{"name":"note","type":["null","string"]},
    {"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
        {"name":"sku","type":"string"},{"name":"count","type":"int"},{"name":"cents","type":"long"}]}}},
    {"name":"address","type":{"type":"record","name":"Address","fields":[
        {"name":"street","type":"string"},{"name":"city","type":"string"},{"name":"country","type":"string"}]}}]}"#;

const PROTOBUF: &str = r#"syntax = "proto3";
message Order { string id = 1; string customer = 2; int64 cents = 3; double weight = 4; bool paid = 5; optional string note = 6;
  repeated Line lines = 7; Address address = 8; }
message Line { string sku = 1; int32 count = 2; int64 cents = 3; }
message Address { string street = 1; string city = 2; string country = 3; }"#;

const JSON_SCHEMA: &str = r#"{"type":"object","required":["id","customer","cents","lines"],"properties":{
    "id":{"type":"string"},"customer":{"type":"string"},"cents":{"type":"integer"},"weight":{"type":"number"},
    "paid":{"type":"boolean"},"note":{"type":["string","null"]},"lines":{"type":"array","items":{"type":"object",
        "required":["sku","count"],"properties":{"sku":{"type":"string"},"count":{"type":"integer"},"cents":{"type":"integer"}}}},
    "address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}}}"#;

const PAYLOAD: &str = r#"{"id":"01980b7c-5a00-7000-8000-000000000001","customer":"customer-4711","cents":129900,"weight":1.25,"paid":true,"note":null,"lines":[{"sku":"SKU-0001-RED","count":2,"cents":49900},{"sku":"SKU-0002-BLUE","count":1,"cents":30100}],"address":{"street":"10 Downing Street, second floor","city":"London","country":"United Kingdom of GB"}}"#;

/// One way to encode an event.
type Contender = Box<dyn Fn(&Event) -> Result<usize, Error>>;

/// Encodes with every contender.
///
/// # Errors
/// If a contender cannot encode the event.
pub fn run(encode: &Encode, progress: impl Fn(&str)) -> Result<Report, Error> {
    let folder = tempfile::tempdir()?;
    let contenders = contenders(folder.path())?;
    let event = event(4711);
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for run in 1..=encode.repetitions {
        progress(&format!("run {run} of {}", encode.repetitions));
        for ((_, contender), rates) in contenders.iter().zip(&mut rates) {
            let meter = Meter::start();
            for _ in 0..encode.events {
                black_box(contender(black_box(&event))?);
            }
            rates.push(encode.events as f64 / meter.stop().wall.as_secs_f64().max(1e-9));
        }
    }
    let row = |((name, contender), rates): (&(&str, Contender), &Vec<f64>)| -> Result<Row, Error> {
        let bytes = contender(&event)? as f64;
        let measures = vec![
            Measure { name: "events/s", spread: Spread::of(rates.iter().copied()) },
            Measure { name: "ns/event", spread: Spread::of(rates.iter().map(|rate| 1e9 / rate)) },
            Measure { name: "bytes", spread: Spread::of([bytes]) },
        ];
        Ok(Row { name: (*name).to_owned(), measures })
    };
    let rows = contenders.iter().zip(&rates).map(row).collect::<Result<_, _>>()?;
    let ratio = |name: &str, one: usize, other: usize| {
        let pairs = rates.get(one).into_iter().flatten().zip(rates.get(other).into_iter().flatten());
        Ratio::of(name, pairs.map(|(one, other)| (*one, *other)))
    };
    let Encode { events, repetitions } = encode;
    Ok(Report {
        title: format!(
            "encoding on one core: payload of {} bytes, envelope with 13 fields, {events} events, {repetitions} runs in turns",
            PAYLOAD.len()
        ),
        rows,
        ratios: vec![
            ratio("avro / apache-avro values (at least 3)", 2, 3),
            ratio("protobuf / prost-reflect messages (at least 3)", 4, 5),
        ],
    })
}

/// An order of this number, with its action.
pub(crate) fn event(number: u64) -> Event {
    let mut event = Event::new("Order", PAYLOAD).with_aggregate("Order", format!("order-{number}"));
    event.namespace = Some("com.example.shop".into());
    event.action = Some(ActionContext::new("PlaceOrderAction", r#"{"cart":"01980b7c-5a00","express":true}"#));
    event
}

/// An encoder of [`event`] with its action, whose schema is written into the folder.
pub(crate) fn encoder(folder: &Path, format: Format) -> Result<SchemaEncoder, Error> {
    let (name, text) = match format {
        Format::Protobuf => ("Order.proto", PROTOBUF),
        Format::JsonSchema => ("Order.json", JSON_SCHEMA),
        _ => ("Order.avsc", AVRO),
    };
    let file = folder.join(name);
    std::fs::write(&file, text)?;
    let mut config = SchemaConfig::new(format);
    config.envelope = SchemaEnvelope::ActionEvent;
    config.schemas.push(SchemaBinding::new("Order", file));
    Ok(SchemaEncoder::open(&config)?)
}

fn contenders(folder: &Path) -> Result<Vec<(&'static str, Contender)>, Error> {
    let avro = encoder(folder, Format::Avro)?;
    let protobuf = encoder(folder, Format::Protobuf)?;
    let envelopes = AvroValues::new()?;
    std::fs::write(folder.join("Envelope.proto"), PROTOBUF_ENVELOPE)?;
    let files = protox::compile(["Order.proto", "Envelope.proto"], [folder])?;
    let pool = DescriptorPool::from_file_descriptor_set(files)?;
    let message = |name: &str| pool.get_message_by_name(name).ok_or_else(|| Error::from("no such message"));
    let messages = DynamicMessages { payload: message("Order")?, envelope: message("Envelope")? };
    Ok(vec![
        ("plain", with(Plain)),
        ("envelope (JSON)", with(Envelope)),
        ("avro", with(avro)),
        ("apache-avro values", Box::new(move |event| envelopes.encode(event))),
        ("protobuf", with(protobuf)),
        ("prost-reflect messages", Box::new(move |event| messages.encode(event))),
    ])
}

fn with(encoder: impl Encoder) -> Contender {
    Box::new(move |event| Ok(encoder.encode(&Outgoing::new(Position::new(1), event))?.body.len()))
}

const AVRO_ENVELOPE: &str = r#"{"type":"record","name":"Envelope","fields":[
    {"name":"id","type":"string"},{"name":"namespace","type":"string"},{"name":"action_id","type":"string"},
    {"name":"action_name","type":"string"},{"name":"action_params","type":"string"},{"name":"started_date","type":"long"},
    {"name":"completion_date","type":"long"},{"name":"model_id","type":["null","string"]},
    {"name":"model_type","type":["null","string"]},{"name":"event_type","type":["null","string"]},
    {"name":"payload","type":["null","bytes"]},{"name":"event_date","type":"long"},{"name":"delivered","type":"boolean"}]}"#;

const PROTOBUF_ENVELOPE: &str = r#"syntax = "proto3";
message Envelope { string id = 1; string namespace = 2; string action_id = 3; string action_name = 4; string action_params = 5;
  int64 started_date = 6; int64 completion_date = 7; optional string model_id = 8; optional string model_type = 9;
  optional string event_type = 10; optional bytes payload = 11; int64 event_date = 12; bool delivered = 13; }"#;

/// The way of apache-avro: JSON to a value, the value resolved to the schema, then bytes.
struct AvroValues {
    schema: &'static Schema,
    payload: GenericDatumWriter<'static>,
    envelope: GenericDatumWriter<'static>,
}

impl AvroValues {
    fn new() -> Result<Self, Error> {
        // Writers borrow their schemas, and live as long as the benchmark.
        let schema = |text| Ok::<_, Error>(&*Box::leak(Box::new(Schema::parse_str(text)?)));
        let writer = |schema| GenericDatumWriter::builder(schema).build();
        let (payload, envelope) = (schema(AVRO)?, schema(AVRO_ENVELOPE)?);
        Ok(Self { schema: payload, payload: writer(payload)?, envelope: writer(envelope)? })
    }

    fn encode(&self, event: &Event) -> Result<usize, Error> {
        let json: serde_json::Value = serde_json::from_slice(&event.payload)?;
        let payload = Value::try_from(json)?.resolve(self.schema)?;
        let payload = self.payload.write_value_to_vec(payload)?;
        let action = event.action.as_ref().ok_or("no action")?;
        let text = |text: &str| Value::Union(1, Box::new(Value::String(text.to_owned())));
        let aggregate = event.aggregate.as_ref().ok_or("no aggregate")?;
        let fields = [
            ("id", Value::String(event.id.to_string())),
            ("namespace", Value::String(event.namespace.clone().unwrap_or_default())),
            ("action_id", Value::String(action.id.to_string())),
            ("action_name", Value::String(action.name.clone())),
            ("action_params", Value::String(action.params.clone())),
            ("started_date", Value::Long(action.started.as_micros())),
            ("completion_date", Value::Long(action.completed.as_micros())),
            ("model_id", text(&aggregate.id)),
            ("model_type", text(&aggregate.kind)),
            ("event_type", text(&event.event_type)),
            ("payload", Value::Union(1, Box::new(Value::Bytes(payload)))),
            ("event_date", Value::Long(event.time.as_micros())),
            ("delivered", Value::Boolean(false)),
        ];
        let record =
            Value::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        Ok(self.envelope.write_value_to_vec(record)?.len())
    }
}

/// The way of prost-reflect: JSON to a dynamic message, then bytes.
struct DynamicMessages {
    payload: MessageDescriptor,
    envelope: MessageDescriptor,
}

impl DynamicMessages {
    fn encode(&self, event: &Event) -> Result<usize, Error> {
        use prost_reflect::Value;
        let mut reader = serde_json::Deserializer::from_slice(&event.payload);
        let payload = DynamicMessage::deserialize(self.payload.clone(), &mut reader)?.encode_to_vec();
        let action = event.action.as_ref().ok_or("no action")?;
        let aggregate = event.aggregate.as_ref().ok_or("no aggregate")?;
        let mut envelope = DynamicMessage::new(self.envelope.clone());
        for (number, value) in [
            (1, Value::String(event.id.to_string())),
            (2, Value::String(event.namespace.clone().unwrap_or_default())),
            (3, Value::String(action.id.to_string())),
            (4, Value::String(action.name.clone())),
            (5, Value::String(action.params.clone())),
            (6, Value::I64(action.started.as_micros())),
            (7, Value::I64(action.completed.as_micros())),
            (8, Value::String(aggregate.id.clone())),
            (9, Value::String(aggregate.kind.clone())),
            (10, Value::String(event.event_type.clone())),
            (11, Value::Bytes(payload.into())),
            (12, Value::I64(event.time.as_micros())),
        ] {
            envelope.set_field_by_number(number, value);
        }
        Ok(envelope.encode_to_vec().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contenders_encode_the_event() {
        let folder = tempfile::tempdir().unwrap();
        for (name, contender) in contenders(folder.path()).unwrap() {
            let bytes = contender(&event(4711)).unwrap();
            assert!(bytes > 200, "{name}: {bytes}");
        }
        assert!((330..=350).contains(&PAYLOAD.len()), "{}", PAYLOAD.len());
    }
}
