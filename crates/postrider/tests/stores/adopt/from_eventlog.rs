//! Out of layout `eventlog`: what is open for one handler moves into the layout `postrider`.

use std::sync::Arc;

use postrider::adopt::{AdoptSource, AdoptionRun};
use postrider::layout::{RegisteredHandler, RowLayout};
use postrider::store::{Budget, Claimed, Start};
use postrider::{Code, Event, Result};

use crate::adopt::refused::{acquired, refusal};
use crate::adopt::server::{MariaDb, MySql, Postgres};
use crate::adopt::stage::*;
use crate::adopt::stopped::{OF_ROWS, is_dropped_anywhere, run_out};

/// The other handler of the same events.
const OTHER: &str = "stock";

/// Registers both handlers.
async fn register(stage: &impl Stage) -> Result<()> {
    let store = stage.rows().await?;
    for name in [NAME, OTHER] {
        let notifications = store.notifications().expect("the layout has notifications");
        notifications.register(&RegisteredHandler::new(name), Start::Beginning).await?;
    }
    store.close().await;
    Ok(())
}

/// The source of a handler's events.
async fn handler(stage: &impl Stage) -> Result<Arc<dyn AdoptSource>> {
    Ok(stage.rows().await?.of_subscription(NAME).await?.expect("each handler is a source"))
}

/// Notifications of a handler in a state.
async fn in_state(stage: &impl Stage, handler: &str, state: &str) -> Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM {{notifications}} WHERE handler_name = '{handler}' AND state = '{state}'"
    );
    stage.one(&sql).await
}

async fn what_is_open_for_a_handler_moves_in_order_and_arrives_once(stage: &impl Stage) -> Result<()> {
    register(stage).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..2)).await?;
    handler(stage).await?.fan_out_waiting().await?;
    let handled = "UPDATE {notifications} SET state = 'SUCCEEDED' WHERE handler_name = 'mail'";
    stage.run(handled).await?;
    // Fanned out and open, and still waiting for the fan-out.
    write_each(stage, &stage.to_rows(), events(stage.layout(), 2..4)).await?;
    handler(stage).await?.fan_out_waiting().await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 4..8)).await?;

    let (counts, adopted) = adopt(&*handler(stage).await?, stage.to_log(), all()).await?;
    assert_eq!((counts.pending, counts.delivered, counts.undelivered()), (30, 10, 30), "{counts}");
    assert!(counts.oldest.is_some() && counts.oldest < counts.newest, "{counts:?}");
    assert_eq!((adopted.copied, adopted.delivered_elsewhere), (30, 0));
    assert_eq!((adopted.counts.undelivered(), adopted.counts.delivered), (0, 40));
    assert_eq!((in_state(stage, NAME, "SUCCEEDED").await?, in_log(stage).await?), (40, 30));
    assert_eq!(in_state(stage, OTHER, "PENDING").await?, 40, "the other handler keeps its notifications");
    in_order(&delivered(stage.log().await?, 30).await?, 2..8);
    Ok(())
}

async fn ids_namespaces_actions_and_dates_are_kept(stage: &impl Stage) -> Result<()> {
    register(stage).await?;
    let written = events(stage.layout(), 0..1);
    stage.write(&stage.to_rows(), written.clone()).await?;
    stage.run("UPDATE {log} SET event_date = '2020-01-02 03:04:05.000006'").await?;
    adopt(&*handler(stage).await?, stage.to_log(), all()).await?;
    let log = stage.log().await?;
    log.subscribe(NAME, Start::Beginning).await?;
    let loaded = acquired(&*log, "test").await?;
    let claimed = log.claimer_of(NAME, &loaded).claim(Budget::new(100, 1_000_000)).await?;
    let Claimed::Page(page) = claimed else { panic!("{claimed:?}") };
    assert_eq!(page.events.len(), written.len());
    for found in &page.events {
        let event = written.iter().find(|event| event.id == found.event.id).expect("its id is kept");
        let kept = |event: &Event| (event.namespace.clone(), event.action.clone(), event.aggregate.clone());
        assert_eq!(kept(event), kept(&found.event));
        assert_eq!(found.event.time.to_string(), "2020-01-02T03:04:05.000006Z");
        // It may be handled for as long as in the table that it came from.
        assert!(found.event.expires_at > Some(found.event.time));
    }
    Ok(())
}

async fn failed_notifications_move_and_expired_ones_stay(stage: &impl Stage) -> Result<()> {
    register(stage).await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 0..3)).await?;
    handler(stage).await?.fan_out_waiting().await?;
    let of_key = |key: usize| format!("handler_name = 'mail' AND model_id = 'key{key}'");
    // One fails and is due in the future; the row of another is given up.
    for (key, assignment) in [
        (1, "state = 'FAILED', attempts = 2, next_retry_at = '2999-01-01 00:00:00'"),
        (2, "state = 'EXPIRED', attempts = 9"),
    ] {
        stage.run(&format!("UPDATE {{notifications}} SET {assignment} WHERE {}", of_key(key))).await?;
    }
    let (counts, adopted) = adopt(&*handler(stage).await?, stage.to_log(), all()).await?;
    assert_eq!((counts.retrying, counts.given_up, counts.pending), (3, 3, 9), "{counts}");
    assert_eq!((adopted.copied, adopted.counts.undelivered()), (12, 0));
    assert_eq!(in_state(stage, NAME, "EXPIRED").await?, 3);
    let limited = "SELECT count(*) FROM {events} WHERE max_attempts IS NOT NULL";
    assert_eq!(stage.one(limited).await?, 0, "handlers have no limit of attempts");
    let sink = delivered(stage.log().await?, 12).await?;
    assert_eq!((sink.of_key("key1"), sink.of_key("key2")), (vec![0, 1, 2], vec![]));
    Ok(())
}

