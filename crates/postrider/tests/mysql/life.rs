//! Life with a database that fails: each test has a server of its own and does to it what happens to servers.
//!
//! What was delivered is compared with what the table holds at the end: nothing lost, nothing invented, every
//! key in its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::Start;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Event, Outbox, Result};
use postrider_testkit::audit::{Sighting, audit};
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use uuid::Uuid;

use super::case::failed;
#[path = "../postgres/life/recorder.rs"]
mod recorder;
use recorder::Recorder;

/// Between two looks at something that will happen.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Long enough for anything that will happen.
const LONG: Duration = Duration::from_secs(90);

struct World {
    server: Arc<Server>,
}

impl World {
    async fn new(kind: Kind) -> Result<Option<Self>> {
        let Some(server) = tokio::task::block_in_place(|| own(Options::of(kind))) else { return Ok(None) };
        let world = Self { server: Arc::new(server) };
        MySqlStore::migrate(&world.config()?).await?;
        Ok(Some(world))
    }

    fn config(&self) -> Result<MySqlConfig> {
        MySqlConfig::new(self.server.url())
    }

    /// Does something to the server while everything else goes on.
    async fn server(&self, act: fn(&Server) -> Result<(), String>) {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || act(&server)).await.unwrap().unwrap();
    }

    async fn relay(&self, sink: &Recorder) -> Result<Relay> {
        let policy = Policy { lease: Duration::from_secs(2), ..Policy::default() };
        let subscription = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
        let store = Arc::new(MySqlStore::unconnected(&self.config()?));
        Relay::builder().outbox(store, [subscription]).spawn().await
    }

    /// Everything in the outbox, in its order, each with its number within its key.
    async fn committed(&self) -> Result<Vec<Sighting>> {
        let sql = "SELECT id, `key`, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY position)
                   FROM postrider.events ORDER BY position";
        let mut client = self.config()?.client().await?;
        let rows: Vec<(Vec<u8>, String, u64)> = client.query(sql).await.map_err(failed)?;
        let sighting = |(id, key, version): (Vec<u8>, String, u64)| {
            Ok(Sighting { id: Uuid::from_slice(&id).map_err(failed)?, key, version })
        };
        rows.into_iter().map(sighting).collect()
    }
}

async fn write(client: &mut Conn, events: usize) -> Result<()> {
    for number in 0..events {
        let event = Event::new("life", "{}").with_key(format!("key {}", number % 5));
        Outbox::anonymous().write(&mut *client, event).await?;
    }
    Ok(())
}

/// Writes until told to stop, through everything that happens to the server.
async fn write_on(config: MySqlConfig, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut client) = config.client().await {
            while !stop.load(Ordering::Relaxed) && write(&mut client, 1).await.is_ok() {}
        }
        tokio::time::sleep(LOOK_AFTER).await;
    }
}

/// Waits until it is so.
async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK_AFTER).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "it never came that {what}");
}

async fn survives(kind: Kind, end: fn(&Server) -> Result<(), String>) -> Result<()> {
    let Some(world) = World::new(kind).await? else { return Ok(()) };
    let (sink, stop) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    let relay = world.relay(&sink).await?;
    let writer = tokio::spawn(write_on(world.config()?, stop.clone()));
    for round in 1..=2 {
        sink.wait_for(round * 50).await;
        world.server(end).await;
        eventually("the relay is in trouble", || relay.status()[0].trouble.is_some()).await;
        world.server(Server::start).await;
        eventually("the database answers again", || relay.status()[0].trouble.is_none()).await;
    }
    let before = sink.delivered().len();
    sink.wait_for(before + 50).await;
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let committed = world.committed().await?;
    sink.wait_for(committed.len()).await;
    relay.shutdown().await?;
    let unknown = || Sighting { id: Uuid::nil(), key: String::new(), version: 0 };
    let delivered: Vec<Sighting> = sink
        .delivered()
        .iter()
        .map(|id| committed.iter().find(|event| event.id == *id).cloned().unwrap_or_else(unknown))
        .collect();
    let verdict = audit(&committed, &delivered);
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= 2 * Policy::default().window_events_max, "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_mysql_is_killed_under_load() -> Result<()> {
    survives(Kind::MySql, Server::kill).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_mariadb_is_killed_under_load() -> Result<()> {
    survives(Kind::MariaDb, Server::kill).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_mysql_is_restarted_under_load() -> Result<()> {
    survives(Kind::MySql, Server::stop).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_mariadb_is_restarted_under_load() -> Result<()> {
    survives(Kind::MariaDb, Server::stop).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_waits_for_a_server_that_is_down_at_its_start() -> Result<()> {
    for kind in Kind::ALL {
        let Some(world) = World::new(kind).await? else { continue };
        write(&mut world.config()?.client().await?, 10).await?;
        world.server(Server::stop).await;
        let sink = Recorder::new();
        let (relay, ()) = tokio::join!(world.relay(&sink), world.server(Server::start));
        sink.wait_for(10).await;
        relay?.shutdown().await?;
        assert_eq!(sink.delivered().len(), 10);
    }
    Ok(())
}
