//! The server is there and says no.

use postrider::Code;
use postrider_testkit::proxy::Proxy;

use super::*;

pub(crate) async fn a_relay_without_a_free_connection_waits_for_one<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Wanted::Plain).await? else { return Ok(()) };
    server.change(Change::OneConnection).await?;
    let to = || To { user: Some("single:secret"), ..To::default() };
    let sink = Recorder::new();
    // To create one takes a connection of its own; without it nothing would begin.
    server.connect(To::default()).await?.subscribe("mail", Start::Beginning).await?;
    let relay = relay_at(server.store(to())?, &sink).await?;
    write(&server, 10).await?;
    // It has one connection to settle on, and gets none to read from.
    trouble_with(&relay, W::NO_CONNECTION[0]).await;
    let error = server.connect(to()).await.err().unwrap();
    assert_eq!(error.code(), Code::StoreFailed);
    let hint = error.report().to_lowercase();
    assert!(hint.contains("connection limit") || hint.contains("max_user_connections"), "{error}");
    server.change(Change::MoreConnections).await?;
    sink.wait_for(10).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    assert!(verdict(&server, &sink).await?.is_clean());
    Ok(())
}

pub(crate) async fn a_server_full_of_others_is_waited_for_at_the_start_and_later<W: TestServer>() -> Result<()>
{
    let Some(server) = W::new(Wanted::FewConnections).await? else { return Ok(()) };
    let mut others = server.take_all_connections().await;
    let refused = server.connect(To::default()).await.err().unwrap();
    assert_eq!(refused.code(), Code::StoreFailed, "{refused}");
    let said = refused.report();
    assert!(said.contains(W::NO_CONNECTION[1]) && said.contains("max_connections"), "{said}");
    let proxy = Proxy::to(server.port()).await.unwrap();
    let (sink, store) = (Recorder::new(), server.store(To { port: Some(proxy.port()), ..To::default() })?);
    let starting = tokio::spawn(Relay::builder().outbox(store, [subscription(&sink)]).spawn());
    server.commit_as_administrator(some(10)).await?;
    let tried = proxy.wait_for(|seen| seen.connections >= 3);
    tokio::time::timeout(LONG, tried).await.expect("it is tried again and again");
    assert!(!starting.is_finished(), "it waits");
    others.clear();
    let relay = starting.await.unwrap()?;
    sink.wait_for(10).await;
    at_ease(&relay).await;

    // Others take what is free, the relay's own are cut, and others take those too.
    others.extend(server.take_all_connections().await);
    eventually("the relay has no connection", async || {
        server.change(Change::RelayCut).await.is_ok() && {
            others.extend(server.take_all_connections().await);
            relay.status()[0].error.as_deref().is_some_and(|said| said.contains(W::NO_CONNECTION[1]))
        }
    })
    .await;
    server.commit_as_administrator(some(10)).await?;
    others.clear();
    sink.wait_for(20).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

pub(crate) async fn a_read_only_server_is_waited_for_and_delivers_nothing_over_and_over<W: TestServer>()
-> Result<()> {
    let Some(server) = W::new(Wanted::Plain).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay(&server, &sink).await?;
    write(&server, 10).await?;
    sink.wait_for(10).await;
    settled(&server, 10).await;
    let store = server.connect(To::default()).await?;
    server.change(Change::ReadOnly).await?;
    let trouble = trouble(&relay).await.replace('_', "-");
    assert!(trouble.contains("read-only"), "{trouble}");
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::StoreReadOnly);
    server.change(Change::Writable).await?;
    at_ease(&relay).await;
    server.commit_as_administrator(some(10)).await?;
    sink.wait_for(20).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

pub(crate) async fn who_has_the_wrong_password_is_told_so_at_once_and_not_the_password<W: TestServer>()
-> Result<()> {
    let Some(server) = W::new(Wanted::Passwords).await? else { return Ok(()) };
    let store = server.store(To { user: Some("life_relay:wrong-word"), ..To::default() })?;
    let error = relay_at(store, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::LoginRefused, "{error}");
    let text = error.report();
    assert!(text.contains("password") && !text.contains("wrong-word"), "{text}");
    Ok(())
}

pub(crate) async fn a_password_changed_under_a_running_relay_is_waited_out<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Wanted::Passwords).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay(&server, &sink).await?;
    write(&server, 5).await?;
    sink.wait_for(5).await;
    server.change(Change::PasswordChanged).await?;
    server.act(Act::Kill).await;
    server.act(Act::Start).await;
    trouble_with(&relay, W::WRONG_PASSWORD).await;
    write(&server, 5).await?;
    server.change(Change::PasswordAsBefore).await?;
    sink.wait_for(10).await;
    relay.shutdown().await?;
    assert!(verdict(&server, &sink).await?.is_clean());
    Ok(())
}

pub(crate) async fn a_schema_of_another_name_is_named_in_the_error<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Wanted::Plain).await? else { return Ok(()) };
    let store = server.store(To { schema: Some(Ident::new("no_such_schema")?), ..To::default() })?;
    let error = relay_at(store, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaMissing, "{error}");
    assert!(error.report().contains("no_such_schema"), "{error}");
    Ok(())
}

pub(crate) async fn a_user_that_may_not_settle_is_told_which_right_it_lacks<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Wanted::Plain).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay(&server, &sink).await?;
    write(&server, 5).await?;
    sink.wait_for(5).await;
    settled(&server, 5).await;
    server.change(Change::SettlingDenied).await?;
    write(&server, 5).await?;
    let trouble = trouble(&relay).await;
    assert!(trouble.contains("denied") && trouble.contains("subscriptions"), "{trouble}");
    let store = server.connect(To::default()).await?;
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::PrivilegeMissing);
    server.change(Change::SettlingAllowed).await?;
    at_ease(&relay).await;
    sink.wait_for(10).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

pub(crate) async fn a_full_disk_loses_nothing_and_is_over_when_there_is_room<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Wanted::SmallDisk).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = relay(&server, &sink).await?;
    write(&server, 10).await?;
    sink.wait_for(10).await;
    let ballast = server.data().join("ballast");
    fill(&ballast);
    // Depending on which file finds no room first, the server refuses the write or goes down with it.
    let noise: Vec<u8> = (0..2_000).flat_map(|_| uuid::Uuid::now_v7().into_bytes()).collect();
    let refused = loop {
        let large = Event::new("large", noise.clone()).with_key("key 0");
        if let Err(error) = server.commit(vec![large]).await {
            break error;
        }
    };
    assert!(matches!(refused.code(), Code::StoreReadOnly | Code::StoreFailed), "{refused}");
    std::fs::remove_file(&ballast).unwrap();
    server.act(Act::Kill).await;
    server.act(Act::Start).await;
    write(&server, 10).await?;
    let all = server.committed().await?.len();
    sink.wait_for(all).await;
    relay.shutdown().await?;
    let verdict = verdict(&server, &sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

/// Writes until there is no room.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
