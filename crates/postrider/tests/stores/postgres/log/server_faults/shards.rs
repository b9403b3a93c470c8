//! One relay, two servers, one of which fails: the other one is served as if nothing had happened.

use std::time::Duration;

use postrider::Code;
use postrider::relay::{OutboxOptions, Relay, RelayHandle, SubscriptionStatus};
use postrider_testkit::eventually;
use postrider_testkit::proxy::{Fault, Proxy};

use super::*;
use crate::server_faults::{Action, TestServer, blocking, shut_down_clean, subscription, verdict, write};

/// Two servers; the second one is reached through the proxy.
struct Two {
    healthy: PostgresServer,
    failing: PostgresServer,
    proxy: Proxy,
    healthy_sink: Recorder,
    failing_sink: Recorder,
}

impl Two {
    async fn new() -> Result<Option<Self>> {
        let (Some(healthy), Some(failing)) =
            (PostgresServer::new(Setup::Plain).await?, PostgresServer::new(Setup::Plain).await?)
        else {
            return Ok(None);
        };
        let proxy = Proxy::to(failing.port()).await.unwrap();
        let (healthy_sink, failing_sink) = (Recorder::new(), Recorder::new());
        Ok(Some(Self { healthy, failing, proxy, healthy_sink, failing_sink }))
    }

    /// The failing one is the first that a relay opens.
    async fn relay(&self) -> Result<Relay> {
        let builder = Relay::builder().outbox_with(
            self.failing_store()?,
            [subscription(&self.failing_sink)],
            named("failing"),
        );
        let healthy = self.healthy.store(Target::default())?;
        builder.outbox_with(healthy, [subscription(&self.healthy_sink)], named("healthy")).spawn().await
    }

    fn failing_store(&self) -> Result<Arc<dyn Store>> {
        let answer_within = Some(Duration::from_secs(2));
        self.failing.store(Target { port: Some(self.proxy.port()), answer_within, ..Target::default() })
    }

    /// New events of the healthy one arrive; those of the failing one do not, and its status contains the reason.
    async fn healthy_alone_delivers(&self, relay: &RelayHandle) -> Result<()> {
        let (before, other) = (self.healthy_sink.delivered().len(), self.failing_sink.delivered().len());
        write(&self.healthy, 10).await?;
        self.healthy_sink.wait_for(before + 10).await;
        eventually("the failing one has an error", async || status(relay, "failing").error.is_some()).await;
        assert_eq!(status(relay, "healthy").error, None);
        assert_eq!(self.failing_sink.delivered().len(), other);
        Ok(())
    }
}

fn named(name: &str) -> OutboxOptions {
    OutboxOptions::default().name(name)
}

