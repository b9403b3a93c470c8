//! A server that is replaced while the connection stays open, which is possible behind a pooler.
//!
//! The database has its own function instead of `pg_postmaster_start_time()`. If its result changes, the client sees
//! another server.

use std::time::Duration;

use postrider::ledger::Intervals;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{Acquired, Budget, Epoch, LeaseRequest, Settled, Settlement, Start, Store};
use postrider::{Position, Recovery, Result};
use postrider_testkit::servers::{pgbouncer, postgres};
use tokio_postgres::{Client, NoTls};

use super::case::{Case, case, failed};

/// A database whose server can be replaced.
struct Stage {
    name: String,
    client: Client,
}

impl Stage {
    async fn new(case: &Case) -> Result<Self> {
        let name = format!("{}_stage", case.schema.as_str());
        case.run(&format!("DROP DATABASE IF EXISTS {name}")).await?;
        case.run(&format!("CREATE DATABASE {name}")).await?;
        let url = address(postgres::url().unwrap(), &name);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.map_err(failed)?;
        tokio::spawn(connection);
        let sql = "CREATE SCHEMA fake;
                   CREATE TABLE fake.start AS SELECT now() AS at;
                   ALTER FUNCTION pg_catalog.pg_postmaster_start_time() RENAME TO real_start_time;
                   CREATE FUNCTION pg_catalog.pg_postmaster_start_time() RETURNS timestamptz
                   LANGUAGE sql VOLATILE AS 'SELECT at FROM fake.start'";
        client.batch_execute(sql).await.map_err(failed)?;
        Ok(Self { name, client })
    }

    async fn replace_server(&self) -> Result<()> {
        let sql = "UPDATE fake.start SET at = at + interval '1 second'";
        self.client.batch_execute(sql).await.map_err(failed)
    }

    async fn one(&self, sql: &str) -> Result<String> {
        self.client.query_one(sql, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)
    }
}

fn address(url: &str, database: &str) -> String {
    url.rsplit_once('/').map(|(server, _)| format!("{server}/{database}")).unwrap()
}

fn lease() -> LeaseRequest {
    LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "a".to_owned(),
        duration: Duration::from_secs(60),
    }
}

async fn granted(store: &PostgresStore) -> Result<Epoch> {
    let Acquired::Granted(loaded) = store.acquire(lease()).await? else { panic!("the lease is ours") };
    Ok(loaded.epoch)
}

fn settlement(epoch: Epoch, up_to: i64) -> Settlement {
    Settlement {
        subscription: "mail".to_owned(),
        epoch,
        done: Intervals::up_to(Position::new(up_to)),
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// A settle, a renewal and a release with a lease of the previous server. None changes anything, and each reports that
/// the state must be loaded again.
async fn a_lease_is_refused_on_another_server(stage: &Stage, url: &str, pooled: bool) -> Result<()> {
    let config = PostgresConfig::new(&address(url, &stage.name))?;
    PostgresStore::migrate(&config).await?;
    let store = PostgresStore::connect(&config).await?;
    assert_eq!(store.is_pooled().await?, pooled);
    store.subscribe("mail", Start::Beginning).await?;

    let epoch = granted(&store).await?;
    assert_eq!(store.settle(settlement(epoch, 1)).await?, Settled::Done);
    stage.replace_server().await?;
    for _ in 0..2 {
        let error = store.settle(settlement(epoch, 2)).await.unwrap_err();
        assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
    }
    assert_eq!(stage.one("SELECT done FROM postrider.subscriptions").await?, "1");

    let epoch = granted(&store).await?;
    stage.replace_server().await?;
    let before = stage.one("SELECT expires_at::text FROM postrider.leases").await?;
    let error = store.renew(lease(), epoch).await.unwrap_err();
    assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
    _ = store.release("mail", epoch, true).await;
    assert_eq!(stage.one("SELECT expires_at::text FROM postrider.leases").await?, before);
    assert_eq!(stage.one("SELECT clean::text FROM postrider.subscriptions").await?, "false");

    let epoch = granted(&store).await?;
    assert_eq!(store.settle(settlement(epoch, 3)).await?, Settled::Done);
    stage.client.batch_execute("DROP SCHEMA postrider CASCADE").await.map_err(failed)
}

case! {
    async fn a_claimer_reads_only_from_the_server_its_state_came_from(case) {
        let stage = Stage::new(&case).await?;
        let config = PostgresConfig::new(&address(postgres::url().unwrap(), &stage.name))?;
        PostgresStore::migrate(&config).await?;
        let store = PostgresStore::connect(&config).await?;
        store.subscribe("mail", Start::Beginning).await?;
        let Acquired::Granted(before) = store.acquire(lease()).await? else { panic!("the lease is free") };
        stage.replace_server().await?;
        // This call notices it, and from now on the store connects to the other server.
        store.renew(lease(), before.epoch).await.unwrap_err();
        store.is_pooled().await?;
        let budget = Budget::new(1, 1);
        let error = store.claimer_of("mail", &before).claim(budget).await.unwrap_err();
        assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
        let Acquired::Granted(after) = store.acquire(lease()).await? else { panic!("the lease is ours") };
        store.claimer_of("mail", &after).claim(budget).await?;
        case.run(&format!("DROP DATABASE {} WITH (FORCE)", stage.name)).await?;
    }
}

case! {
    async fn a_lease_is_settled_renewed_and_released_only_on_the_server_that_granted_it(case) {
        let stage = Stage::new(&case).await?;
        a_lease_is_refused_on_another_server(&stage, postgres::url().unwrap(), false).await?;
        if let Some(url) = pgbouncer::url() {
            a_lease_is_refused_on_another_server(&stage, url, true).await?;
        }
        case.run(&format!("DROP DATABASE {} WITH (FORCE)", stage.name)).await?;
    }
}
