//! How notifications are handled: retries, two versions of a program, aliases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::handler::HandlerError;
use postrider::route::{Router, Rule, Unrouted};
use postrider::{Result, Subscription};

use super::calls::{Calls, fails};
use super::{EventlogDatabase, cases, fast_policy};
use crate::row_database::RowDatabase;

cases! {
    a_failure_is_retried_after_thirty_seconds_doubled_up_to_five_minutes,
    a_failed_event_delays_only_its_model_and_its_handler,
    an_answer_decides_what_happens_to_a_notification,
    a_notification_that_an_operator_sets_to_pending_is_handled_again,
    a_notification_without_a_route_is_handled_once_there_is_one,
    a_type_that_this_version_does_not_know_waits_for_the_other_version,
    a_failed_notification_of_a_type_that_this_version_does_not_know_waits_too,
    a_pattern_of_this_version_does_not_take_other_types,
    notifications_under_an_earlier_name_are_handled,
    a_process_that_still_uses_an_earlier_name_gets_no_new_events,
    an_earlier_name_can_be_used_again_once_an_operator_removes_it,
    a_name_that_cannot_be_distinguished_is_refused,
}

async fn a_failure_is_retried_after_thirty_seconds_doubled_up_to_five_minutes<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    for (failed_before, seconds) in [(0, 30), (1, 60), (2, 120), (3, 240), (4, 300), (5, 300)] {
        let calls = Calls::default();
        let id = log.write("OrderPlaced", &format!("{failed_before}"), 1).await?;
        let relay = log.relay([calls.answering("mail", &["OrderPlaced"], |_, _| fails("no"))]).await?;
        log.wait_for(&format!("SELECT state FROM event_notifications WHERE event_id = '{id}'"), "FAILED")
            .await?;
        relay.shutdown().await?;
        let again = format!(
            "UPDATE event_notifications SET attempts = {failed_before}, next_retry_at = created_date, state = 'FAILED'
             WHERE event_id = '{id}'"
        );
        log.run(&again).await?;
        let relay = log.relay([calls.answering("mail", &["OrderPlaced"], |_, _| fails("no"))]).await?;
        let attempts = format!("SELECT attempts FROM event_notifications WHERE event_id = '{id}'");
        log.wait_for(&attempts, &format!("{}", failed_before + 1)).await?;
        relay.shutdown().await?;
        let found: f64 = log
            .one(&format!("SELECT {} FROM event_notifications WHERE event_id = '{id}'", waits::<D>()))
            .await?
            .parse()
            .unwrap();
        assert!((f64::from(seconds) - 3.0..=f64::from(seconds)).contains(&found), "{found} s, not {seconds}");
    }
    Ok(())
}

/// The seconds between the last change and the next attempt.
fn waits<D: RowDatabase>() -> &'static str {
    match D::NOW {
        "now()" => "extract(epoch FROM next_retry_at - updated_date)",
        _ => "TIMESTAMPDIFF(MICROSECOND, updated_date, next_retry_at) / 1000000",
    }
}

async fn a_failed_event_delays_only_its_model_and_its_handler<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    for number in 0..6 {
        log.write("OrderPlaced", &format!("{}", number % 2), number).await?;
    }
    let bad = |event: &postrider::Event, _: &_| match event.aggregate.as_ref().unwrap().id.as_str() {
        "0" => fails("not today"),
        _ => Ok(()),
    };
    let relay = log
        .relay([calls.answering("mail", &["OrderPlaced"], bad), calls.handler("stock", &["OrderPlaced"])])
        .await?;
    log.wait_until_handled(9).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state = 'FAILED'", "1").await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail").iter().filter(|call| call.starts_with("OrderPlaced 0")).count(), 1);
    // The next owner lets nothing overtake the failed one either.
    let relay = log.relay([calls.answering("mail", &["OrderPlaced"], bad)]).await?;
    log.write("OrderPlaced", "1", 7).await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE state = 'SUCCEEDED' AND handler_name = 'mail'",
        "4",
    )
    .await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail").iter().filter(|call| call.starts_with("OrderPlaced 0")).count(), 1);
    // Time passes: the failed one succeeds, and the later ones follow.
    log.run("UPDATE event_notifications SET next_retry_at = created_date WHERE state = 'FAILED'").await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE state = 'SUCCEEDED' AND handler_name = 'mail'",
        "7",
    )
    .await?;
    relay.shutdown().await?;
    let of_model: Vec<String> =
        calls.of("mail").into_iter().filter(|call| call.starts_with("OrderPlaced 0")).collect();
    assert_eq!(of_model, ["OrderPlaced 0 0", "OrderPlaced 0 0", "OrderPlaced 0 2", "OrderPlaced 0 4"]);
    Ok(())
}

