//! A standby is promoted after its primary died.

use postrider::store::AfterFailover;
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::skipped;

use super::*;
use crate::server_faults::blocking;
use crate::server_faults::failover::{Pair, Replicated, continues_once_accepted};
use crate::server_faults::relay_at;

impl Replicated for PostgresServer {
    /// The addresses of both; the driver finds the one that accepts writes.
    type Route = PostgresConfig;

    const ANOTHER: &'static str = "timeline";

    async fn follower(&self) -> Result<Self> {
        let standby = blocking(&self.server, Server::standby).await;
        Ok(Self { server: Arc::new(standby) })
    }

    async fn route(&self, follower: &Self) -> Result<PostgresConfig> {
        PostgresConfig::new(&format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=faults_relay password=secret dbname=postgres \
             target_session_attrs=read-write",
            self.server.port(),
            follower.server.port()
        ))
    }

    fn store_by(&self, route: &PostgresConfig, choice: AfterFailover) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::unconnected(&route.clone().after_failover(choice))))
    }

    async fn promote(&self, _: &PostgresConfig) -> Result<()> {
        blocking(&self.server, Server::promote).await;
        Ok(())
    }

    async fn floor_seen(&self) -> Option<i64> {
        let client = self.client().await.ok()?;
        let row = client.query_one("SELECT floor FROM postrider.subscriptions", &[]).await;
        row.ok().map(|row| row.get(0))
    }

    async fn lose(&self, position: i64) -> Result<()> {
        self.run(&format!("DELETE FROM postrider.events WHERE position = {position}")).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_behind_a_pooler_halts_and_continues_once_accepted() -> Result<()> {
    let Some(pair) = Pair::<PostgresServer>::new().await? else { return Ok(()) };
    let started = PgBouncer::start(pair.primary.server.url(), 4);
    let Ok(mut pooler) = started.inspect_err(|reason| skipped("pgbouncer", reason)) else { return Ok(()) };
    let sink = Recorder::new();
    let config = PostgresConfig::new(&pooler.url().replace("postgres@", "faults_relay@"))?;
    let relay = relay_at(Arc::new(PostgresStore::unconnected(&config)), &sink).await?;
    pair.deliver(20, &sink).await?;
    pair.fail_over_without(5, &sink).await?;
    pooler.redirect_to(pair.follower.server.url()).unwrap();
    let reason = halted(&pair.follower).await;
    assert!(reason.contains("timeline"), "{reason}");
    continues_once_accepted(&pair.follower, &sink, relay).await
}
