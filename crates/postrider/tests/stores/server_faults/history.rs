//! The server is restored to an older state, or its positions are set back.

use super::*;
use postrider_testkit::eventually;

/// Accepts the current history and continues at its first unseen position.
pub(crate) async fn accept<W: TestServer>(server: &W, next: i64) -> Result<()> {
    let store = server.connect(Target::default()).await?;
    store.accept_history("mail", Start::Position(Position::new(next))).await
}

pub(crate) async fn a_restored_server_halts_the_relay_that_saw_later_events<W: TestServer>() -> Result<()> {
    let Some((server, sink, relay)) = delivering::<W>(Setup::Plain, 10).await? else { return Ok(()) };
    let copy = server.back_up().await;
    write(&server, 10).await?;
    sink.wait_for(20).await;
    server.restore(copy).await;
    let reason = halted(&server).await;
    assert!(reason.contains("older copy"), "{reason}");
    write(&server, 3).await?;
    accept(&server, 11).await?;
    sink.wait_for(23).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert_eq!((verdict.lost, verdict.phantom), (0, 10), "{verdict}");
    Ok(())
}

/// Changes the outbox while the relay runs, and expects it to halt.
async fn halts_after<W: TestServer>(change: Change) -> Result<()> {
    let Some((server, sink, first)) = delivering::<W>(Setup::Plain, 10).await? else { return Ok(()) };
    settled(&server, 10).await;
    server.change(change).await?;
    let reason = halted(&server).await;
    assert!(reason.contains("position 10"), "{reason}");
    eventually("the relay has stopped", async || first.status()[0].state.leading.is_none()).await;
    write(&server, 3).await?;
    // Another relay reports the same.
    let second = relay(&server, &sink).await?;
    assert_eq!(overview(&server).await?.halted, Some(reason));
    assert_eq!(sink.delivered().len(), 10);
    accept(&server, 6).await?;
    let all = server.committed().await?;
    eventually("all were delivered", async || {
        let delivered = sink.delivered();
        all.iter().all(|event| delivered.contains(&event.id))
    })
    .await;
    first.shutdown().await?;
    second.shutdown().await
}

pub(crate) async fn events_restored_without_their_ledger_halt_the_subscription<W: TestServer>() -> Result<()>
{
    halts_after::<W>(Change::LastEventsGone).await
}

pub(crate) async fn a_reset_counter_halts_the_subscription<W: TestServer>() -> Result<()> {
    halts_after::<W>(Change::CounterReset).await
}
