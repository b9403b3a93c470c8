//! The network between relay and server fails.

use postrider_testkit::proxy::{Fault, Proxy, Side};

use super::*;

/// A world, and a proxy in front of its server.
async fn behind_a_proxy() -> Result<Option<(World, Proxy, PostgresConfig)>> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(None) };
    let proxy = Proxy::to(world.server.port()).await.map_err(failed)?;
    let url = format!("postgres://{RELAY}@127.0.0.1:{}/postgres?connect_timeout=1", proxy.port());
    Ok(Some((world, proxy, PostgresConfig::new(&url)?)))
}

/// Breaks the network so many times while events are delivered; nothing may be lost by it.
async fn survives(faults: &[Fault]) -> Result<()> {
    let Some((world, proxy, config)) = behind_a_proxy().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay_at(&config, &sink).await?;
    for (round, fault) in faults.iter().enumerate() {
        world.write(50).await?;
        // Everything from the rounds before, too: then there are connections to break.
        sink.wait_for(round * 100 + 50).await;
        let broken = proxy.seen().broken;
        // What was delivered and is not settled yet meets the fault, and so does the next claim.
        world.write(50).await?;
        proxy.set(*fault);
        if *fault == Fault::None {
            proxy.cut();
        }
        let breaking = proxy.wait_for(|seen| seen.broken > broken);
        tokio::time::timeout(LONG, breaking).await.expect("a connection breaks");
        proxy.set(Fault::None);
        at_ease(&relay).await;
    }
    let all = committed(&world.client().await?).await?.len();
    sink.wait_for(all).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == all as i64))
        .await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= faults.len() * policy().window_events_max, "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_are_cut() -> Result<()> {
    survives(&[Fault::None; 5]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_answer_to_a_commit_is_lost() -> Result<()> {
    survives(&[Fault::LoseAnswer; 5]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_a_request_is_cut_in_the_middle() -> Result<()> {
    survives(&[1, 7, 40, 200, 600].map(|bytes| Fault::CutAfter(Side::Client, bytes))).await
}

/// The connections stay open, and nothing comes through: only a deadline of its own gets a relay out of that.
async fn notices_a_silent_server(fault: Fault) -> Result<()> {
    let Some((world, proxy, config)) = behind_a_proxy().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay_at(&config.answer_within(Duration::from_millis(500)), &sink).await?;
    world.write(20).await?;
    sink.wait_for(20).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == 20)).await;
    let open = proxy.seen();
    proxy.set(fault);
    let said = trouble(&relay).await;
    assert!(said.contains("has not answered within 500ms"), "{said}");
    assert_eq!(proxy.seen().broken, open.broken, "no connection was broken");
    world.write(20).await?;
    // What was open is never heard of again; the relay has given it up and makes other connections.
    proxy.set(Fault::None);
    sink.wait_for(40).await;
    at_ease(&relay).await;
    assert!(proxy.seen().connections > open.connections);
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_on_an_open_connection_is_given_up_in_time() -> Result<()> {
    notices_a_silent_server(Fault::Unheard(Side::Server)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_given_up_in_time() -> Result<()> {
    notices_a_silent_server(Fault::Blackhole).await
}

/// The lease of a relay that hears nothing any more moves on, and what it had in its hands changes nothing.
async fn moves_on(fault: Fault) -> Result<()> {
    let Some((world, proxy, config)) = behind_a_proxy().await? else { return Ok(()) };
    let (cut_off, successor) = (Recorder::new(), Recorder::new());
    let first = world.relay_at(&config, &cut_off).await?;
    world.write(20).await?;
    cut_off.wait_for(20).await;
    let epoch = world.overview().await?.epoch;
    proxy.set(fault);
    let second = world.relay(&successor).await?;
    eventually("the lease moves", async || world.overview().await.is_ok_and(|o| o.epoch > epoch)).await;
    eventually("the first gives up", async || first.status()[0].brain.leading.is_none()).await;
    world.write(20).await?;
    eventually("the second delivers", async || successor.delivered().len() >= 20).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == 40)).await;
    let after = world.overview().await?;
    // Back in the world, the first finds the lease taken.
    proxy.set(Fault::None);
    proxy.cut();
    at_ease(&first).await;
    let now = world.overview().await?;
    assert_eq!((now.epoch, now.floor), (after.epoch, after.floor));
    assert_eq!(cut_off.delivered().len(), 20);
    second.shutdown().await?;
    first.shutdown().await?;
    assert!(successor.delivered().len() <= 40, "the first had at most 20 delivered and not settled");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_in_a_blackhole_loses_its_lease_and_changes_nothing() -> Result<()> {
    moves_on(Fault::Blackhole).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_heard_and_hears_nothing_loses_its_lease() -> Result<()> {
    moves_on(Fault::Unheard(Side::Server)).await
}
