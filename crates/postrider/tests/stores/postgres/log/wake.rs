//! Wake-ups: NOTIFY after the commit, LISTEN in the relay.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::Start;
use postrider::store::postgres::{PostgresNotifier, PostgresStore};
use postrider_testkit::eventually;
use postrider_testkit::servers::postgres;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

use super::case::{Case, case, failed};
use super::event_types_sink::EventTypesSink;

/// A connection that listens, and the payloads that it receives.
async fn listener(case: &Case) -> Result<(tokio_postgres::Client, mpsc::UnboundedReceiver<String>)> {
    let (client, mut connection) =
        tokio_postgres::connect(postgres::url().unwrap(), NoTls).await.map_err(failed)?;
    let (heard, hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                _ = heard.send(notification.payload().to_owned());
            }
        }
    });
    client.batch_execute(&case.sql("LISTEN {schema}")).await.map_err(failed)?;
    Ok((client, hears))
}

case! {
    async fn many_calls_become_one_notification_and_none_is_lost(case) {
        let (_client, mut hears) = listener(&case).await?;
        let notifier = PostgresNotifier::new(&case.config);
        for _ in 0..5 {
            // There is no await in between and the test has one thread: the calls are one burst.
            for _ in 0..10_000 {
                notifier.notify();
            }
            assert_eq!(hears.recv().await.as_deref(), Some(""));
        }
        // Notifications arrive in the order of their commits.
        case.run("NOTIFY {schema}, 'end'").await?;
        assert_eq!(hears.recv().await.as_deref(), Some("end"));
    }
}

case! {
    async fn a_notifier_whose_connection_was_cut_continues(case) {
        let (_client, mut hears) = listener(&case).await?;
        let notifier = PostgresNotifier::new(&case.config);
        for _ in 0..3 {
            notifier.notify();
            assert_eq!(hears.recv().await.as_deref(), Some(""));
            case.cut().await?;
        }
    }
}

case! {
    async fn a_notifier_without_a_database_does_not_disturb_its_caller(_case) {
        let nowhere = postrider::store::postgres::PostgresConfig::new("postgres://127.0.0.1:1/postgres")?;
        let notifier = PostgresNotifier::new(&nowhere);
        for _ in 0..1_000 {
            notifier.notify();
            tokio::task::yield_now().await;
        }
    }
}

/// A relay that polls once and then not for an hour, unless it is woken.
async fn sleeper(case: &Case, sink: &EventTypesSink) -> Result<Relay> {
    let hour = Duration::from_secs(60 * 60);
    let policy = Policy::default().poll_min(hour).poll_max(hour);
    let store = Arc::new(PostgresStore::connect(&case.config.clone().listen(true)).await?);
    let subscription = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
    Relay::builder().outbox(store, [subscription]).spawn().await
}

/// The process that listens, once it is another one than `before`.
async fn listening(case: &Case, before: i32) -> Result<i32> {
    let sql = format!(
        "SELECT coalesce(max(pid), 0) FROM pg_stat_activity
         WHERE application_name = '{{schema}}' AND query LIKE 'LISTEN%' AND pid <> {before}"
    );
    eventually("a new process listens", async || {
        let pid = case.one::<i32>(&sql).await?;
        Ok((pid != 0).then_some(pid))
    })
    .await
}

/// The poll at the start and the one after a connection explain one event each; only a wake-up explains the others.
async fn notified_events_arrive(case: &Case, sink: &EventTypesSink, word: &str) -> Result<()> {
    let notifier = PostgresNotifier::new(&case.config);
    for number in 0..4 {
        let event = format!("{word}.{number}");
        case.committed(&event).await?;
        notifier.notify();
        sink.wait_for(&event).await;
    }
    Ok(())
}

case! {
    async fn a_notification_wakes_an_idle_relay_even_after_its_connection_was_cut(case) {
        let sink = EventTypesSink::new();
        let relay = sleeper(&case, &sink).await?;
        let first = listening(&case, 0).await?;
        notified_events_arrive(&case, &sink, "heard").await?;

        // Written without a wake-up: the poll after the new connection finds it.
        case.committed("unheard").await?;
        case.one::<bool>(&format!("SELECT pg_terminate_backend({first}, 10000)")).await?;
        sink.wait_for("unheard").await;
        listening(&case, first).await?;
        notified_events_arrive(&case, &sink, "healed").await?;
        relay.shutdown().await?;
    }
}
