//! Postrider next to Debezium on the same table: the messages of `eventlog` as Avro and as Protobuf, with a topic per type, are those
//! that Debezium publishes, one by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use postrider::Ident;
use postrider::encode::schema::{Format, SchemaBinding, SchemaConfig, SchemaEncoder, SchemaEnvelope};
use postrider::layout::{RowLayout, RowTable};
use postrider::relay::{Relay, Subscription};
use postrider::route::{Router, Rule};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::store::{RowExtras, Start};
use postrider_sinks::kafka::{Kafka as Sink, KafkaConfig};
use postrider_testkit::servers::apicurio::read_with_python;
use postrider_testkit::servers::kafka::{Isolation, Kafka, shared};
use serde_json::{Value, json};

use super::{debezium, wait_for};
use crate::database::Database;
use crate::events::{LAST_TYPE, TYPES, Writer, Written};

const ACTIONS: usize = 30;

/// Reads envelopes with fastavro and with the classes that protoc generates.
const READER: &str = include_str!("streamed.py");

fn avro(event_type: &str) -> String {
    format!(
        r#"{{"type":"record","name":"{event_type}","namespace":"shop.avro","fields":[{{"name":"number","type":"long"}},{{"name":"name","type":"string"}}]}}"#
    )
}

fn protobuf(event_type: &str) -> String {
    format!(
        "syntax = \"proto3\"; package shop.proto; message {event_type} {{ int64 number = 1; string name = 2; }}"
    )
}

fn encoder(format: Format, folder: &Path) -> SchemaEncoder {
    let mut config = SchemaConfig::new(format);
    config.envelope = SchemaEnvelope::ActionEvent;
    for event_type in TYPES.into_iter().chain([LAST_TYPE]) {
        let (end, text) = match format {
            Format::Avro => ("avsc", avro(event_type)),
            _ => ("proto", protobuf(event_type)),
        };
        let file = folder.join(format!("{event_type}.{end}"));
        std::fs::write(&file, text).unwrap();
        let mut binding = SchemaBinding::new(event_type, file);
        binding.namespace = Some("shop".into());
        config.schemas.push(binding);
    }
    SchemaEncoder::open(&config).unwrap()
}

/// A relay that sends all events of the table in both formats, to a topic per type.
async fn relay(database: &Database, kafka: &Kafka, folder: &Path) -> Relay {
    let config = PostgresConfig::new(&database.postgres_url().unwrap()).unwrap();
    let config = config.schema(Ident::new("postrider").unwrap());
    let table = RowTable::new(RowLayout::Eventlog);
    PostgresRowStore::migrate(&config, &table, RowExtras::default().handlers(true)).await.unwrap();
    let store = Arc::new(PostgresRowStore::connect(&config, &table).await.unwrap());
    let subscription = |name: &str, format| {
        let rule = Rule::to(format!("{name}.{{namespace}}.event.{{type}}")).key("{aggregate_id}");
        let sink = Sink::open(&KafkaConfig::new(kafka.brokers())).unwrap();
        Subscription::new(name, sink)
            .router(Router::to(name).first_match([rule]).unwrap())
            .start(Start::Beginning)
            .encoder(encoder(format, folder))
    };
    let subscriptions = [subscription("avro", Format::Avro), subscription("protobuf", Format::Protobuf)];
    Relay::builder().outbox(store, subscriptions).spawn().await.unwrap()
}

/// Key and value of each record of a topic, in their order.
fn records(kafka: &Kafka, topic: &str) -> Vec<(String, Vec<u8>)> {
    let records = kafka.read(topic, Isolation::Committed).into_iter();
    records.map(|record| (String::from_utf8(record.key.unwrap()).unwrap(), record.value)).collect()
}

