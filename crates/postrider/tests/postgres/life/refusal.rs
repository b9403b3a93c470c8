//! The server is there and says no.

use super::*;
use postrider::Code;
use postrider_testkit::proxy::Proxy;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_without_a_free_connection_waits_for_one() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    world.run("CREATE ROLE relay LOGIN CONNECTION LIMIT 1 IN ROLE postrider_relay").await?;
    let config = PostgresConfig::new(&world.server.url_of("relay"))?;
    let sink = Recorder::new();
    // To create one takes a connection of its own; without it nothing would begin.
    PostgresStore::connect(&world.config()?).await?.subscribe("mail", Start::Beginning).await?;
    let relay = world.relay_at(&config, &sink).await?;
    world.write(10).await?;
    // It has one connection to settle on, and gets none to read from.
    let trouble = trouble(&relay).await;
    assert!(trouble.contains("too many connections"), "{trouble}");
    let error = PostgresStore::connect(&config).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreFailed);
    assert!(error.to_string().contains("CONNECTION LIMIT"), "{error}");
    world.run("ALTER ROLE relay CONNECTION LIMIT 10").await?;
    sink.wait_for(10).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    assert!(world.audit(&sink).await?.is_clean());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_full_of_others_is_waited_for_at_the_start_and_later() -> Result<()> {
    let options =
        Options::default().setting("max_connections=12").setting("superuser_reserved_connections=3");
    let Some(world) = World::new(options).await? else { return Ok(()) };
    world.run("CREATE ROLE others LOGIN").await?;
    let mut others = take_all_connections(&world).await;
    let refused = PostgresStore::connect(&world.config()?).await.unwrap_err();
    assert_eq!(refused.code(), Code::StoreFailed, "{refused}");
    let said = refused.to_string();
    assert!(said.contains("connection slots") && said.contains("max_connections"), "{said}");
    let proxy = Proxy::to(world.server.port()).await.map_err(failed)?;
    let url = format!("postgres://{RELAY}@127.0.0.1:{}/postgres", proxy.port());
    let (sink, store) = (Recorder::new(), Arc::new(PostgresStore::unconnected(&PostgresConfig::new(&url)?)));
    let starting = tokio::spawn(Relay::builder().outbox(store, [subscription(&sink)]).spawn());
    write(&world.client().await?, 10).await?;
    let tried = proxy.wait_for(|seen| seen.connections >= 3);
    tokio::time::timeout(LONG, tried).await.expect("it is tried again and again");
    assert!(!starting.is_finished(), "it waits");
    others.clear();
    let relay = starting.await.unwrap()?;
    sink.wait_for(10).await;
    at_ease(&relay).await;

    // Others take what is free, the relay's own are cut, and others take those too.
    others.extend(take_all_connections(&world).await);
    let cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'life_relay'";
    eventually("the relay has no connection", async || {
        world.run(cut).await.is_ok() && {
            others.extend(take_all_connections(&world).await);
            relay.status()[0].trouble.as_deref().is_some_and(|said| said.contains("connection slots"))
        }
    })
    .await;
    write(&world.client().await?, 10).await?;
    others.clear();
    sink.wait_for(20).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

/// Connects until the server has no connection left but for the superuser.
async fn take_all_connections(world: &World) -> Vec<Client> {
    let mut taken = Vec::new();
    while let Ok(client) = connect(&world.server.url_of("others")).await {
        taken.push(client);
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_waited_for_and_delivers_nothing_over_and_over() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay(&sink).await?;
    world.write(10).await?;
    sink.wait_for(10).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == 10)).await;
    world.run("ALTER SYSTEM SET default_transaction_read_only = on").await?;
    world.run("SELECT pg_reload_conf()").await?;
    let trouble = trouble(&relay).await;
    assert!(trouble.contains("read-only"), "{trouble}");
    let store = PostgresStore::connect(&world.config()?).await?;
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::StoreReadOnly);
    let back = world.client().await?;
    for change in [
        "SET default_transaction_read_only = off",
        "ALTER SYSTEM RESET default_transaction_read_only",
        "SELECT pg_reload_conf()",
    ] {
        back.batch_execute(change).await.map_err(failed)?;
    }
    at_ease(&relay).await;
    write(&back, 10).await?;
    sink.wait_for(20).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_the_wrong_password_is_told_so_at_once_and_not_the_password() -> Result<()> {
    let Some(world) = World::new(Options::default().asks_passwords()).await? else { return Ok(()) };
    world.run("CREATE ROLE relay LOGIN PASSWORD 'right'").await?;
    let config = PostgresConfig::new(&world.server.url_of("relay:wrong-secret"))?;
    let error = world.relay_at(&config, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::LoginRefused, "{error}");
    let text = error.to_string();
    assert!(text.contains("password") && !text.contains("wrong-secret"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_changed_under_a_running_relay_is_waited_out() -> Result<()> {
    let Some(world) = World::new(Options::default().asks_passwords()).await? else { return Ok(()) };
    world.run("CREATE ROLE relay LOGIN PASSWORD 'first' IN ROLE postrider_relay").await?;
    let config = PostgresConfig::new(&world.server.url_of("relay:first"))?;
    let sink = Recorder::new();
    let relay = world.relay_at(&config, &sink).await?;
    world.write(5).await?;
    sink.wait_for(5).await;
    world.run("ALTER ROLE relay PASSWORD 'second'").await?;
    world.server(Server::kill).await;
    world.server(Server::start).await;
    eventually("the relay is refused", async || {
        relay.status()[0]
            .trouble
            .as_deref()
            .is_some_and(|said| said.contains("password authentication failed"))
    })
    .await;
    world.write(5).await?;
    world.run("ALTER ROLE relay PASSWORD 'first'").await?;
    sink.wait_for(10).await;
    relay.shutdown().await?;
    assert!(world.audit(&sink).await?.is_clean());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_another_name_is_named_in_the_error() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    let config = world.config()?.schema(postrider::Ident::new("no_such_schema")?);
    let error = world.relay_at(&config, &Recorder::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaMissing, "{error}");
    assert!(error.to_string().contains("no_such_schema"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_settle_is_told_which_right_it_lacks() -> Result<()> {
    let Some(world) = World::new(Options::default()).await? else { return Ok(()) };
    world.run("CREATE ROLE relay LOGIN IN ROLE postrider_relay").await?;
    let config = PostgresConfig::new(&world.server.url_of("relay"))?;
    let sink = Recorder::new();
    let relay = world.relay_at(&config, &sink).await?;
    world.write(5).await?;
    sink.wait_for(5).await;
    eventually("all is settled", async || world.overview().await.is_ok_and(|o| o.floor.get() == 5)).await;
    world.run("REVOKE UPDATE ON postrider.subscriptions FROM postrider_relay").await?;
    world.write(5).await?;
    let trouble = trouble(&relay).await;
    assert!(trouble.contains("permission denied for table subscriptions"), "{trouble}");
    let store = PostgresStore::connect(&config).await?;
    assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::PrivilegeMissing);
    world.run("GRANT UPDATE ON postrider.subscriptions TO postrider_relay").await?;
    at_ease(&relay).await;
    sink.wait_for(10).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() -> Result<()> {
    let Some(world) = World::new(Options::default().small_disk()).await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = world.relay(&sink).await?;
    world.write(10).await?;
    sink.wait_for(10).await;
    let ballast = world.server.data().join("ballast");
    fill(&ballast);
    // Depending on which file finds no room first, the server refuses the write or goes down with it.
    let client = world.client().await?;
    let noise: Vec<u8> = (0..2_000).flat_map(|_| uuid::Uuid::now_v7().into_bytes()).collect();
    let refused = loop {
        let event = Event::new("large", noise.clone()).with_key("key 0");
        if let Err(error) = Outbox::anonymous().write(&client, event).await {
            break error;
        }
    };
    assert!(matches!(refused.code(), Code::StoreReadOnly | Code::StoreFailed), "{refused}");
    std::fs::remove_file(&ballast).unwrap();
    world.server(|server| server.kill().and_then(|()| server.start())).await;
    world.write(10).await?;
    let all = committed(&world.client().await?).await?.len();
    sink.wait_for(all).await;
    relay.shutdown().await?;
    let verdict = world.audit(&sink).await?;
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}

/// Writes until there is no room.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
