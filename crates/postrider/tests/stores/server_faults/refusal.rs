//! The server runs, but refuses connections or statements.

use postrider::Code;
use postrider_testkit::eventually;
use postrider_testkit::proxy::Proxy;

use super::*;

pub(crate) async fn a_relay_without_a_free_connection_waits_for_one<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Setup::Plain).await? else { return Ok(()) };
    server.change(Change::OneConnection).await?;
    let to = || Target { user: Some("single:secret"), ..Target::default() };
    let sink = Recorder::new();
    // Creating the subscription needs a second connection.
    server.connect(Target::default()).await?.subscribe("mail", Start::Beginning).await?;
    let relay = relay_at(server.store(to())?, &sink).await?;
    write(&server, 10).await?;
    // The relay has a connection for settling, and gets none for reading.
    trouble_with(&relay, W::NO_CONNECTION[0]).await;
    let error = server.connect(to()).await.err().unwrap();
    assert_eq!(error.code(), Code::StoreFailed);
    let hint = error.report().to_lowercase();
    assert!(hint.contains("connection limit") || hint.contains("max_user_connections"), "{error}");
    server.change(Change::MoreConnections).await?;
    sink.wait_for(10).await;
    recovered(&relay).await;
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_relay_waits_for_a_server_without_free_connections_at_start_and_later<W: TestServer>()
-> Result<()> {
    let Some(server) = W::new(Setup::FewConnections).await? else { return Ok(()) };
    let mut others = server.take_all_connections().await;
    let refused = server.connect(Target::default()).await.err().unwrap();
    assert_eq!(refused.code(), Code::StoreFailed, "{refused}");
    let said = refused.report();
    assert!(said.contains(W::NO_CONNECTION[1]) && said.contains("max_connections"), "{said}");
    let proxy = Proxy::to(server.port()).await.unwrap();
    let (sink, store) =
        (Recorder::new(), server.store(Target { port: Some(proxy.port()), ..Target::default() })?);
    let starting = tokio::spawn(Relay::builder().outbox(store, [subscription(&sink)]).spawn());
    server.commit_as_administrator(some(10)).await?;
    let tried = proxy.wait_for(|stats| stats.connections >= 3);
    tokio::time::timeout(LONG, tried).await.expect("the relay keeps trying");
    assert!(!starting.is_finished(), "the relay waits");
    others.clear();
    let relay = starting.await.unwrap()?;
    sink.wait_for(10).await;
    recovered(&relay).await;

    // Other clients take the free connections, the relay's connections are cut, and others take those too.
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
    recovered(&relay).await;
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_relay_waits_for_a_read_only_server_and_delivers_nothing_repeatedly<W: TestServer>()
-> Result<()> {
    let Some((server, sink, relay)) = delivering::<W>(Setup::Plain, 10).await? else { return Ok(()) };
    settled(&server, 10).await;
    let store = server.connect(Target::default()).await?;
    server.change(Change::ReadOnly).await?;
    let trouble = trouble(&relay).await.replace('_', "-");
    assert!(trouble.contains("read-only"), "{trouble}");
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::StoreReadOnly);
    server.change(Change::Writable).await?;
    recovered(&relay).await;
    server.commit_as_administrator(some(10)).await?;
    sink.wait_for(20).await;
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_wrong_password_is_reported_at_once_and_not_printed<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Setup::Passwords).await? else { return Ok(()) };
    let store = server.store(Target { user: Some("faults_relay:wrong-word"), ..Target::default() })?;
    let error = relay_at(store, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::LoginRefused, "{error}");
    let text = error.report();
    assert!(text.contains("password") && !text.contains("wrong-word"), "{text}");
    Ok(())
}

pub(crate) async fn a_running_relay_waits_until_a_changed_password_works_again<W: TestServer>() -> Result<()>
{
    let Some((server, sink, relay)) = delivering::<W>(Setup::Passwords, 5).await? else { return Ok(()) };
    server.change(Change::PasswordChanged).await?;
    server.act(Action::Kill).await;
    server.act(Action::Start).await;
    trouble_with(&relay, W::WRONG_PASSWORD).await;
    write(&server, 5).await?;
    server.change(Change::PasswordAsBefore).await?;
    sink.wait_for(10).await;
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_schema_of_another_name_is_named_in_the_error<W: TestServer>() -> Result<()> {
    let Some(server) = W::new(Setup::Plain).await? else { return Ok(()) };
    let store = server.store(Target { schema: Some(Ident::new("no_such_schema")?), ..Target::default() })?;
    let error = relay_at(store, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaMissing, "{error}");
    assert!(error.report().contains("no_such_schema"), "{error}");
    Ok(())
}

pub(crate) async fn the_right_that_a_user_lacks_for_settling_is_named<W: TestServer>() -> Result<()> {
    let Some((server, sink, relay)) = delivering::<W>(Setup::Plain, 5).await? else { return Ok(()) };
    settled(&server, 5).await;
    server.change(Change::SettlingDenied).await?;
    write(&server, 5).await?;
    let trouble = trouble(&relay).await;
    assert!(trouble.contains("denied") && trouble.contains("subscriptions"), "{trouble}");
    let store = server.connect(Target::default()).await?;
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::PrivilegeMissing);
    server.change(Change::SettlingAllowed).await?;
    recovered(&relay).await;
    sink.wait_for(10).await;
    shut_down_clean(&server, &sink, relay).await
}

pub(crate) async fn a_full_disk_loses_nothing_and_delivery_resumes_once_there_is_room<W: TestServer>()
-> Result<()> {
    let Some((server, sink, relay)) = delivering::<W>(Setup::SmallDisk, 10).await? else { return Ok(()) };
    let ballast = server.data().join("ballast");
    fill(&ballast);
    // Depending on which file runs out of space first, the server refuses the write or crashes.
    let noise: Vec<u8> = (0..2_000).flat_map(|_| uuid::Uuid::now_v7().into_bytes()).collect();
    let refused = loop {
        let large = Event::new("large", noise.clone()).with_key("key 0");
        if let Err(error) = server.commit(vec![large]).await {
            break error;
        }
    };
    assert!(matches!(refused.code(), Code::StoreReadOnly | Code::StoreFailed), "{refused}");
    std::fs::remove_file(&ballast).unwrap();
    server.act(Action::Kill).await;
    server.act(Action::Start).await;
    write(&server, 10).await?;
    let all = server.committed().await?.len();
    sink.wait_for(all).await;
    shut_down_clean(&server, &sink, relay).await
}

/// Writes until the disk is full.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
