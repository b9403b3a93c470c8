//! Life with a database that fails: each test has a server of its own and does to it what happens to servers.
//!
//! What was delivered is compared with what the table holds at the end: nothing lost, nothing invented, every
//! key in its order.

mod failover;
mod history;
mod network;
mod outage;
mod pooler;
mod recorder;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{Start, Store, SubscriptionOverview};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::audit::{Sighting, Verdict, audit};
use postrider_testkit::servers::postgres::{Options, Server, own};
use tokio_postgres::{Client, NoTls};

use super::case::failed;
use recorder::Recorder;

/// Long enough for anything that will happen.
const LONG: Duration = Duration::from_secs(60);

/// Between two looks at something that will happen.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Who relays connect as, with a password for servers that ask: a login with the role that the library's own
/// script makes for relays, and the one that its comment tells of.
const RELAY: &str = "life_relay:secret";

/// Who writers connect as.
const WRITER: &str = "life_writer:secret";

/// A server with an outbox, and what writes to it.
struct World {
    server: Arc<Server>,
}

impl World {
    /// `None`, with a line that says why, if there is no server to be had.
    async fn new(options: Options) -> Result<Option<Self>> {
        let Some(server) = tokio::task::block_in_place(|| own(options)) else { return Ok(None) };
        let world = Self { server: Arc::new(server) };
        PostgresStore::migrate(&PostgresConfig::new(world.server.url())?).await?;
        world.run(&PostgresStore::roles(&Ident::default())?).await?;
        world
            .run(
                "CREATE ROLE life_relay LOGIN PASSWORD 'secret' IN ROLE postrider_relay, pg_read_all_stats;
                 CREATE ROLE life_writer LOGIN PASSWORD 'secret' IN ROLE postrider_writer",
            )
            .await?;
        Ok(Some(world))
    }

    /// For a relay.
    fn config(&self) -> Result<PostgresConfig> {
        PostgresConfig::new(&self.server.url_of(RELAY))
    }

    /// Does something to the server while everything else goes on.
    async fn server(&self, act: impl FnOnce(&Server) -> Result<(), String> + Send + 'static) {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || act(&server)).await.unwrap().unwrap();
    }

    /// A connection of the superuser, for what no application does.
    async fn client(&self) -> Result<Client> {
        connect(self.server.url()).await
    }

    async fn run(&self, sql: &str) -> Result<()> {
        self.client().await?.batch_execute(sql).await.map_err(failed)
    }

    /// Commits so many events, one by one, of five keys.
    async fn write(&self, events: usize) -> Result<()> {
        write(&connect(&self.server.url_of(WRITER)).await?, events).await
    }

    /// Settles at this address, delivers to this sink.
    async fn relay_at(&self, config: &PostgresConfig, sink: &Recorder) -> Result<Relay> {
        let store = Arc::new(PostgresStore::unconnected(config));
        Relay::builder().outbox(store, [subscription(sink)]).spawn().await
    }

    async fn relay(&self, sink: &Recorder) -> Result<Relay> {
        self.relay_at(&self.config()?, sink).await
    }

    /// What the table holds against what was delivered.
    async fn audit(&self, sink: &Recorder) -> Result<Verdict> {
        let committed = committed(&self.client().await?).await?;
        let delivered: Vec<Sighting> = sink
            .delivered()
            .iter()
            .map(|id| committed.iter().find(|event| event.id == *id).cloned())
            .map(|known| known.unwrap_or(Sighting { id: Default::default(), key: String::new(), version: 0 }))
            .collect();
        Ok(audit(&committed, &delivered))
    }

    async fn overview(&self) -> Result<SubscriptionOverview> {
        overview(&self.config()?).await
    }

    /// Waits until the subscription waits for an operator, and answers with the reason.
    async fn halted(&self) -> Result<String> {
        halted(&self.config()?).await
    }
}

fn policy() -> Policy {
    Policy { lease: Duration::from_secs(2), ..Policy::default() }
}

fn subscription(sink: &Recorder) -> Subscription {
    Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn write(client: &Client, events: usize) -> Result<()> {
    let outbox = Outbox::anonymous();
    for number in 0..events {
        let event = Event::new("life", "{}").with_key(format!("key {}", number % 5));
        outbox.write(client, event).await?;
    }
    Ok(())
}

/// Everything in the outbox, in its order, each with its number within its key.
async fn committed(client: &Client) -> Result<Vec<Sighting>> {
    let sql = "SELECT id, key, row_number() OVER (PARTITION BY key ORDER BY position)
               FROM postrider.events ORDER BY position";
    let rows = client.query(sql, &[]).await.map_err(failed)?;
    let sighting = |row: &tokio_postgres::Row| Sighting {
        id: row.get(0),
        key: row.get(1),
        version: row.get::<_, i64>(2).unsigned_abs(),
    };
    Ok(rows.iter().map(sighting).collect())
}

async fn overview(config: &PostgresConfig) -> Result<SubscriptionOverview> {
    let store = PostgresStore::connect(config).await?;
    let overview = store.overview(1_000).await?;
    Ok(overview.subscriptions.into_iter().next().unwrap())
}

async fn halted(config: &PostgresConfig) -> Result<String> {
    let mut reason = None;
    eventually("the subscription halts", async || {
        reason = overview(config).await.ok().and_then(|overview| overview.halted);
        reason.is_some()
    })
    .await;
    Ok(reason.unwrap())
}

/// Waits until it is so.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_AFTER).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "it never came that {what}");
}

/// Waits until the relay says what is wrong with the database, and answers with that.
async fn trouble(relay: &Relay) -> String {
    let mut trouble = None;
    eventually("the relay is in trouble", async || {
        trouble = relay.status()[0].trouble.clone();
        trouble.is_some()
    })
    .await;
    trouble.unwrap()
}

/// Waits until the relay has no trouble any more.
async fn at_ease(relay: &Relay) {
    eventually("the database answers again", async || relay.status()[0].trouble.is_none()).await;
}