/// The envelope that a row should become, from the headers and the value of Debezium's record.
fn expected(kafka: &Kafka, database: &Database, event_type: &str) -> BTreeMap<String, Value> {
    let records = kafka.read(&format!("{}.{event_type}", database.name), Isolation::Committed);
    let envelope = |record: &postrider_testkit::servers::kafka::Record| {
        let header = |name: &str| {
            let value = record.headers.iter().find(|(known, _)| known == name);
            String::from_utf8(value.unwrap().1.clone()).unwrap()
        };
        let id = header("postrider-id");
        let value = json!({
            "id": id,
            "namespace": header("postrider-namespace"),
            "action_id": header("postrider-action-id"),
            "action_name": header("postrider-action-name"),
            "started_date": header("postrider-action-started"),
            "completion_date": header("postrider-action-completed"),
            "model_id": header("postrider-aggregate-id"),
            "model_type": header("postrider-aggregate-type"),
            "event_type": header("postrider-type"),
            "event_date": header("postrider-time"),
            "payload": serde_json::from_slice::<Value>(&record.value).unwrap(),
            "key": String::from_utf8(record.key.clone().unwrap()).unwrap(),
        });
        (id, value)
    };
    records.iter().map(envelope).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn avro_and_protobuf_of_the_same_rows_say_what_debezium_says() {
    let Some(database) = Database::postgres("streamed", None).await else { return };
    let Some(kafka) = shared() else { return };
    let Some(debezium) = debezium(kafka) else { return };
    database.create_tables().await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["avro", "protobuf"] {
        for event_type in TYPES.into_iter().chain([LAST_TYPE]) {
            kafka.create_topic(&format!("{name}.shop.event.{event_type}"), 1, &[]);
        }
    }
    // Its fan-out sets `delivered` in the rows that Debezium reads.
    let relay = relay(&database, kafka, folder.path()).await;
    let mut writer = Writer::new(&database, relay.handle()).await;
    for _ in 0..ACTIONS {
        writer.act().await;
    }
    let connector = database.connector(&kafka.brokers());
    tokio::task::spawn_blocking(move || debezium.create(&connector)).await.unwrap().unwrap();
    wait_for(kafka, debezium, database.name, TYPES[0]).await;
    for _ in 0..ACTIONS {
        writer.act().await;
    }
    writer.write_last().await;
    wait_for(kafka, debezium, database.name, LAST_TYPE).await;
    for event_type in TYPES.into_iter().chain([LAST_TYPE]) {
        let of_type: Vec<&Written> =
            writer.written().iter().filter(|event| event.event_type == event_type).collect();
        for name in ["avro", "protobuf"] {
            let topic = format!("{name}.shop.event.{event_type}");
            let (waits, count) = (topic.clone(), of_type.len());
            tokio::task::spawn_blocking(move || kafka.wait_for(&waits, count)).await.unwrap().unwrap();
            let sent = records(kafka, &topic);
            let folder = folder.path().display().to_string();
            let mut arguments = vec![name.to_owned(), event_type.to_owned(), folder];
            arguments.extend(
                sent.iter().map(|(_, value)| value.iter().map(|byte| format!("{byte:02x}")).collect()),
            );
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let Some(read) = read_with_python(READER, &arguments).unwrap() else { return };
            let mut found = BTreeMap::new();
            for (line, (key, _)) in read.lines().zip(&sent) {
                let mut envelope: Value = serde_json::from_str(line).unwrap();
                let fields = envelope.as_object_mut().unwrap();
                let params = fields.remove("action_params").unwrap();
                let params: Value = serde_json::from_str(params.as_str().unwrap()).unwrap();
                assert_eq!(params, json!({ "cart": 9 }));
                assert_eq!(fields.remove("delivered"), Some(json!(false)));
                fields.insert("key".into(), key.as_str().into());
                let id = fields["id"].as_str().unwrap().to_owned();
                assert!(found.insert(id, envelope).is_none(), "{topic}: an event twice");
            }
            assert_eq!(found.len(), of_type.len(), "{topic}");
            assert_eq!(found, expected(kafka, &database, event_type), "{topic}");
        }
    }
    relay.shutdown().await.unwrap();
}
