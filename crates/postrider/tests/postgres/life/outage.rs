//! The server is away for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use postrider::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_waits_for_a_server_that_is_down_at_its_start() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    world.write(10).await?;
    world.server(Server::stop).await;
    let config = world.config()?;
    let store = Arc::new(PostgresStore::unconnected(&config));
    let sink = Recorder::new();
    let fast = Relay::builder().fail_fast().outbox(store, [subscription(&sink)]).spawn().await.unwrap_err();
    assert_eq!(fast.code(), Code::StoreFailed);
    assert!(fast.to_string().contains("cannot be reached"), "{fast}");
    let (relay, ()) = tokio::join!(world.relay(&sink), world.server(Server::start));
    sink.wait_for(10).await;
    relay?.shutdown().await?;
    assert!(world.audit(&sink).await?.is_clean());
    Ok(())
}

/// Writes until told to stop, through everything that happens to the server.
async fn write_on(url: String, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(client) = connect(&url).await {
            while !stop.load(Ordering::Relaxed) && write(&client, 1).await.is_ok() {}
        }
        tokio::time::sleep(LOOK_AFTER).await;
    }
}

async fn survives(end: fn(&Server) -> Result<(), String>) -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    let (sink, stop) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    let relay = world.relay(&sink).await?;
    let writer = tokio::spawn(write_on(world.server.url().to_owned(), stop.clone()));
    for round in 1..=3 {
        sink.wait_for(round * 50).await;
        world.server(end).await;
        trouble(&relay).await;
        world.server(Server::start).await;
        at_ease(&relay).await;
    }
    let before = sink.delivered().len();
    sink.wait_for(before + 50).await;
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let all = committed(&world.client().await?).await?.len();
    sink.wait_for(all).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= 3 * policy().window_events_max, "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_server_is_restarted_under_load() -> Result<()> {
    survives(Server::stop).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_server_is_killed_under_load() -> Result<()> {
    survives(Server::kill).await
}
