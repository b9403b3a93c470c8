//! Next to another program that fans out and handles on the same tables, as the documents describe it.

use std::time::Duration;

use postrider::Result;
use postrider::layout::RegisteredHandler;
use postrider::store::{MissedNotification, MissedSearch, Notifications, Start};

use super::calls::Calls;
use super::{EventlogDatabase, cases, utc};
use crate::row_database::RowDatabase;

cases! {
    events_that_another_program_fanned_out_reach_our_handlers,
    an_event_that_is_refused_does_not_hide_others_that_another_program_fanned_out,
    notifications_of_other_programs_are_not_touched,
    next_to_a_program_that_fans_out_and_handles_nothing_is_lost_and_nothing_expires,
    a_search_begins_only_if_the_last_one_is_old_by_the_clock_of_the_database,
    a_search_continues_behind_its_last_page,
    events_that_were_missed_under_an_earlier_name_are_found,
}

/// The other program's fan-out: one transaction that inserts notifications for its own handler, and marks the events.
async fn foreign_fan_out<D: RowDatabase>(log: &EventlogDatabase<D>, handler: &str) -> Result<()> {
    let now = utc::<D>();
    let uuid = if D::NOW == "now()" { "gen_random_uuid()" } else { "UUID()" };
    let sql = format!(
        "BEGIN;
         INSERT INTO event_notifications (id, event_id, handler_name, namespace, action_id, action_name, action_params,
             started_date, completion_date, model_id, model_type, event_type, payload, event_date, state, attempts,
             next_retry_at, created_date, updated_date)
         SELECT {uuid}, id, '{handler}', namespace, action_id, action_name, action_params, started_date,
                completion_date, model_id, model_type, event_type, payload, event_date, 'PENDING', 0, {now}, {now}, {now}
         FROM events AS e
         WHERE delivered = FALSE AND event_type = 'OrderPlaced'
           AND NOT EXISTS (SELECT 1 FROM event_notifications AS n
                           WHERE n.event_id = e.id AND n.handler_name = '{handler}');
         UPDATE events SET delivered = TRUE WHERE delivered = FALSE AND event_type = 'OrderPlaced';
         COMMIT"
    );
    again_after_deadlocks(log, &sql).await
}

async fn events_that_another_program_fanned_out_reach_our_handlers<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    for number in 0..40 {
        log.write("OrderPlaced", &format!("{}", number % 4), number).await?;
        if number % 3 == 0 {
            foreign_fan_out(&log, "theirs").await?;
        }
    }
    foreign_fan_out(&log, "theirs").await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE handler_name = 'mail' AND state = 'SUCCEEDED'",
        "40",
    )
    .await?;
    relay.shutdown().await?;
    let mut numbers: Vec<String> = calls.of("mail");
    numbers.sort();
    numbers.dedup();
    assert_eq!((numbers.len(), calls.of("mail").len()), (40, 40));
    Ok(())
}

async fn an_event_that_is_refused_does_not_hide_others_that_another_program_fanned_out<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    // Batches are smaller than the number of refused events.
    let log = EventlogDatabase(log.0.with_fan_out(super::fast_fan_out().events_max(3)));
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    relay.shutdown().await?;
    for number in 0..7 {
        log.write("OrderPlaced", "7", number).await?;
    }
    log.write("OrderPlaced", "8", 7).await?;
    foreign_fan_out(&log, "theirs").await?;
    log.run(
        "ALTER TABLE event_notifications
         ADD CONSTRAINT not_for_us CHECK (model_id <> '7' OR handler_name <> 'mail')",
    )
    .await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE handler_name = 'mail' AND state = 'SUCCEEDED'",
        "1",
    )
    .await?;
    relay.shutdown().await?;
    assert_eq!(calls.all(), ["mail OrderPlaced 8 7"]);
    // Once the table accepts them, they are found again.
    log.run("ALTER TABLE event_notifications DROP CONSTRAINT not_for_us").await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE handler_name = 'mail' AND state = 'SUCCEEDED'",
        "8",
    )
    .await?;
    relay.shutdown().await?;
    assert_eq!(calls.all().len(), 8);
    Ok(())
}