fn status(relay: &RelayHandle, outbox: &str) -> SubscriptionStatus {
    relay.status().into_iter().find(|of| of.outbox.as_deref() == Some(outbox)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_delays_only_its_own_outbox_and_drains_when_it_is_back() -> Result<()> {
    let Some(two) = Two::new().await? else { return Ok(()) };
    write(&two.failing, 10).await?;
    two.failing.act(Action::Stop).await;
    // At the start.
    let relay = two.relay().await?;
    two.healthy_alone_delivers(&relay.handle()).await?;
    two.failing.act(Action::Start).await;
    two.failing_sink.wait_for(10).await;
    // While it runs.
    two.failing.act(Action::Kill).await;
    two.healthy_alone_delivers(&relay.handle()).await?;
    two.failing.act(Action::Start).await;
    write(&two.failing, 10).await?;
    two.failing_sink.wait_for(20).await;
    assert!(verdict(&two.failing, &two.failing_sink).await?.is_clean());
    shut_down_clean(&two.healthy, &two.healthy_sink, relay).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_delays_only_its_own_outbox() -> Result<()> {
    let Some(two) = Two::new().await? else { return Ok(()) };
    write(&two.failing, 10).await?;
    two.proxy.set(Fault::Blackhole);
    let relay = two.relay().await?;
    two.healthy_alone_delivers(&relay.handle()).await?;
    two.proxy.set(Fault::None);
    two.proxy.cut();
    two.failing_sink.wait_for(10).await;
    // While it runs: the connections stay open, and no data passes.
    two.proxy.set(Fault::Blackhole);
    two.healthy_alone_delivers(&relay.handle()).await?;
    // A relay can stop while one of its databases does not answer.
    shut_down_clean(&two.healthy, &two.healthy_sink, relay).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_added_while_the_relay_runs_even_if_its_server_is_down() -> Result<()> {
    let Some(two) = Two::new().await? else { return Ok(()) };
    write(&two.failing, 10).await?;
    let healthy = two.healthy.store(Target::default())?;
    let relay = Relay::builder()
        .outbox_with(healthy, [subscription(&two.healthy_sink)], named("healthy"))
        .spawn()
        .await?;
    let handle = relay.handle();
    let epoch = leading(&handle, "healthy").await;
    let add = async |sink: &Recorder, name: &str| {
        handle.add_outbox(two.failing_store()?, [subscription(sink)], named(name)).await
    };
    // Wrong settings are refused, and change nothing.
    let twice = add(&two.failing_sink, "healthy").await.unwrap_err();
    assert_eq!(twice.code(), Code::SubscriptionTwice, "{twice}");
    let mails = [subscription(&two.failing_sink), subscription(&two.failing_sink)];
    let twice = handle.add_outbox(two.failing_store()?, mails, named("failing")).await.unwrap_err();
    assert_eq!(twice.code(), Code::SubscriptionTwice, "{twice}");
    assert_eq!(handle.status().len(), 1);

    two.failing.act(Action::Stop).await;
    add(&two.failing_sink, "failing").await?;
    two.healthy_alone_delivers(&handle).await?;
    two.failing.act(Action::Start).await;
    two.failing_sink.wait_for(10).await;
    assert_eq!(leading(&handle, "healthy").await, epoch, "the first one kept its lease");

    shut_down_clean(&two.healthy, &two.healthy_sink, relay).await?;
    assert!(verdict(&two.failing, &two.failing_sink).await?.is_clean());
    let late = add(&two.failing_sink, "late").await.unwrap_err();
    assert_eq!(late.code(), Code::RelayStopped, "{late}");
    Ok(())
}

/// Waits until the relay leads, and returns the epoch.
async fn leading(relay: &RelayHandle, outbox: &str) -> Option<postrider::store::Epoch> {
    eventually("the relay leads", async || status(relay, outbox).state.leading.is_some()).await;
    status(relay, outbox).state.leading
}

/// A relay whose first outbox is up meets an outbox that no waiting can mend, after the start and before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_without_tables_is_refused_at_the_start_and_waits_for_its_migration_later() -> Result<()> {
    let Some(two) = Two::new().await? else { return Ok(()) };
    let dropped = "ALTER SCHEMA postrider RENAME TO hidden";
    two.failing.run(dropped).await?;
    let refused = two.relay().await.unwrap_err();
    assert_eq!(refused.code(), Code::SchemaMissing, "{refused}");

    // It answers after the start is over.
    blocking(&two.failing.server, Server::pause).await;
    let relay = two.relay().await?;
    blocking(&two.failing.server, Server::resume).await;
    let missing = async || status(&relay.handle(), "failing").error_code == Some(Code::SchemaMissing);
    eventually("the status says that the tables are missing", missing).await;
    two.healthy_alone_delivers(&relay.handle()).await?;
    two.failing.run("ALTER SCHEMA hidden RENAME TO postrider").await?;
    write(&two.failing, 10).await?;
    two.failing_sink.wait_for(10).await;
    shut_down_clean(&two.healthy, &two.healthy_sink, relay).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_reaches_every_server_that_is_up_and_names_those_that_are_down() -> Result<()> {
    let Some(two) = Two::new().await? else { return Ok(()) };
    let relay = two.relay().await?;
    let handle = relay.handle();
    let name = status(&handle, "healthy").subscription;
    two.failing.act(Action::Stop).await;
    let paused = async || -> Result<Option<String>> {
        let overview = two.healthy.store(Target::default())?.overview(0).await?;
        Ok(overview.subscriptions[0].paused.clone())
    };
    let failed = handle.pause(&name, "maintenance").await.unwrap_err();
    assert!(failed.message().starts_with("1 of 2 subscriptions could not be paused: failing/"), "{failed}");
    assert_eq!(failed.effect(), format!("these subscriptions are paused: healthy/{name}"));
    assert_eq!(paused().await?.as_deref(), Some("maintenance"));
    handle.resume_all().await.unwrap_err();
    assert_eq!(paused().await?, None);
    two.failing.act(Action::Start).await;
    write(&two.failing, 1).await?;
    two.failing_sink.wait_for(1).await;
    handle.pause(&name, "maintenance").await?;
    handle.resume(&name).await?;
    write(&two.healthy, 1).await?;
    two.healthy_sink.wait_for(1).await;
    shut_down_clean(&two.healthy, &two.healthy_sink, relay).await
}