async fn events_that_another_program_fanned_out_without_the_handler_move_too(
    stage: &impl Stage,
) -> Result<()> {
    register(stage).await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 0..2)).await?;
    stage.run("UPDATE {log} SET delivered = TRUE WHERE model_id = 'key1'").await?;
    let (_, adopted) = adopt(&*handler(stage).await?, stage.to_log(), all()).await?;
    assert_eq!(adopted.copied, 10);
    in_order(&delivered(stage.log().await?, 10).await?, 0..2);
    Ok(())
}

async fn events_that_are_written_meanwhile_move_too(stage: &impl Stage) -> Result<()> {
    register(stage).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..3)).await?;
    let source = handler(stage).await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    assert_eq!(copying.next_batch().await?, Some(7));
    write_each(stage, &stage.to_rows(), events(stage.layout(), 3..4)).await?;
    while copying.next_batch().await?.is_some() {}
    assert_eq!(copying.finish().await?.copied, 20);
    in_order(&delivered(stage.log().await?, 20).await?, 0..4);
    Ok(())
}

async fn an_adoption_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice(
    stage: &impl Stage,
) -> Result<()> {
    register(stage).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..16)).await?;
    is_dropped_anywhere(stage, OF_ROWS, stage.to_log(), async || handler(stage).await).await?;
    assert_eq!((in_state(stage, NAME, "SUCCEEDED").await?, in_log(stage).await?), (80, 80));
    in_order(&delivered(stage.log().await?, 80).await?, 0..16);
    Ok(())
}

async fn a_handler_that_is_unknown_renamed_or_served_is_refused(stage: &impl Stage) -> Result<()> {
    let source = stage.rows().await?;
    let unknown = async |name: &str| source.of_subscription(name).await.err().expect("it is refused");
    let error = unknown(NAME).await;
    assert_eq!(error.code(), Code::SubscriptionUnknown, "{error}");
    register(stage).await?;
    let error = unknown("mial").await;
    assert!(error.report().contains("registered are: mail, stock"), "{}", error.report());

    let mut renamed = RegisteredHandler::new("post");
    renamed.aliases = vec![OTHER.to_owned()];
    source.notifications().expect("notifications").register(&renamed, Start::Beginning).await?;
    let error = unknown(OTHER).await;
    assert!(error.report().contains("it was renamed: pass --subscription post"), "{}", error.report());

    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let handler = handler(stage).await?;
    let counts = handler.counts(NAME).await?;
    let _other = AdoptionRun::begin(&*handler, stage.to_log(), all(), &counts).await?;
    let error = refusal(&*handler, stage.to_log(), all()).await;
    assert_eq!(error.code(), Code::LeaseHeld, "{error}");
    run_out(stage, OF_ROWS).await?;
    let error = refusal(&*handler, stage.to_rows(), all()).await;
    assert_eq!(error.code(), Code::AdoptionRefused, "{error}");
    assert_eq!(in_log(stage).await?, 0);
    Ok(())
}

async fn a_notification_that_the_table_refuses_ends_the_adoption(stage: &impl Stage) -> Result<()> {
    register(stage).await?;
    stage.run("ALTER TABLE {notifications} ADD CONSTRAINT no_threes CHECK (model_id <> 'key3')").await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let error = refusal(&*handler(stage).await?, stage.to_log(), all()).await;
    assert_eq!(error.code(), Code::RowRefused, "{error}");
    assert_eq!(in_log(stage).await?, 0);
    Ok(())
}

macro_rules! on_each_server {
    ($($case:ident,)+) => { $(
        mod $case {
            use super::*;

            #[tokio::test]
            async fn on_postgres() -> Result<()> {
                on::<Postgres>().await
            }

            #[tokio::test]
            async fn on_mysql() -> Result<()> {
                on::<MySql>().await
            }

            #[tokio::test]
            async fn on_mariadb() -> Result<()> {
                on::<MariaDb>().await
            }

            async fn on<S: Stage>() -> Result<()> {
                match S::new(RowLayout::Eventlog).await? {
                    Some(stage) => super::$case(&stage).await,
                    None => Ok(()),
                }
            }
        }
    )+ };
}

on_each_server! {
    what_is_open_for_a_handler_moves_in_order_and_arrives_once,
    ids_namespaces_actions_and_dates_are_kept,
    failed_notifications_move_and_expired_ones_stay,
    events_that_another_program_fanned_out_without_the_handler_move_too,
    events_that_are_written_meanwhile_move_too,
    an_adoption_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice,
    a_handler_that_is_unknown_renamed_or_served_is_refused,
    a_notification_that_the_table_refuses_ends_the_adoption,
}
