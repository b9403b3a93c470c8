//! Which events are fanned out, to which handlers.

use postrider::layout::RegisteredHandler;
use postrider::store::{Skipped, Start};
use postrider::{Result, Timestamp};

use super::calls::Calls;
use super::{EventlogDatabase, cases};
use crate::row_database::RowDatabase;

cases! {
    every_handler_of_a_type_gets_each_event_once_in_the_order_of_its_model,
    types_without_a_handler_wait_for_one,
    a_new_handler_gets_what_is_not_fanned_out,
    a_handler_that_starts_now_gets_later_events_only,
    a_row_that_the_database_refuses_fails_alone,
    more_refused_rows_than_a_batch_do_not_stop_the_others,
    skipped_events_are_left_out_by_their_ids_and_by_their_dates,
    many_skipped_events_of_many_types_fit_into_a_statement,
    a_fan_out_to_all_types_ends_although_new_types_are_written_all_the_time,
    an_event_counts_once_in_the_backlog_whatever_patterns_match_it,
    several_relays_fan_out_each_event_once,
    a_handler_for_all_types_gets_all,
    an_event_of_a_new_type_is_not_overtaken_by_a_later_one_of_its_model,
    a_renamed_handler_that_starts_now_gets_what_waits_for_its_earlier_name,
}

async fn every_handler_of_a_type_gets_each_event_once_in_the_order_of_its_model<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    for number in 0..30 {
        log.write("OrderPlaced", &format!("{}", number % 3), number).await?;
        if number % 5 == 0 {
            log.write_sentinel().await?;
        }
    }
    log.write("OrderCancelled", "1", 99).await?;
    let relay = log
        .relay([
            calls.handler("mail", &["OrderPlaced"]),
            calls.handler("stock", &["OrderPlaced", "OrderCancelled"]),
        ])
        .await?;
    log.wait_until_handled(61).await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail").len(), 30);
    assert_eq!(calls.of("stock").len(), 31);
    for handler in ["mail", "stock"] {
        for model in 0..3 {
            let of_model: Vec<String> = (0..30)
                .filter(|number| number % 3 == model)
                .map(|number| format!("OrderPlaced {model} {number}"))
                .collect();
            let infix = format!("OrderPlaced {model} ");
            let found: Vec<String> =
                calls.of(handler).into_iter().filter(|call| call.starts_with(&infix)).collect();
            assert_eq!(found, of_model);
        }
    }
    // Sentinels are never fanned out.
    assert_eq!(log.one("SELECT count(*) FROM events WHERE NOT delivered").await?, "6");
    assert_eq!(
        log.one("SELECT count(*) FROM events WHERE NOT delivered AND event_type IS NOT NULL").await?,
        "0"
    );
    assert_eq!(
        log.one(
            "SELECT count(*) FROM event_notifications AS n JOIN events AS e ON e.id = n.event_id
             WHERE n.namespace = e.namespace AND n.action_id = e.action_id AND n.action_name = e.action_name
               AND n.started_date = e.started_date AND n.completion_date = e.completion_date
               AND n.model_id = e.model_id AND n.model_type = e.model_type AND n.event_type = e.event_type
               AND n.event_date = e.event_date AND n.attempts = 0"
        )
        .await?,
        "61"
    );
    Ok(())
}

async fn types_without_a_handler_wait_for_one<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    log.write("OrderPlaced", "1", 1).await?;
    log.write("OrderShipped", "1", 2).await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_until_handled(1).await?;
    assert_eq!(log.rows("SELECT event_type FROM events WHERE NOT delivered").await?, ["OrderShipped"]);
    let later = log.relay([calls.handler("ship", &["OrderShipped"])]).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    later.shutdown().await?;
    assert_eq!(calls.of("ship"), ["OrderShipped 1 2"]);
    Ok(())
}

async fn a_new_handler_gets_what_is_not_fanned_out<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    log.write("OrderPlaced", "1", 1).await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    // The first handler's process is gone, but its registration is not: it must not lose the second event.
    log.write("OrderPlaced", "1", 2).await?;
    let relay = log.relay([calls.handler("stock", &["OrderPlaced"])]).await?;
    log.wait_until_handled(2).await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("stock"), ["OrderPlaced 1 2"]);
    assert_eq!(
        log.rows("SELECT handler_name, state FROM event_notifications ORDER BY event_date, handler_name")
            .await?,
        ["mail SUCCEEDED", "mail PENDING", "stock SUCCEEDED"]
    );
    Ok(())
}

async fn a_handler_that_starts_now_gets_later_events_only<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    log.write_aged("OrderPlaced", "1", 1, "interval '1' hour").await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"]).start(Start::Now)]).await?;
    log.write("OrderPlaced", "1", 2).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail"), ["OrderPlaced 1 2"]);
    assert_eq!(log.one("SELECT count(*) FROM events WHERE NOT delivered").await?, "1");
    Ok(())
}

