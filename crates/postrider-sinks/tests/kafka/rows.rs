//! Tables with a state per row in PostgreSQL, to Kafka: what a consumer sees of their columns.

use std::sync::Arc;

use postrider::encode::Plain;
use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::relay::{Relay, Subscription};
use postrider::route::{Router, Rule};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::store::{RowExtras, Start};
use postrider::{Error, Ident, Result};
use postrider_sinks::kafka::KafkaConfig;
use postrider_testkit::eventually;
use postrider_testkit::servers::kafka::{Kafka, Record, shared};
use postrider_testkit::servers::postgres;
use tokio_postgres::{Client, NoTls};

use super::topic::{DELIVERY, committed, name};

const ORDER: &str = "5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10";

fn failed(cause: tokio_postgres::Error) -> Error {
    Error::new(postrider::Code::StoreFailed, "the test could not do its part").with_source(cause)
}

/// A schema of this test, and a connection of the application to it.
async fn schema(url: &str, schema: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    let fresh = format!(
        "DROP SCHEMA IF EXISTS {schema} CASCADE; DROP SCHEMA IF EXISTS {schema}_ledger CASCADE;
         CREATE SCHEMA {schema}; SET search_path = {schema}"
    );
    client.batch_execute(&fresh).await.map_err(failed)?;
    Ok(client)
}

/// Delivers until this many records are in these topics.
async fn deliver(
    kafka: &Kafka,
    store: PostgresRowStore,
    router: Router,
    topics: &[&str],
    records: usize,
) -> Result<Vec<Vec<Record>>> {
    let config = KafkaConfig::new(kafka.brokers()).delivery_timeout(DELIVERY);
    let sink = postrider_sinks::kafka::Kafka::open(&config)?;
    let subscription = Subscription::new("kafka", sink).start(Start::Beginning).router(router).encoder(Plain);
    let relay = Relay::builder().outbox(Arc::new(store), [subscription]).spawn().await?;
    let is_delivered = async || relay.status()[0].state.acknowledged >= records as u64;
    eventually("all records are acknowledged", is_delivered).await;
    relay.shutdown().await?;
    Ok(topics.iter().map(|topic| committed(kafka, topic)).collect())
}

fn key(record: &Record) -> &str {
    std::str::from_utf8(record.key.as_deref().unwrap()).unwrap()
}

fn header<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let found = record.headers.iter().find(|(known, _)| known == name)?;
    Some(std::str::from_utf8(&found.1).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_partition_key_and_headers_of_layout_outbox_arrive() -> Result<()> {
    let (Some(kafka), Some(url)) = (shared(), postgres::url()) else { return Ok(()) };
    let client = schema(url, "kafka_outbox").await?;
    let table = RowTable::new(RowLayout::Outbox).in_schema(Ident::new("kafka_outbox")?);
    let config = PostgresConfig::new(url)?.schema(Ident::new("kafka_outbox_ledger")?);
    PostgresRowStore::migrate(&config, &table, RowExtras::default()).await?;
    let (orders, users) = (name("orders"), name("users"));
    for topic in [&orders, &users] {
        kafka.create_topic(topic, 3, &[]);
    }
    let rows = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, partition_key, payload, headers)
         VALUES ('Order', '{ORDER}', 'order.placed', '{orders}', 'customer-7', '{{\"n\": 1}}', '{{\"tenant\": \"blue\"}}');
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload)
         VALUES ('User', '{ORDER}', 'user.born', '{users}', '{{\"n\": 2}}')"
    );
    client.batch_execute(&rows).await.map_err(failed)?;
    let store = PostgresRowStore::connect(&config, &table).await?;
    let found = deliver(kafka, store, Router::by_topic(), &[&orders, &users], 2).await?;
    let ([order], [user]) = (&found[0][..], &found[1][..]) else { panic!("{found:?}") };
    assert_eq!((key(order), &order.value[..]), ("customer-7", &b"{\"n\": 1}"[..]));
    assert_eq!(header(order, "tenant"), Some("blue"));
    assert_eq!(header(order, "postrider-type"), Some("order.placed"));
    assert_eq!(key(user), ORDER, "without a partition key, the id of the aggregate");
    let sent: i64 = client
        .query_one("SELECT count(*) FROM outbox WHERE status = 'published' AND published_at IS NOT NULL", &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    assert_eq!(sent, 2);
    Ok(())
}

/// As docs/src/wire.md describes: topic, key, value and the header `id` are those of Debezium's outbox event router.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_debeziums_table_arrive_as_from_its_outbox_event_router() -> Result<()> {
    let (Some(kafka), Some(url)) = (shared(), postgres::url()) else { return Ok(()) };
    let client = schema(url, "kafka_debezium").await?;
    let kind = name("order");
    let rows = format!(
        "CREATE TABLE outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
                                   aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb,
                                   seq bigserial);
         INSERT INTO outboxevent VALUES ('{ORDER}', '{kind}', '7', 'OrderCreated', '{{\"n\": 1}}')"
    );
    client.batch_execute(&rows).await.map_err(failed)?;
    let map = ColumnMap::debezium().with(MappedField::Order, "seq")?;
    let table = RowTable::custom(Ident::new("outboxevent")?, map)?.in_schema(Ident::new("kafka_debezium")?);
    let config = PostgresConfig::new(url)?.schema(Ident::new("kafka_debezium_ledger")?);
    PostgresRowStore::migrate(&config, &table, RowExtras::default()).await?;
    let topic = format!("outbox.event.{kind}");
    kafka.create_topic(&topic, 1, &[]);
    let rule = Rule::to("outbox.event.{aggregate_type}").header("id", "{id}");
    let router = Router::by_topic().first_match([rule])?;
    let store = PostgresRowStore::connect(&config, &table).await?;
    let found = deliver(kafka, store, router, &[&topic], 1).await?;
    let [record] = &found[0][..] else { panic!("{found:?}") };
    assert_eq!((key(record), &record.value[..]), ("7", &b"{\"n\": 1}"[..]));
    assert_eq!(header(record, "id"), Some(ORDER));
    Ok(())
}
