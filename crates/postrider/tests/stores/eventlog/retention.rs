//! What retention deletes from the log, if it is set: the log is the record of all events.

use std::time::Duration;

use postrider::Result;
use postrider::layout::RegisteredHandler;
use postrider::relay::Retention;
use postrider::store::{Notifications, Purge, Skipped, Start};

use super::{EventlogDatabase, cases};
use crate::row_database::RowDatabase;

cases! {
    retention_deletes_finished_events_and_old_rows_without_an_event,
    an_event_that_a_registered_handler_has_missed_is_not_deleted,
    nothing_of_the_log_is_deleted_unless_a_retention_is_set,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const OLD: &str = "interval '30' day";

async fn register(notifications: &dyn Notifications, handler: &str) -> Result<bool> {
    let mut handler = RegisteredHandler::new(handler);
    handler.types = Some(vec!["OrderPlaced".to_owned()]);
    notifications.register(&handler, Start::Beginning).await
}

/// The models of the events that are left.
async fn left<D: RowDatabase>(log: &EventlogDatabase<D>) -> Result<Vec<String>> {
    log.rows("SELECT model_id FROM events WHERE model_id IS NOT NULL ORDER BY model_id").await
}

async fn retention_deletes_finished_events_and_old_rows_without_an_event<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    for handler in ["mail", "stock"] {
        register(&*notifications, handler).await?;
    }
    let states = [
        ("a", "SUCCEEDED", "SUCCEEDED"),
        ("b", "SUCCEEDED", "EXPIRED"),
        ("c", "SUCCEEDED", "PENDING"),
        ("d", "FAILED", "EXPIRED"),
    ];
    for (model, ..) in states {
        log.write_aged("OrderPlaced", model, 1, OLD).await?;
    }
    log.write("OrderPlaced", "e", 1).await?;
    log.write_aged("NoHandler", "f", 1, OLD).await?;
    log.write_sentinel().await?;
    assert_eq!(notifications.fan_out(100, &Skipped::default()).await?.notifications, 10);
    log.run("UPDATE event_notifications SET state = 'SUCCEEDED'").await?;
    for (model, mail, stock) in states {
        for (handler, state) in [("mail", mail), ("stock", stock)] {
            log.run(&format!(
                "UPDATE event_notifications SET state = '{state}' WHERE model_id = '{model}' AND handler_name = '{handler}'"
            ))
            .await?;
        }
    }
    assert_eq!(store.purge(Purge::new(60 * DAY, 100)).await?.deleted, 0, "all are younger");
    let first = store.purge(Purge::new(DAY, 1)).await?;
    assert_eq!((first.deleted, first.more), (1, true), "one batch");
    assert_eq!(store.purge(Purge::new(DAY, 100)).await?.deleted, 1);
    assert_eq!(left(&log).await?, ["c", "d", "e", "f"]);
    let notified = "SELECT DISTINCT model_id FROM event_notifications ORDER BY model_id";
    assert_eq!(log.rows(notified).await?, ["c", "d", "e"], "an event is deleted with its notifications");
    let sentinels = "SELECT count(*) FROM events WHERE event_type IS NULL";
    assert_eq!(log.one(sentinels).await?, "1", "a young row without an event stays");
    log.run("UPDATE events SET event_date = event_date - interval '30' day WHERE event_type IS NULL").await?;
    assert_eq!(store.purge(Purge::new(DAY, 100)).await?.deleted, 1);
    assert_eq!(log.one(sentinels).await?, "0");
    store.close().await;
    Ok(())
}

/// Another program marked it, and the search for missed events has not found it yet.
async fn an_event_that_a_registered_handler_has_missed_is_not_deleted<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    register(&*notifications, "mail").await?;
    log.write_aged("OrderPlaced", "a", 1, OLD).await?;
    log.run("UPDATE events SET delivered = TRUE").await?;
    let registered = |days: u32| {
        let now = D::NOW;
        format!("UPDATE {{ledger}}.handler_types SET registered_at = {now} - interval '{days}' day")
    };
    log.run(&registered(31)).await?;
    assert_eq!(store.purge(Purge::new(DAY, 100)).await?.deleted, 0);
    log.run(&registered(29)).await?;
    assert_eq!(store.purge(Purge::new(DAY, 100)).await?.deleted, 1, "it is older than the registration");
    store.close().await;
    Ok(())
}

async fn nothing_of_the_log_is_deleted_unless_a_retention_is_set<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    assert_eq!(Retention::default_for(store.row_table()).keep, None);
    store.close().await;
    Ok(())
}
