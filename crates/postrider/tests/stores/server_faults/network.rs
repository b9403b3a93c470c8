//! The network between relay and server fails.

use postrider_testkit::eventually;
use postrider_testkit::proxy::{Fault, Proxy, Side};

use super::*;

/// A test server, and a proxy in front of it.
async fn behind_a_proxy<W: TestServer>() -> Result<Option<(W, Proxy, Target)>> {
    let Some(server) = W::new(Setup::Plain).await? else { return Ok(None) };
    let proxy = Proxy::to(server.port()).await.unwrap();
    let to = Target { port: Some(proxy.port()), ..Target::default() };
    Ok(Some((server, proxy, to)))
}

/// Breaks the network this many times while events are delivered; nothing may be lost.
async fn survives<W: TestServer>(faults: &[Fault]) -> Result<()> {
    let Some((server, proxy, to)) = behind_a_proxy::<W>().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay_at(server.store(to)?, &sink).await?;
    for (round, fault) in faults.iter().enumerate() {
        write(&server, 50).await?;
        // Including the previous rounds: then there are connections to break.
        sink.wait_for(round * 100 + 50).await;
        // The fault affects the settle of delivered events, and the next claim.
        write(&server, 50).await?;
        proxy.break_connections(*fault).await;
        recovered(&relay).await;
    }
    let all = server.committed().await?.len();
    sink.wait_for(all).await;
    settled(&server, all).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= faults.len() * policy().window_events_max, "{verdict}");
    Ok(())
}

pub(crate) async fn nothing_is_lost_when_connections_are_cut<W: TestServer>() -> Result<()> {
    survives::<W>(&[Fault::None; 5]).await
}

pub(crate) async fn nothing_is_lost_when_the_response_to_a_commit_is_lost<W: TestServer>() -> Result<()> {
    survives::<W>(&[Fault::LoseResponse; 5]).await
}

pub(crate) async fn nothing_is_lost_when_a_request_is_cut_in_the_middle<W: TestServer>() -> Result<()> {
    survives::<W>(&[1, 7, 40, 200, 600].map(|bytes| Fault::CutAfter(Side::Client, bytes))).await
}

/// The connections stay open, and no data passes: only the relay's own timeout ends the wait.
async fn notices_a_silent_server<W: TestServer>(fault: Fault) -> Result<()> {
    let Some((server, proxy, to)) = behind_a_proxy::<W>().await? else { return Ok(()) };
    let sink = Recorder::new();
    let store = server.store(Target { answer_within: Some(Duration::from_millis(500)), ..to })?;
    let relay = relay_at(store, &sink).await?;
    write(&server, 20).await?;
    sink.wait_for(20).await;
    settled(&server, 20).await;
    let open = proxy.stats();
    proxy.set(fault);
    let said = trouble(&relay).await;
    assert!(said.contains("has not answered within 500ms"), "{said}");
    assert_eq!(proxy.stats().broken, open.broken, "no connection was broken");
    write(&server, 20).await?;
    // The open connections never continue; the relay has closed them and opens new ones.
    proxy.set(Fault::None);
    sink.wait_for(40).await;
    recovered(&relay).await;
    assert!(proxy.stats().connections > open.connections);
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_server_that_stops_responding_on_an_open_connection_times_out<W: TestServer>()
-> Result<()> {
    notices_a_silent_server::<W>(Fault::DropFrom(Side::Server)).await
}

pub(crate) async fn a_network_that_drops_everything_times_out<W: TestServer>() -> Result<()> {
    notices_a_silent_server::<W>(Fault::Blackhole).await
}

/// If a relay is cut off, its lease moves on, and its pending settles change nothing.
async fn moves_on<W: TestServer>(fault: Fault) -> Result<()> {
    let Some((server, proxy, to)) = behind_a_proxy::<W>().await? else { return Ok(()) };
    let (cut_off, successor) = (Recorder::new(), Recorder::new());
    let first = relay_at(server.store(to)?, &cut_off).await?;
    write(&server, 20).await?;
    cut_off.wait_for(20).await;
    let epoch = overview(&server).await?.epoch;
    proxy.set(fault);
    let second = relay(&server, &successor).await?;
    eventually("the lease moves", async || overview(&server).await.is_ok_and(|o| o.epoch > epoch)).await;
    eventually("the first gives up", async || first.status()[0].state.leading.is_none()).await;
    write(&server, 20).await?;
    eventually("the second delivers", async || successor.delivered().len() >= 20).await;
    settled(&server, 40).await;
    let after = overview(&server).await?;
    // After it reconnects, the first relay finds that the lease is taken.
    proxy.set(Fault::None);
    proxy.cut();
    recovered(&first).await;
    let now = overview(&server).await?;
    assert_eq!((now.epoch, now.floor), (after.epoch, after.floor));
    assert_eq!(cut_off.delivered().len(), 20);
    second.shutdown().await?;
    first.shutdown().await?;
    assert!(successor.delivered().len() <= 40, "the first had at most 20 delivered and not settled");
    Ok(())
}

pub(crate) async fn a_relay_in_a_blackhole_loses_its_lease_and_changes_nothing<W: TestServer>() -> Result<()>
{
    moves_on::<W>(Fault::Blackhole).await
}

pub(crate) async fn a_relay_that_receives_no_responses_loses_its_lease<W: TestServer>() -> Result<()> {
    moves_on::<W>(Fault::DropFrom(Side::Server)).await
}
