//! A standby is promoted in the place of a primary that died.

use postrider::store::AfterFailover;
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::skipped;

use super::*;
use crate::life::shared::history::accept;
use crate::life::shared::{World as _, relay_at};

/// A primary with an outbox, and a standby that follows it.
struct Pair {
    world: World,
    standby: Arc<Server>,
}

impl Pair {
    async fn new() -> Result<Option<Self>> {
        let Some(world) = World::new(Wanted::Plain).await? else { return Ok(None) };
        let primary = world.server.clone();
        let standby = tokio::task::spawn_blocking(move || primary.standby()).await.unwrap().unwrap();
        Ok(Some(Self { world, standby: Arc::new(standby) }))
    }

    /// For a relay that goes to whichever of them is the primary.
    fn either(&self) -> Result<PostgresConfig> {
        PostgresConfig::new(&format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=life_relay password=secret dbname=postgres \
             target_session_attrs=read-write",
            self.world.server.port(),
            self.standby.port()
        ))
    }

    /// Commits so many events and waits until all up to here are delivered, settled, and known to the standby.
    async fn deliver(&self, events: usize, sink: &Recorder) -> Result<()> {
        write(&self.world, events).await?;
        let all = self.world.committed().await?.len();
        sink.wait_for(all).await;
        let follower = connect(self.standby.url()).await?;
        eventually("the standby has all", async || {
            let floor = follower.query_one("SELECT floor FROM postrider.subscriptions", &[]).await;
            floor.is_ok_and(|row| row.get::<_, i64>(0) == all as i64)
        })
        .await;
        Ok(())
    }

    /// The primary dies and the standby takes its place.
    async fn fail_over(self) -> World {
        self.world.act(Act::Kill).await;
        tokio::task::block_in_place(|| self.standby.promote()).unwrap();
        World { server: self.standby }
    }

    /// Stopped, the standby misses what is committed, delivered and then lost with the primary.
    async fn lost(self, events: usize, sink: &Recorder) -> Result<World> {
        tokio::task::block_in_place(|| self.standby.stop()).unwrap();
        write(&self.world, events).await?;
        let all = self.world.committed().await?.len();
        sink.wait_for(all).await;
        settled(&self.world, all).await;
        self.world.act(Act::Kill).await;
        tokio::task::block_in_place(|| self.standby.start().and_then(|()| self.standby.promote())).unwrap();
        Ok(World { server: self.standby })
    }
}

fn store(config: &PostgresConfig) -> Arc<dyn Store> {
    Arc::new(PostgresStore::unconnected(config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_lost_events_halts_and_goes_on_once_accepted() -> Result<()> {
    let Some(pair) = Pair::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay_at(store(&pair.either()?), &sink).await?;
    pair.deliver(20, &sink).await?;
    let world = pair.lost(5, &sink).await?;
    let reason = halted(&world).await;
    assert!(reason.contains("timeline"), "{reason}");
    goes_on_once_accepted(&world, &sink, relay).await
}

/// After 20 events that were kept and 5 that were lost, an operator lets it go on.
async fn goes_on_once_accepted(world: &World, sink: &Recorder, relay: Relay) -> Result<()> {
    // The positions of the lost events are given out again.
    write(world, 5).await?;
    assert_eq!(sink.delivered().len(), 25, "nothing is delivered before somebody has decided");
    accept(world, 21).await?;
    sink.wait_for(30).await;
    relay.shutdown().await?;
    let verdict = verdict(world, sink).await?;
    assert_eq!((verdict.lost, verdict.phantom, verdict.duplicates), (0, 5, 0), "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checked_failover_that_kept_everything_goes_on_by_itself() -> Result<()> {
    let Some(pair) = Pair::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let config = pair.either()?.after_failover(AfterFailover::Check);
    let relay = relay_at(store(&config), &sink).await?;
    pair.deliver(20, &sink).await?;
    let world = pair.fail_over().await;
    write(&world, 5).await?;
    sink.wait_for(25).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    assert_eq!(shared::overview(&world).await?.halted, None);
    let verdict = verdict(&world, &sink).await?;
    assert!(verdict.is_clean() && verdict.duplicates == 0, "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checked_failover_halts_the_relay_that_saw_events_it_lost() -> Result<()> {
    let Some(pair) = Pair::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let config = pair.either()?.after_failover(AfterFailover::Check);
    let relay = relay_at(store(&config), &sink).await?;
    pair.deliver(20, &sink).await?;
    let world = pair.lost(5, &sink).await?;
    let reason = halted(&world).await;
    assert!(reason.contains("position 25") && reason.contains("knows of 20"), "{reason}");
    goes_on_once_accepted(&world, &sink, relay).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checked_failover_halts_where_the_last_event_seen_is_gone() -> Result<()> {
    let Some(pair) = Pair::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let config = pair.either()?.after_failover(AfterFailover::Check);
    let relay = relay_at(store(&config), &sink).await?;
    pair.deliver(20, &sink).await?;
    // Somebody who knows nothing of it comes later.
    relay.shutdown().await?;
    let world = pair.fail_over().await;
    world.run("DELETE FROM postrider.events WHERE position = 20").await?;
    let config = world.config()?.after_failover(AfterFailover::Check);
    let relay = relay_at(store(&config), &sink).await?;
    let reason = halted(&world).await;
    assert!(reason.contains("timeline") && reason.contains("is gone"), "{reason}");
    relay.shutdown().await?;
    assert_eq!(sink.delivered().len(), 20);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_behind_a_pooler_halts_and_goes_on_once_accepted() -> Result<()> {
    let Some(pair) = Pair::new().await? else { return Ok(()) };
    let started = PgBouncer::start(pair.world.server.url(), 4);
    let Ok(mut pooler) = started.inspect_err(|reason| skipped("pgbouncer", reason)) else { return Ok(()) };
    let sink = Recorder::new();
    let config = PostgresConfig::new(&pooler.url().replace("postgres@", "life_relay@"))?;
    let relay = relay_at(store(&config), &sink).await?;
    pair.deliver(20, &sink).await?;
    let world = pair.lost(5, &sink).await?;
    pooler.lead_to(world.server.url()).unwrap();
    let reason = halted(&world).await;
    assert!(reason.contains("timeline"), "{reason}");
    goes_on_once_accepted(&world, &sink, relay).await
}
