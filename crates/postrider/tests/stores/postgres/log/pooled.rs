//! Behind a PgBouncer with transaction pooling.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::postgres::{Pooler, PostgresConfig, PostgresStore};
use postrider::store::{Start, Store};
use postrider::{Event, Position, Result};
use postrider_testkit::conformance::store::{OpenTransaction, StoreUnderTest};
use postrider_testkit::servers::pgbouncer;

use super::case::{Case, case};
use super::event_types_sink::EventTypesSink;

postrider_testkit::store_conformance!(Pooled);

/// An outbox whose store connects through the pooler; the application does not.
struct Pooled(Case);

/// The configuration of a relay behind the pooler; `None` if there is no pooler.
async fn through_pooler(case: &Case) -> Result<Option<PostgresConfig>> {
    case.run("ALTER ROLE {schema}_relay LOGIN; GRANT pg_read_all_stats TO {schema}_relay").await?;
    relay_url(case).map(|url| case.config_at(&url)).transpose()
}

/// Each case has its own login, and so its own server processes. A process that builds its list of role
/// memberships while another session commits a GRANT can keep the list from before it (seen on PostgreSQL 15), and
/// a pooler keeps such a process for the cases that follow: they are refused what they were granted.
fn relay_url(case: &Case) -> Option<String> {
    pgbouncer::url().map(|url| url.replace("postgres@", &format!("{}_relay@", case.schema.as_str())))
}

impl StoreUnderTest for Pooled {
    type Backup = i64;

    fn is_available() -> bool {
        Case::is_available() && pgbouncer::url().is_some()
    }

    async fn fresh() -> Result<Self> {
        Case::new().await.map(Self)
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        let config = through_pooler(&self.0).await?.expect("the pooler was there before");
        Ok(Arc::new(PostgresStore::connect(&config).await?))
    }

    async fn write(&self, events: Vec<Event>) -> Result<Vec<Position>> {
        self.0.write(events).await
    }

    async fn begin(&self, events: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        self.0.begin(events).await
    }

    async fn waste_position(&self) -> Result<Position> {
        self.0.waste_position().await
    }

    async fn delete(&self, position: Position) -> Result<()> {
        self.0.delete(position).await
    }

    async fn damage(&self, position: Position) -> Result<()> {
        self.0.damage(position).await
    }

    async fn back_up(&self) -> Result<i64> {
        self.0.back_up().await
    }

    async fn restore(&self, last: i64) -> Result<()> {
        self.0.restore(last).await
    }

    async fn skip_to(&self, position: Position) -> Result<()> {
        self.0.skip_to(position).await
    }

    async fn widen(&self, position: Position, bytes: usize) -> Result<()> {
        self.0.widen(position, bytes).await
    }

    async fn revise_parked(&self, name: &str, position: Position, state: Option<&str>) -> Result<()> {
        self.0.revise_parked(name, position, state).await
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        self.0.expire_lease(subscription).await
    }
}

case! {
    async fn a_transaction_pooler_is_detected_and_a_direct_connection_is_not_mistaken_for_one(case) {
        assert!(!case.store().await?.is_pooled().await?);
        let reported = case.config.clone().pooler(Pooler::Transaction);
        assert!(PostgresStore::connect(&reported).await?.is_pooled().await?, "the setting is trusted");
        let Some(config) = through_pooler(&case).await? else { return Ok(()) };
        assert!(PostgresStore::connect(&config).await?.is_pooled().await?);
    }
}

case! {
    async fn the_tables_can_be_created_through_a_pooler(case) {
        let Some(url) = pgbouncer::url() else { return Ok(()) };
        case.run("DROP SCHEMA {schema} CASCADE").await?;
        let config = case.config_at(url)?;
        PostgresStore::migrate(&config).await?;
        let schema = PostgresStore::schema(&config).await?;
        assert_eq!(schema.found, schema.needed);
    }
}

case! {
    async fn no_session_state_is_left_in_the_pooler(case) {
        let Some(config) = through_pooler(&case).await? else { return Ok(()) };
        let relay = relay(&config, &EventTypesSink::new()).await?;
        case.committed("a").await?;
        relay.shutdown().await?;
        // Queries every process of the pool: each one is held while the next is queried.
        let mut held = Vec::new();
        for _ in 0..3 {
            let url = relay_url(&case).unwrap();
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let sql = "BEGIN; SELECT count(*), current_setting('enable_seqscan'), current_setting('lock_timeout')
                       FROM pg_prepared_statements";
            let answers = client.simple_query(sql).await.unwrap();
            let found = answers.iter().find_map(|answer| match answer {
                tokio_postgres::SimpleQueryMessage::Row(row) => {
                    Some([0, 1, 2].map(|column| row.get(column).unwrap().to_owned()))
                }
                _ => None,
            });
            assert_eq!(found, Some(["0", "on", "0"].map(str::to_owned)));
            held.push(client);
        }
    }
}

async fn relay(config: &PostgresConfig, sink: &EventTypesSink) -> Result<Relay> {
    let store = Arc::new(PostgresStore::connect(&config.clone().listen(true)).await?);
    let policy = Policy::default().lease(Duration::from_secs(1));
    let subscription = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
    Relay::builder().outbox(store, [subscription]).spawn().await
}

case! {
    async fn two_relays_behind_a_pooler_deliver_and_one_takes_over_from_the_other(case) {
        let Some(config) = through_pooler(&case).await? else { return Ok(()) };
        let sink = EventTypesSink::new();
        let first = relay(&config, &sink).await?;
        let second = relay(&config, &sink).await?;
        case.committed("before").await?;
        sink.wait_for("before").await;
        let (leader, standby) = if first.status()[0].state.leading.is_some() { (first, second) } else { (second, first) };
        // As in a crash, the lease has to expire.
        drop(leader);
        for number in 0..20 {
            case.committed(&format!("after.{number}")).await?;
        }
        for number in 0..20 {
            sink.wait_for(&format!("after.{number}")).await;
        }
        standby.shutdown().await?;
    }
}
