//! The server is down for a while.

use std::sync::atomic::Ordering;

use postrider::Code;

use super::*;

pub(crate) async fn a_relay_waits_for_a_server_that_is_down_at_its_start<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Setup::Plain).await? else { return Ok(()) };
    write(&server, 10).await?;
    server.act(Action::Stop).await;
    let sink = Recorder::new();
    let store = server.store(Target::default())?;
    let fast = Relay::builder().fail_fast().outbox(store, [subscription(&sink)]).spawn().await.unwrap_err();
    assert_eq!(fast.code(), Code::StoreFailed);
    assert!(fast.to_string().contains("cannot be reached"), "{fast}");
    let (relay, ()) = tokio::join!(relay(&server, &sink), server.act(Action::Start));
    sink.wait_for(10).await;
    relay?.shutdown().await?;
    assert!(verdict(&server, &sink).await?.is_clean());
    Ok(())
}

async fn survives<W: TestServer>(end: Action) -> Result<()> {
    let Some(server) = W::new(Setup::Plain).await? else { return Ok(()) };
    let (sink, stop) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    let relay = relay(&server, &sink).await?;
    let writer = tokio::spawn(server.write_on(stop.clone()));
    for round in 1..=3 {
        sink.wait_for(round * 50).await;
        server.act(end).await;
        trouble(&relay).await;
        server.act(Action::Start).await;
        recovered(&relay).await;
    }
    let before = sink.delivered().len();
    sink.wait_for(before + 50).await;
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let all = server.committed().await?.len();
    sink.wait_for(all).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= 3 * policy().window_events_max, "{verdict}");
    Ok(())
}

pub(crate) async fn nothing_is_lost_when_the_server_is_restarted_under_load<W: TestServer>() -> Result<()> {
    survives::<W>(Action::Stop).await
}

pub(crate) async fn nothing_is_lost_when_the_server_is_killed_under_load<W: TestServer>() -> Result<()> {
    survives::<W>(Action::Kill).await
}
