//! The server comes back as another one: restored, or with its positions taken back.

use super::*;

/// Accepts the history as it is now and goes on with the first position that was not seen of it.
pub(crate) async fn accept<W: World>(world: &W, next: i64) -> Result<()> {
    let store = world.connect(To::default()).await?;
    store.accept_history("mail", Start::Position(Position::new(next))).await
}

pub(crate) async fn a_server_put_back_to_an_older_state_halts_the_relay_that_knew_better<W: World>()
-> Result<()> {
    let Some(world) = W::new(Wanted::Plain).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay(&world, &sink).await?;
    write(&world, 10).await?;
    sink.wait_for(10).await;
    let copy = world.back_up().await;
    write(&world, 10).await?;
    sink.wait_for(20).await;
    world.restore(copy).await;
    let reason = halted(&world).await;
    assert!(reason.contains("older copy"), "{reason}");
    write(&world, 3).await?;
    accept(&world, 11).await?;
    sink.wait_for(23).await;
    relay.shutdown().await?;
    let verdict = verdict(&world, &sink).await?;
    assert_eq!((verdict.lost, verdict.phantom), (0, 10), "{verdict}");
    Ok(())
}

/// Takes something of the outbox back while the relay runs, and expects it to stop.
async fn halts_after<W: World>(taken_back: Change) -> Result<()> {
    let Some(world) = W::new(Wanted::Plain).await? else { return Ok(()) };
    let sink = Recorder::new();
    let first = relay(&world, &sink).await?;
    write(&world, 10).await?;
    sink.wait_for(10).await;
    settled(&world, 10).await;
    world.change(taken_back).await?;
    let reason = halted(&world).await;
    assert!(reason.contains("position 10"), "{reason}");
    eventually("the relay has stopped", async || first.status()[0].brain.leading.is_none()).await;
    write(&world, 3).await?;
    // Another relay sees the same.
    let second = relay(&world, &sink).await?;
    assert_eq!(overview(&world).await?.halted, Some(reason));
    assert_eq!(sink.delivered().len(), 10);
    accept(&world, 6).await?;
    let all = world.committed().await?;
    eventually("all were delivered", async || {
        let delivered = sink.delivered();
        all.iter().all(|event| delivered.contains(&event.id))
    })
    .await;
    first.shutdown().await?;
    second.shutdown().await
}

pub(crate) async fn events_put_back_without_their_ledger_halt_the_subscription<W: World>() -> Result<()> {
    halts_after::<W>(Change::LastEventsGone).await
}

pub(crate) async fn a_reset_counter_halts_the_subscription<W: World>() -> Result<()> {
    halts_after::<W>(Change::CounterReset).await
}
