//! The server comes back as another one: restored, or with its positions taken back.

use postrider::Position;

use super::*;

/// Accepts the history as it is now and goes on with the first position that was not seen of it.
pub(super) async fn accept(config: &PostgresConfig, next: i64) -> Result<()> {
    PostgresStore::connect(config).await?.accept_history("mail", Start::Position(Position::new(next))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_put_back_to_an_older_state_halts_the_relay_that_knew_better() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay(&sink).await?;
    world.write(10).await?;
    sink.wait_for(10).await;
    let server = world.server.clone();
    let copy = tokio::task::spawn_blocking(move || server.back_up()).await.unwrap().unwrap();
    world.write(10).await?;
    sink.wait_for(20).await;
    world.server(move |server| server.restore(&copy)).await;
    let reason = world.halted().await?;
    assert!(reason.contains("older copy"), "{reason}");
    world.write(3).await?;
    accept(&world.config()?, 11).await?;
    sink.wait_for(23).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert_eq!((verdict.lost, verdict.phantom), (0, 10), "{verdict}");
    Ok(())
}

/// Takes something of the outbox back while the relay runs, and expects it to stop.
async fn halts_after(taken_back: &str) -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay(&sink).await?;
    world.write(10).await?;
    sink.wait_for(10).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == 10)).await;
    world.run(taken_back).await?;
    let reason = world.halted().await?;
    assert!(reason.contains("position 10"), "{reason}");
    eventually("the relay has stopped", async || relay.status()[0].brain.leading.is_none()).await;
    world.write(3).await?;
    // Another relay sees the same.
    let second = world.relay(&sink).await?;
    assert_eq!(world.overview().await?.halted, Some(reason));
    assert_eq!(sink.delivered().len(), 10);
    accept(&world.config()?, 6).await?;
    let all = committed(&world.client().await?).await?;
    eventually("all were delivered", async || {
        let delivered = sink.delivered();
        all.iter().all(|event| delivered.contains(&event.id))
    })
    .await;
    relay.shutdown().await?;
    second.shutdown().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_put_back_without_their_ledger_halt_the_subscription() -> Result<()> {
    halts_after(
        "DELETE FROM postrider.events WHERE position > 5;
         SELECT setval('postrider.events_position_seq', 5)",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_sequence_halts_the_subscription() -> Result<()> {
    halts_after("TRUNCATE postrider.events; ALTER SEQUENCE postrider.events_position_seq RESTART WITH 6")
        .await
}
