//! The fan-out and the handling of layout `eventlog` on MySQL and MariaDB: they read few rows of a large table, and survive
//! what only these servers store.

use std::time::Duration;

use postrider::Result;
use postrider::layout::RegisteredHandler;
use postrider::store::{Acquired, Budget, Claimed, Skipped, Start};

use crate::eventlog::{EventlogDatabase, on, utc};
use crate::mysql::row_state::case::RowCase;
use crate::row_database::{RowDatabase, lease};

/// Events in the table.
const EVENTS: u64 = 5_000;

/// More than the due notifications that a relay lists in one snapshot.
const NOTIFICATIONS: u64 = 30_000;

/// The due notifications that a relay lists in one snapshot, those that it then reads, and some more.
const LISTED_MAX: u64 = 20_500;

/// Waiting events of five types.
async fn write_events<D: RowDatabase>(log: &EventlogDatabase<D>, events: u64) -> Result<()> {
    let digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                   UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let now = utc::<D>();
    log.run(&format!(
        "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                             model_id, model_type, event_type, payload, event_date, delivered)
         SELECT UUID(), 'shop', UUID(), 'PlaceOrder', '{{}}', {now}, {now}, n, 'Order', CONCAT('Type', n % 5), '{{}}',
                {now} - INTERVAL n SECOND, FALSE
         FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n
               FROM {digits} AS a, {digits} AS b, {digits} AS c, {digits} AS e, {digits} AS f) AS numbers
         WHERE n < {events}"
    ))
    .await?;
    log.run("ANALYZE TABLE events").await
}

/// How many rows of a table all connections have read so far.
async fn rows_read<D: RowDatabase>(log: &EventlogDatabase<D>, table: &str) -> Result<u64> {
    let sql = format!(
        "SELECT count_read FROM performance_schema.table_io_waits_summary_by_table
         WHERE object_schema = DATABASE() AND object_name = '{table}'"
    );
    Ok(log.one(&sql).await?.parse().expect("a number"))
}

async fn a_fan_out_reads_only_the_events_that_it_takes<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    // Of each type up to 200, which are merged; each of the 200 again for its notification and for its mark.
    of_types(log, Some(&["Type1", "Type2"]), 1_000).await
}

async fn a_fan_out_to_all_types_reads_only_the_events_that_it_takes<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    // The same, and the steps from type to type.
    of_types(log, None, 2_000).await
}

async fn of_types<D: RowDatabase>(
    log: EventlogDatabase<D>,
    types: Option<&[&str]>,
    read_max: u64,
) -> Result<()> {
    write_events(&log, EVENTS).await?;
    let store = log.open().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    let mut handler = RegisteredHandler::new("audit");
    handler.types = types.map(|types| types.iter().map(|&name| name.to_owned()).collect());
    notifications.register(&handler, Start::Beginning).await?;
    let before = rows_read(&log, "events").await?;
    let fanned_out = notifications.fan_out(200, &Skipped::default()).await?;
    assert_eq!((fanned_out.events, fanned_out.notifications), (200, 200));
    let read = rows_read(&log, "events").await? - before;
    assert!((200..read_max).contains(&read), "{read} rows of {EVENTS} were read");
    store.close().await;
    Ok(())
}

async fn a_pattern_does_not_read_the_events_of_types_that_it_does_not_match<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    write_events(&log, EVENTS).await?;
    let store = log.open().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    let mut handler = RegisteredHandler::new("mail");
    handler.types = Some(vec!["Order*".to_owned()]);
    notifications.register(&handler, Start::Beginning).await?;
    // The collation of the column does not distinguish these types, and the first one is not for the handler.
    for (number, name) in ["orderplaced", "OrderPlaced", "ORDERPLACED", "OrderPaid"].into_iter().enumerate() {
        log.write(name, "1", number).await?;
    }
    let before = rows_read(&log, "events").await?;
    let mut skipped = Skipped::default();
    skipped.unmatched_types = true;
    assert_eq!(notifications.fan_out(200, &skipped).await?.notifications, 2);
    let read = rows_read(&log, "events").await? - before;
    assert!(read < 100, "{read} rows of {EVENTS} were read");
    let waiting = "SELECT count(*) FROM events WHERE NOT delivered";
    assert_eq!(log.one(waiting).await?, (EVENTS + 2).to_string());
    // From time to time the other types are read, too.
    log.write("OrderPaid", "1", 9).await?;
    let before = rows_read(&log, "events").await?;
    assert_eq!(notifications.fan_out(200, &Skipped::default()).await?.notifications, 1);
    assert!(rows_read(&log, "events").await? - before > EVENTS);
    store.close().await;
    Ok(())
}