async fn a_row_that_the_database_refuses_fails_alone<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    log.run("ALTER TABLE event_notifications ADD CONSTRAINT no_sevens CHECK (model_id <> '7')").await?;
    for number in 0..20 {
        log.write("OrderPlaced", &number.to_string(), number).await?;
    }
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_until_handled(19).await?;
    log.write("OrderPlaced", "20", 20).await?;
    log.wait_until_handled(20).await?;
    relay.shutdown().await?;
    assert_eq!(log.rows("SELECT model_id FROM events WHERE NOT delivered").await?, ["7"]);
    Ok(())
}

async fn more_refused_rows_than_a_batch_do_not_stop_the_others<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let log = EventlogDatabase(log.0.with_fan_out(super::fast_fan_out().events_max(3)));
    log.run("ALTER TABLE event_notifications ADD CONSTRAINT no_sevens CHECK (model_id <> '7')").await?;
    for number in 0..10 {
        log.write("OrderPlaced", "7", number).await?;
    }
    log.write("OrderPlaced", "8", 10).await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_until_handled(1).await?;
    relay.shutdown().await?;
    assert_eq!(calls.all(), ["mail OrderPlaced 8 10"]);
    Ok(())
}

async fn skipped_events_are_left_out_by_their_ids_and_by_their_dates<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    notifications.register(&RegisteredHandler::new("mail"), Start::Beginning).await?;
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(log.write(if number < 4 { "OrderPlaced" } else { "OrderShipped" }, "1", number).await?);
        log.run(&format!(
            "UPDATE events SET event_date = '2026-01-01 00:00:0{number}' WHERE id = '{}'",
            ids[number]
        ))
        .await?;
    }
    let mut skipped = Skipped::default();
    // The events 0 and 1 are older; 2 has that date, and is left out by its id.
    let date = "2026-01-01T00:00:02Z".parse::<Timestamp>().unwrap();
    skipped.older_than.insert("OrderPlaced".to_owned(), date);
    skipped.ids.push(ids[2].clone());
    let fanned_out = notifications.fan_out(100, &skipped).await?;
    assert_eq!((fanned_out.events, fanned_out.notifications), (3, 3));
    let waiting = "SELECT id FROM events WHERE NOT delivered ORDER BY event_date";
    assert_eq!(log.rows(waiting).await?, ids[..3]);
    skipped.ids.clear();
    assert_eq!(notifications.fan_out(100, &skipped).await?.events, 1);
    assert_eq!(notifications.fan_out(100, &Skipped::default()).await?.events, 2);
    store.close().await;
    Ok(())
}

/// More bytes than a server accepts in one statement, if each type came with all ids.
async fn many_skipped_events_of_many_types_fit_into_a_statement<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    let mut handler = RegisteredHandler::new("mail");
    handler.types = Some((0..400).map(|number| format!("Type{number}")).collect());
    notifications.register(&handler, Start::Beginning).await?;
    log.write("Type7", "1", 1).await?;
    let mut skipped = Skipped::default();
    skipped.ids = (0..5_000).map(|_| uuid::Uuid::now_v7().to_string()).collect();
    assert_eq!(notifications.fan_out(200, &skipped).await?.notifications, 1);
    store.close().await;
    Ok(())
}

/// It reads the types again if new ones were written meanwhile, but not forever.
async fn a_fan_out_to_all_types_ends_although_new_types_are_written_all_the_time<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    /// Only an endless fan-out lets the writers come so far.
    const EVENTS_MAX: usize = 20_000;
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    notifications.register(&RegisteredHandler::new("audit"), Start::Beginning).await?;
    log.write("First", "1", 0).await?;
    let has_ended = std::cell::Cell::new(false);
    let write = async |of: usize| {
        for number in 0..EVENTS_MAX / 4 {
            if has_ended.get() {
                return postrider::Result::<()>::Ok(());
            }
            log.write(&format!("New{of}x{number}"), &of.to_string(), number).await?;
        }
        panic!("the fan-out waits for the last new type");
    };
    let fan_out = async {
        let fanned_out = notifications.fan_out(1_000, &Skipped::default()).await?;
        assert!(fanned_out.events > 0);
        has_ended.set(true);
        postrider::Result::<()>::Ok(())
    };
    tokio::try_join!(write(0), write(1), write(2), write(3), fan_out)?;
    store.close().await;
    Ok(())
}

