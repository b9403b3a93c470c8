//! Debezium on the table `eventlog.events`, with the settings of `docs/src/debezium`, while a fan-out in the application
//! sets `delivered` in the same rows: every event is in Kafka once, and nothing else is.
#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod database;
mod events;
mod fan_out;
mod published;
mod settings;
#[cfg(feature = "kafka")]
mod streamed;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use postrider_testkit::servers::debezium::Debezium;
use postrider_testkit::servers::kafka::{Kafka, shared};

use database::Database;
use events::{LAST_TYPE, TYPES, Writer};
use fan_out::FanOut;

/// Actions before the connector exists, all in its snapshot.
const ACTIONS_BEFORE: usize = 60;
/// Actions after the first record of the snapshot arrived, none of them in the snapshot.
const ACTIONS_AFTER: usize = 60;
/// The time between two actions while the connector starts and takes its snapshot.
const PACE: Duration = Duration::from_millis(20);

/// One worker for all connectors of this program.
fn debezium(kafka: &Kafka) -> Option<&'static Debezium> {
    static WORKER: OnceLock<Option<Debezium>> = OnceLock::new();
    WORKER.get_or_init(|| Debezium::private(kafka)).as_ref()
}

/// Waits for a topic's records; the reason of a connector that failed is part of the message.
async fn wait_for(kafka: &'static Kafka, debezium: &'static Debezium, name: &str, event_type: &str) {
    let (topic, connector) = (format!("{name}.{event_type}"), format!("{name}-eventlog"));
    let waited = tokio::task::spawn_blocking(move || kafka.wait_for(&topic, 1)).await.unwrap();
    waited.unwrap_or_else(|reason| panic!("{reason}: {:?}", debezium.status(&connector)));
}

async fn every_event_is_published_once(database: Option<Database>) {
    let Some(database) = database else { return };
    let Some(kafka) = shared() else { return };
    let Some(debezium) = debezium(kafka) else { return };
    let began = Instant::now();
    let name = database.name;
    database.create_tables().await;
    let fan_out = FanOut::start(&database).await;
    let mut writer = Writer::new(&database, fan_out.handle()).await;
    for _ in 0..ACTIONS_BEFORE {
        writer.act().await;
    }
    let connector = database.connector(&kafka.brokers());
    let started = tokio::spawn(async move {
        tokio::task::spawn_blocking(move || debezium.create(&connector)).await.unwrap().unwrap();
        wait_for(kafka, debezium, name, TYPES[0]).await;
    });
    tokio::pin!(started);
    loop {
        match tokio::time::timeout(PACE, &mut started).await {
            Ok(ended) => break ended.unwrap(),
            Err(_) => writer.act().await,
        }
    }
    println!("{name}: first record after {:?}, {} actions", began.elapsed(), writer.actions());
    for _ in 0..ACTIONS_AFTER {
        writer.act().await;
    }
    fan_out.finish().await;
    database.delete_shipped().await;
    // The log has an order: whatever Debezium makes of an earlier change is in Kafka before this event.
    writer.write_last().await;
    wait_for(kafka, debezium, name, LAST_TYPE).await;
    println!("{name}: last record after {:?}", began.elapsed());

    database.assert_fanned_out(writer.written()).await;
    published::assert_published(kafka, &database, writer.written());
    database.assert_log_is_released().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_publishes_every_event_once_next_to_a_fan_out_on_postgres() {
    every_event_is_published_once(Database::postgres("pg", None).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_publishes_every_event_once_next_to_a_fan_out_on_postgres_14() {
    every_event_is_published_once(Database::postgres("pg_14", Some("14")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_publishes_every_event_once_next_to_a_fan_out_on_mysql() {
    every_event_is_published_once(Database::mysql()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_publishes_every_event_once_next_to_a_fan_out_on_mariadb() {
    every_event_is_published_once(Database::mariadb()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_publishes_every_event_once_next_to_a_fan_out_on_mariadb_with_ids_as_text() {
    every_event_is_published_once(Database::mariadb_with_text_ids()).await;
}