async fn a_list_of_due_notifications_reads_one_range_of_their_index<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    write_events(&log, NOTIFICATIONS).await?;
    log.run(
        "INSERT INTO event_notifications
         SELECT UUID(), id, 'mail', namespace, action_id, action_name, action_params, started_date,
                completion_date, model_id, model_type, event_type, payload, event_date, 'PENDING', 0, event_date,
                event_date, event_date
         FROM events",
    )
    .await?;
    log.run("ANALYZE TABLE event_notifications").await?;
    let store = log.open().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    notifications.register(&RegisteredHandler::new("mail"), Start::Beginning).await?;
    let of_handler = notifications.store_of(RegisteredHandler::new("mail"))?;
    let Acquired::Granted(loaded) = of_handler.acquire(lease(Duration::from_secs(600))).await? else {
        panic!("the lease is free")
    };
    let before = rows_read(&log, "event_notifications").await?;
    let claimed = of_handler.claimer(&loaded.progress).claim(Budget::new(100, 1_000_000)).await?;
    let Claimed::Page(page) = claimed else { panic!("{claimed:?}") };
    assert_eq!(page.events.len(), 100);
    let read = rows_read(&log, "event_notifications").await? - before;
    assert!((100..LISTED_MAX).contains(&read), "{read} rows of {NOTIFICATIONS} were read");

    // If more are due at one time than a list has, it still has the oldest events.
    log.run(
        "UPDATE event_notifications
         SET next_retry_at = '2026-01-01', state = IF(model_id % 2 = 0, 'PENDING', 'FAILED')",
    )
    .await?;
    let Acquired::Granted(loaded) = of_handler.acquire(lease(Duration::from_secs(600))).await? else {
        panic!("the lease is ours")
    };
    let claimed = of_handler.claimer(&loaded.progress).claim(Budget::new(100, 1_000_000)).await?;
    let Claimed::Page(page) = claimed else { panic!("{claimed:?}") };
    let models = page.events.iter().map(|of| of.event.aggregate.as_ref().map(|of| of.id.as_str()));
    // The model with the highest number has the oldest event.
    let expected: Vec<String> = (1..=100).map(|number| (NOTIFICATIONS - number).to_string()).collect();
    assert_eq!(models.collect::<Option<Vec<_>>>().unwrap(), expected);
    of_handler.close().await;
    store.close().await;
    Ok(())
}

/// Tables from the time before strict modes have such dates. A relay cannot copy them; it must not stop at them either.
async fn an_event_with_a_zero_date_does_not_stop_the_others<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    let mut handler = RegisteredHandler::new("mail");
    handler.types = Some(vec!["OrderPlaced".to_owned()]);
    notifications.register(&handler, Start::Beginning).await?;
    let zero = log.write("OrderPlaced", "1", 1).await?;
    log.run(&format!(
        "SET SESSION sql_mode = ''; UPDATE events SET event_date = '0000-00-00' WHERE id = '{zero}'"
    ))
    .await?;
    let other = log.write("OrderPlaced", "2", 2).await?;
    notifications.fan_out(200, &Skipped::default()).await?;
    let notified = format!("SELECT count(*) FROM event_notifications WHERE event_id = '{other}'");
    assert_eq!(log.one(&notified).await?, "1");
    store.close().await;
    Ok(())
}

/// One case on both servers.
macro_rules! cases {
    ($($name:ident,)+) => {
        mod mysql {
            use super::*;
            use crate::mysql::log::case::MySql;

            $(
                #[tokio::test]
                async fn $name() -> Result<()> {
                    on::<RowCase<MySql>, _>(super::$name).await
                }
            )+
        }

        mod mariadb {
            use super::*;
            use crate::mysql::log::case::MariaDb;

            $(
                #[tokio::test]
                async fn $name() -> Result<()> {
                    on::<RowCase<MariaDb>, _>(super::$name).await
                }
            )+
        }
    };
}

cases! {
    a_fan_out_reads_only_the_events_that_it_takes,
    a_fan_out_to_all_types_reads_only_the_events_that_it_takes,
    a_pattern_does_not_read_the_events_of_types_that_it_does_not_match,
    an_event_with_a_zero_date_does_not_stop_the_others,
    a_list_of_due_notifications_reads_one_range_of_their_index,
}