async fn notifications_of_other_programs_are_not_touched<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    for number in 0..5 {
        log.write_aged("OrderPlaced", &number.to_string(), number, "interval '30' day").await?;
    }
    foreign_fan_out(&log, "theirs").await?;
    log.run(
        "UPDATE event_notifications SET attempts = 3, created_date = event_date, next_retry_at = event_date,
                    state = 'FAILED', updated_date = event_date",
    )
    .await?;
    let before = log
        .rows("SELECT id, state, attempts, next_retry_at, updated_date FROM event_notifications ORDER BY id")
        .await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.write("OrderPlaced", "9", 9).await?;
    log.wait_for(
        "SELECT count(*) FROM event_notifications WHERE handler_name = 'mail' AND state = 'SUCCEEDED'",
        "1",
    )
    .await?;
    // A search for missed events that began after that has ended.
    log.run("UPDATE {ledger}.handler_types SET searched_at = NULL").await?;
    log.wait_for("SELECT count(*) FROM {ledger}.handler_types WHERE searched_at IS NULL", "0").await?;
    relay.shutdown().await?;
    let after = log.rows("SELECT id, state, attempts, next_retry_at, updated_date FROM event_notifications WHERE handler_name = 'theirs' ORDER BY id").await?;
    assert_eq!(before, after);
    // Events from before the registration, fanned out by the other program, are not ours.
    assert_eq!(calls.of("mail"), ["OrderPlaced 9 9"]);
    Ok(())
}

/// Runs a statement that may be the victim of a deadlock, as any program on these tables must.
async fn again_after_deadlocks<D: RowDatabase>(log: &EventlogDatabase<D>, sql: &str) -> Result<()> {
    for _ in 0..20 {
        if log.run(sql).await.is_ok() {
            return Ok(());
        }
    }
    log.run(sql).await
}

/// The other program's handling: the due notifications of its own handler, which expire seven days after the event.
async fn foreign_handling<D: RowDatabase>(log: &EventlogDatabase<D>, handler: &str) -> Result<()> {
    let now = utc::<D>();
    again_after_deadlocks(
        log,
        &format!(
            "UPDATE event_notifications
         SET state = CASE WHEN event_date < {now} - interval '7' day THEN 'EXPIRED' ELSE 'SUCCEEDED' END,
             attempts = attempts + 1, updated_date = {now}
         WHERE handler_name = '{handler}' AND state IN ('PENDING', 'FAILED') AND next_retry_at <= {now}"
        ),
    )
    .await
}

async fn next_to_a_program_that_fans_out_and_handles_nothing_is_lost_and_nothing_expires<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    const EVENTS: usize = 60;
    let calls = Calls::default();
    let handlers = || [calls.handler("mail", &["OrderPlaced"]), calls.handler("stock", &["Order*"])];
    let relay = log.relay(handlers()).await?;
    // A second relay does the same work.
    let other = log.relay(handlers()).await?;
    for number in 0..EVENTS {
        log.write("OrderPlaced", &format!("{}", number % 4), number).await?;
        match number % 3 {
            0 => foreign_fan_out(&log, "theirs").await?,
            1 => foreign_handling(&log, "theirs").await?,
            _ => {}
        }
    }
    for handler in ["mail", "stock"] {
        let handled = format!(
            "SELECT count(*) FROM event_notifications WHERE handler_name = '{handler}' AND state = 'SUCCEEDED'"
        );
        log.wait_for(&handled, &EVENTS.to_string()).await?;
    }
    foreign_handling(&log, "theirs").await?;
    relay.shutdown().await?;
    other.shutdown().await?;
    // What we fanned out is not theirs: their job does not see it. What they fanned out, they have handled.
    let theirs =
        "SELECT count(*) FROM event_notifications WHERE handler_name = 'theirs' AND state <> 'SUCCEEDED'";
    assert_eq!(log.one(theirs).await?, "0");
    assert_eq!(log.one("SELECT count(*) FROM event_notifications WHERE state = 'EXPIRED'").await?, "0");
    assert_eq!(log.one("SELECT count(*) FROM events WHERE NOT delivered").await?, "0");
    for handler in ["mail", "stock"] {
        let mut handled = calls.of(handler);
        assert_eq!(handled.len(), EVENTS, "{handler}");
        handled.sort();
        handled.dedup();
        assert_eq!(handled.len(), EVENTS, "{handler}");
    }
    Ok(())
}