async fn an_answer_decides_what_happens_to_a_notification<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    for (model, number) in [("dead", 1), ("skip", 2), ("later", 3)] {
        log.write("OrderPlaced", model, number).await?;
    }
    let answers = |event: &postrider::Event, _: &_| match event.aggregate.as_ref().unwrap().id.as_str() {
        "dead" => Err(HandlerError::dead("never")),
        "skip" => Err(HandlerError::skip("not for us")),
        _ => Err(HandlerError::retry_after(Duration::from_secs(200), "busy")),
    };
    let relay = log.relay([calls.answering("mail", &["OrderPlaced"], answers)]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state <> 'PENDING'", "3").await?;
    relay.shutdown().await?;
    assert_eq!(
        log.rows("SELECT model_id, state, attempts FROM event_notifications ORDER BY event_date, event_id")
            .await?,
        ["dead EXPIRED 1", "skip SUCCEEDED 0", "later FAILED 1"]
    );
    let found: f64 = log
        .one(&format!("SELECT {} FROM event_notifications WHERE state = 'FAILED'", waits::<D>()))
        .await?
        .parse()
        .unwrap();
    assert!((195.0..=200.0).contains(&found), "{found} s");
    assert_eq!(calls.all().len(), 3);
    Ok(())
}

async fn a_notification_that_an_operator_sets_to_pending_is_handled_again<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let (calls, accepts) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    for (number, model) in ["restarted", "running"].into_iter().enumerate() {
        log.write("OrderPlaced", model, number).await?;
    }
    let handler = || {
        let accepts = accepts.clone();
        calls
            .answering("mail", &["OrderPlaced"], move |_, _| match accepts.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(HandlerError::dead("not yet")),
            })
            .policy(fast_policy())
    };
    let relay = log.relay([handler()]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state = 'EXPIRED'", "2").await?;
    relay.shutdown().await?;
    accepts.store(true, Ordering::SeqCst);
    let set_back =
        |model: &str| format!("UPDATE event_notifications SET state = 'PENDING' WHERE model_id = '{model}'");
    // Before a relay starts, and while it runs.
    log.run(&set_back("restarted")).await?;
    let relay = log.relay([handler()]).await?;
    log.wait_until_handled(1).await?;
    log.run(&set_back("running")).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(calls.all().len(), 4, "each was called twice");
    assert_eq!(log.one("SELECT count(*) FROM {ledger}.row_notes").await?, "0");
    Ok(())
}

async fn a_notification_without_a_route_is_handled_once_there_is_one<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    log.write("OrderPlaced", "1", 1).await?;
    let rules = |types: &'static str| {
        let router = Router::to("mail").first_match([Rule::new().types([types])])?;
        let router = router.unrouted(Unrouted::Park);
        Ok::<_, postrider::Error>(calls.handler("mail", &["*"]).router(router).policy(fast_policy()))
    };
    let relay = log.relay([rules("OrderShipped")?]).await?;
    log.wait_for("SELECT count(*) FROM {ledger}.row_notes WHERE state = 'unrouted'", "1").await?;
    relay.shutdown().await?;
    assert_eq!(calls.all(), Vec::<String>::new());
    let relay = log.relay([rules("Order*")?]).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    assert_eq!(calls.all(), ["mail OrderPlaced 1 1"]);
    assert_eq!(log.one("SELECT count(*) FROM {ledger}.row_notes").await?, "0");
    Ok(())
}

/// Writes an event of another type and an `OrderPlaced`, and runs the handler until one is handled. The other one waits.
async fn handles_only_orders<D: RowDatabase>(
    log: &EventlogDatabase<D>,
    handler: Subscription,
    other: &str,
) -> Result<()> {
    let relay = log.relay([handler]).await?;
    log.write(other, "1", 1).await?;
    log.write("OrderPlaced", "1", 2).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    let waiting = log.rows("SELECT event_type FROM event_notifications WHERE state = 'PENDING'").await?;
    assert_eq!(waiting, [other]);
    Ok(())
}

async fn a_type_that_this_version_does_not_know_waits_for_the_other_version<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let (old, new) = (Calls::default(), Calls::default());
    let relay = log.relay([new.handler("mail", &["OrderPlaced", "OrderShipped"])]).await?;
    relay.shutdown().await?;
    // The old version leads: it fans out for the registry, and handles what it knows.
    handles_only_orders(&log, old.handler("mail", &["OrderPlaced"]), "OrderShipped").await?;
    assert_eq!(old.all(), ["mail OrderPlaced 1 2"]);
    let relay = log.relay([new.handler("mail", &["OrderPlaced", "OrderShipped"])]).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(new.all(), ["mail OrderShipped 1 1"]);
    Ok(())
}

