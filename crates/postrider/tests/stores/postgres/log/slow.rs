//! Events that take long to read, and events that cannot be read at all.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Relay, Subscription};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{Start, Store};
use postrider::{Event, Outbox, Position, Result};
use postrider_testkit::proxy::{Fault, Proxy};
use postrider_testkit::servers::postgres::{self, Options, own};

use super::case::{RELAY, case, failed};
use super::event_types_sink::EventTypesSink;

case! {
    /// Reading all of it takes several times as long as the limit without an answer.
    async fn a_slow_transfer_completes_while_bytes_keep_arriving(case) {
        let proxy = Proxy::to(postgres::port().unwrap()).await.unwrap();
        let port = format!(":{}/", postgres::port().unwrap());
        let url = postgres::url().unwrap().replace("postgres@", &format!("{RELAY}@"));
        let url = url.replace(&port, &format!(":{}/", proxy.port()));
        let config = case.config_at(&url)?.answer_within(Duration::from_secs(1));
        proxy.set(Fault::Slow { bytes_per_second: 3_000_000 });
        // Larger than the library allows; plain SQL can write it.
        let sql = case.sql("INSERT INTO {schema}.events (type, payload) VALUES ('large', $1)");
        case.client.execute(&sql, &[&noise(9_000_000)]).await.map_err(failed)?;
        case.committed("small").await?;
        let sink = EventTypesSink::new();
        let mail = Subscription::new("mail", sink.clone()).start(Start::Beginning);
        let relay = Relay::builder().outbox(Arc::new(PostgresStore::unconnected(&config)), [mail]).spawn().await?;
        for event in ["large", "small"] {
            sink.wait_for(event).await;
        }
        relay.shutdown().await?;
    }
}

/// Bytes that cannot be compressed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_the_server_cannot_read_is_parked_with_the_reason_and_all_others_arrive() -> Result<()>
{
    let Some(server) = tokio::task::block_in_place(|| own(Options::default())) else { return Ok(()) };
    let config = PostgresConfig::new(server.url())?;
    PostgresStore::migrate(&config).await?;
    let client = config.client().await?;
    for (event, bytes) in [("first", 10), ("large", 20_000), ("middle", 10), ("medium", 3_000), ("last", 10)]
    {
        Outbox::anonymous().write(&client, Event::new(event, noise(bytes))).await?;
    }
    let sql =
        "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = 'postrider.events'::regclass";
    let path: String = client.query_one(sql, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
    drop(client);
    let file = server.data().join(path);
    tokio::task::block_in_place(|| {
        server.stop().unwrap();
        std::fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(0)).unwrap();
        server.start().unwrap();
    });
    let sink = EventTypesSink::new();
    let mail = Subscription::new("mail", sink.clone()).start(Start::Beginning);
    let relay =
        Relay::builder().outbox(Arc::new(PostgresStore::connect(&config).await?), [mail]).spawn().await?;
    for event in ["first", "middle", "last"] {
        sink.wait_for(event).await;
    }
    relay.shutdown().await?;
    let client = config.client().await?;
    let sql = "SELECT position, state, last_error FROM postrider.parked ORDER BY position";
    let parked = client.query(sql, &[]).await.map_err(failed)?;
    let parked: Vec<(i64, String, String)> =
        parked.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(
        parked.iter().map(|row| (row.0, row.1.as_str())).collect::<Vec<_>>(),
        [(2, "dead"), (4, "dead")]
    );
    assert!(
        parked.iter().all(|row| row.2.contains("missing chunk") || row.2.contains("could not")),
        "{parked:?}"
    );
    // It does not prevent fetching the events that are parked with it either.
    let positions: Vec<_> = (1..=5).map(Position::new).collect();
    let fetched = PostgresStore::connect(&config).await?.fetch(positions, 1 << 20).await?;
    assert_eq!(fetched.events.iter().map(|event| event.position.get()).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(fetched.gone, [2, 4].map(Position::new));
    Ok(())
}