const EVERY: Duration = Duration::from_secs(600);

/// The events that a search finds; `None` if no search is due.
async fn search(
    notifications: &dyn Notifications,
    after: Option<&MissedNotification>,
) -> Result<Option<Vec<MissedNotification>>> {
    Ok(match notifications.search_missed(EVERY, after).await? {
        MissedSearch::Page(page) => Some(page.missed),
        MissedSearch::NotDue(wait) => {
            assert!(!wait.is_zero() && wait <= EVERY, "{wait:?}");
            None
        }
        other => panic!("{other:?}"),
    })
}

async fn a_search_begins_only_if_the_last_one_is_old_by_the_clock_of_the_database<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    notifications.register(&RegisteredHandler::new("mail"), Start::Beginning).await?;
    log.write("OrderPlaced", "1", 1).await?;
    foreign_fan_out(&log, "theirs").await?;
    assert_eq!(search(&*notifications, None).await?, None, "the handler was registered just now");

    let ledger_now = D::NOW;
    log.run(&format!(
        "UPDATE {{ledger}}.handler_types SET registered_at = {ledger_now} - interval '11' minute"
    ))
    .await?;
    let MissedSearch::Page(page) = notifications.search_missed(EVERY, None).await? else {
        panic!("a search is due")
    };
    assert_eq!((page.missed.len(), page.more), (1, false));
    let inserted = notifications.insert_missed(&page.missed).await?;
    assert_eq!((inserted.events, inserted.notifications), (1, 1));
    notifications.record_search(page.begun).await?;
    assert_eq!(search(&*notifications, None).await?, None, "a search was recorded just now");

    log.run(&format!(
        "UPDATE {{ledger}}.handler_types SET searched_at = {ledger_now} - interval '11' minute"
    ))
    .await?;
    assert_eq!(search(&*notifications, None).await?, Some(Vec::new()), "due, and nothing is missed any more");
    store.close().await;
    Ok(())
}

async fn a_search_continues_behind_its_last_page<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    for name in ["mail", "stock"] {
        notifications.register(&RegisteredHandler::new(name), Start::Beginning).await?;
    }
    let ledger_now = D::NOW;
    log.run(&format!("UPDATE {{ledger}}.handler_types SET registered_at = {ledger_now} - interval '1' hour"))
        .await?;
    // Several events of one date, so that their ids decide.
    for number in 0..6 {
        log.write("OrderPlaced", "1", number).await?;
    }
    log.run(
        "UPDATE events SET event_date = (SELECT at FROM (SELECT min(event_date) AS at FROM events) AS first)",
    )
    .await?;
    log.write("OrderPlaced", "1", 6).await?;
    foreign_fan_out(&log, "theirs").await?;
    let all = search(&*notifications, None).await?.unwrap();
    assert_eq!(all.len(), 14);
    for (at, last) in all.iter().enumerate() {
        let rest = search(&*notifications, Some(last)).await?.unwrap();
        assert_eq!(rest, all[at + 1..], "after {at}");
    }
    store.close().await;
    Ok(())
}

async fn events_that_were_missed_under_an_earlier_name_are_found<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    notifications.register(&RegisteredHandler::new("mail-v1"), Start::Beginning).await?;
    log.write("OrderPlaced", "1", 1).await?;
    foreign_fan_out(&log, "theirs").await?;
    // The handler is renamed before a search.
    let mut renamed = RegisteredHandler::new("mail");
    renamed.aliases = vec!["mail-v1".to_owned()];
    notifications.register(&renamed, Start::Beginning).await?;
    let MissedSearch::Page(page) = notifications.search_missed(Duration::ZERO, None).await? else {
        panic!("a search is due")
    };
    let found: Vec<&str> = page.missed.iter().map(|missed| missed.handler.as_str()).collect();
    assert_eq!(found, ["mail"]);
    store.close().await;
    Ok(())
}