async fn a_failed_notification_of_a_type_that_this_version_does_not_know_waits_too<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let (old, new) = (Calls::default(), Calls::default());
    let relay =
        log.relay([new.answering("mail", &["OrderPlaced", "OrderShipped"], |_, _| fails("no"))]).await?;
    log.write("OrderShipped", "1", 1).await?;
    log.wait_for("SELECT state FROM event_notifications", "FAILED").await?;
    relay.shutdown().await?;
    log.run("UPDATE event_notifications SET next_retry_at = created_date").await?;
    let relay = log.relay([old.handler("mail", &["OrderPlaced"])]).await?;
    log.write("OrderPlaced", "1", 2).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    assert_eq!(old.all(), ["mail OrderPlaced 1 2"]);
    let relay = log.relay([new.handler("mail", &["OrderPlaced", "OrderShipped"])]).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(new.of("mail"), ["OrderShipped 1 1", "OrderShipped 1 1"]);
    Ok(())
}

async fn a_pattern_of_this_version_does_not_take_other_types<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let (old, new) = (Calls::default(), Calls::default());
    let relay = log.relay([new.handler("mail", &["Order*", "Stock_Moved"])]).await?;
    relay.shutdown().await?;
    handles_only_orders(&log, old.handler("mail", &["Order*"]), "Stock_Moved").await?;
    assert_eq!(old.all(), ["mail OrderPlaced 1 2"]);
    Ok(())
}

async fn a_process_that_still_uses_an_earlier_name_gets_no_new_events<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let new = log.relay([calls.handler("letters", &["OrderPlaced"]).alias("mail")]).await?;
    let old = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.write("OrderPlaced", "1", 1).await?;
    log.wait_until_handled(1).await?;
    new.shutdown().await?;
    old.shutdown().await?;
    assert_eq!(calls.all(), ["letters OrderPlaced 1 1"]);
    Ok(())
}

async fn an_earlier_name_can_be_used_again_once_an_operator_removes_it<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"]).alias("mail-v1")]).await?;
    relay.shutdown().await?;
    // The handler no longer declares the name, and it is still reserved.
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    relay.shutdown().await?;
    let types = "SELECT count(*) FROM {ledger}.handler_types WHERE handler = 'mail-v1'";
    let relay = log.relay([calls.handler("mail-v1", &["OrderPlaced"])]).await?;
    relay.shutdown().await?;
    assert_eq!(log.one(types).await?, "0");
    log.run("DELETE FROM {ledger}.handler_aliases WHERE alias = 'mail-v1'").await?;
    let relay = log
        .relay([calls.handler("mail", &["OrderPlaced"]), calls.handler("mail-v1", &["OrderPlaced"])])
        .await?;
    assert_eq!(log.one(types).await?, "1");
    log.write("OrderPlaced", "1", 1).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(
        (calls.of("mail"), calls.of("mail-v1")),
        (vec!["OrderPlaced 1 1".into()], vec!["OrderPlaced 1 1".into()])
    );
    Ok(())
}

async fn a_name_that_cannot_be_distinguished_is_refused<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    relay.shutdown().await?;
    let refused = log.relay([calls.handler("Mail", &["OrderPlaced"])]).await.unwrap_err();
    assert_eq!(refused.code(), postrider::Code::HandlerInvalid);
    let refused = log.relay([calls.handler("post", &["OrderPlaced"]).alias("post")]).await.unwrap_err();
    assert_eq!(refused.code(), postrider::Code::HandlerInvalid);
    assert_eq!(log.rows("SELECT handler FROM {ledger}.handler_types").await?, ["mail"]);
    Ok(())
}

async fn notifications_under_an_earlier_name_are_handled<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    log.write("OrderPlaced", "1", 1).await?;
    let failing = calls
        .answering("mail", &["OrderPlaced"], |_, _| fails("no"))
        .policy(fast_policy().backoff_min(Duration::from_secs(30)).backoff_max(Duration::from_secs(30)));
    let relay = log.relay([failing]).await?;
    log.wait_for("SELECT state FROM event_notifications", "FAILED").await?;
    relay.shutdown().await?;
    log.run("UPDATE event_notifications SET next_retry_at = created_date").await?;
    let relay = log.relay([calls.handler("letters", &["OrderPlaced"]).alias("mail")]).await?;
    log.write("OrderPlaced", "1", 2).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("letters"), ["OrderPlaced 1 1", "OrderPlaced 1 2"]);
    assert_eq!(
        log.rows("SELECT handler_name FROM event_notifications ORDER BY event_date").await?,
        ["mail", "letters"]
    );
    Ok(())
}