async fn an_event_counts_once_in_the_backlog_whatever_patterns_match_it<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    let mut handler = RegisteredHandler::new("mail");
    handler.types = Some(["OrderPlaced", "Order*", "*"].map(str::to_owned).into());
    notifications.register(&handler, Start::Beginning).await?;
    let backlog = async || -> Result<_> {
        let backlog = store.overview(100).await?.subscriptions[0].backlog;
        Ok((backlog.events, backlog.oldest.map(|time| time.to_string())))
    };
    assert_eq!(backlog().await?, (0, None));
    for number in [3, 1, 2] {
        let id = log.write("OrderPlaced", "1", number).await?;
        log.run(&format!("UPDATE events SET event_date = '2026-01-01 00:00:0{number}' WHERE id = '{id}'"))
            .await?;
    }
    log.write_sentinel().await?;
    let first = Some("2026-01-01T00:00:01.000000Z".to_owned());
    assert_eq!(backlog().await?, (3, first.clone()), "none is fanned out");
    assert_eq!(notifications.fan_out(2, &Skipped::default()).await?.notifications, 2);
    assert_eq!(backlog().await?, (3, first), "two are fanned out");
    log.run("UPDATE event_notifications SET state = 'SUCCEEDED'").await?;
    assert_eq!(backlog().await?, (1, Some("2026-01-01T00:00:03.000000Z".to_owned())));
    store.close().await;
    Ok(())
}

async fn several_relays_fan_out_each_event_once<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    let mut relays = Vec::new();
    for _ in 0..3 {
        relays.push(
            log.relay([calls.handler("mail", &["*Placed"]), calls.handler("stock", &["OrderPlaced"])])
                .await?,
        );
    }
    for number in 0..100 {
        log.write("OrderPlaced", &format!("{}", number % 7), number).await?;
    }
    log.wait_until_handled(200).await?;
    for relay in relays {
        relay.shutdown().await?;
    }
    for handler in ["mail", "stock"] {
        for model in 0..7 {
            let prefix = format!("OrderPlaced {model} ");
            let found: Vec<usize> = calls
                .of(handler)
                .iter()
                .filter_map(|call| call.strip_prefix(&prefix)?.parse().ok())
                .collect();
            let expected: Vec<usize> = (0..100).filter(|number| number % 7 == model).collect();
            assert_eq!(found, expected, "{handler} {model}");
        }
    }
    Ok(())
}

async fn a_handler_for_all_types_gets_all<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    for name in ["A", "B_", "C%", "d*e"] {
        log.write(name, "1", 1).await?;
    }
    log.write_sentinel().await?;
    let relay = log.relay([calls.handler("audit", &["*"])]).await?;
    log.wait_until_handled(4).await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("audit"), ["A 1 1", "B_ 1 1", "C% 1 1", "d*e 1 1"]);
    Ok(())
}

async fn a_renamed_handler_that_starts_now_gets_what_waits_for_its_earlier_name<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    let mut earlier = RegisteredHandler::new("mail-v1");
    earlier.types = Some(vec!["OrderPlaced".to_owned()]);
    notifications.register(&earlier, Start::Beginning).await?;
    log.write("OrderPlaced", "1", 1).await?;
    let mut renamed = RegisteredHandler::new("mail");
    renamed.types.clone_from(&earlier.types);
    renamed.aliases = vec!["mail-v1".to_owned()];
    notifications.register(&renamed, Start::Now).await?;
    assert_eq!(notifications.fan_out(10, &Skipped::default()).await?.notifications, 1);
    assert_eq!(log.one("SELECT handler_name FROM event_notifications").await?, "mail");
    store.close().await;
    Ok(())
}

/// Each model has an event of a type that never occurred before, and then one of a type that always waits.
async fn an_event_of_a_new_type_is_not_overtaken_by_a_later_one_of_its_model<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    const MODELS: usize = 100;
    const OVERTAKEN: &str = "SELECT count(*) FROM events AS later JOIN events AS earlier
                                 ON earlier.model_id = later.model_id AND earlier.event_type <> 'Common'
                             WHERE later.event_type = 'Common' AND later.delivered AND NOT earlier.delivered";
    let store = log.open().await?;
    let notifications = store.notifications().unwrap();
    notifications.register(&RegisteredHandler::new("audit"), Start::Beginning).await?;
    let write = async {
        for model in 0..MODELS {
            log.write(&format!("New{model}"), &model.to_string(), 1).await?;
            log.write("Common", &model.to_string(), 2).await?;
        }
        postrider::Result::<()>::Ok(())
    };
    let fan_out = async {
        let mut events = 0;
        while events < 2 * MODELS as u64 {
            events += notifications.fan_out(1_000, &Skipped::default()).await?.events;
            assert_eq!(log.one(OVERTAKEN).await?, "0");
        }
        postrider::Result::<()>::Ok(())
    };
    tokio::try_join!(write, fan_out)?;
    store.close().await;
    Ok(())
}
