//! A process that dies at any point of fan-out or handling. The points of the fan-out are all places where it waits for
//! the database: the future is dropped at each of them in turn, and its connection with it.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::handler::Context;
use postrider::relay::Relay;
use postrider::store::Skipped;
use postrider_testkit::dropped_after;
use tokio::sync::Semaphore;

use super::calls::Calls;
use super::{EventlogDatabase, cases, fast_policy};
use crate::row_database::RowDatabase;

cases! {
    a_fan_out_that_dies_at_any_point_loses_nothing,
    a_registration_that_dies_at_any_point_happens_as_a_whole_or_not_at_all,
    a_relay_that_dies_around_a_call_repeats_it_and_loses_nothing,
}

/// Events that are marked without a notification for every handler, or have one without being marked.
const TORN: &str = "SELECT count(*) FROM events AS e
    WHERE e.event_type IS NOT NULL
      AND (SELECT count(*) FROM event_notifications AS n WHERE n.event_id = e.id)
          <> CASE WHEN e.delivered THEN 2 ELSE 0 END";

async fn a_fan_out_that_dies_at_any_point_loses_nothing<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    let relay = log.relay([calls.handler("mail", &["Placed"]), calls.handler("stock", &["Placed"])]).await?;
    relay.shutdown().await?;
    let mut died = 0;
    for waits in 0.. {
        for number in 0..3 {
            log.write("Placed", &number.to_string(), number).await?;
        }
        let store = log.open().await?;
        let notifications = store.notifications().unwrap();
        // Opens the connection, and fans out what an earlier one left.
        loop {
            let fanned_out = notifications.fan_out(2, &Skipped::default()).await?;
            if !fanned_out.busy {
                break;
            }
        }
        let ended = dropped_after(waits, notifications.fan_out(100, &Skipped::default())).await;
        assert_eq!(log.one(TORN).await?, "0", "after {waits} waits");
        drop((notifications, store));
        match ended.transpose()? {
            Some(fanned_out) if !fanned_out.busy => break,
            Some(_) => {}
            None => died += 1,
        }
    }
    // It waits for: the begin, the lock, the registry, the rows and the commit, at the least.
    assert!(died >= 5, "it died at {died} points");
    log.wait_for("SELECT count(*) FROM events WHERE NOT delivered", "0").await?;
    assert_eq!(log.one(TORN).await?, "0");
    Ok(())
}

async fn a_registration_that_dies_at_any_point_happens_as_a_whole_or_not_at_all<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let mut died = 0;
    for waits in 0.. {
        let mut handler = postrider::layout::RegisteredHandler::new(format!("handler-{waits}"));
        handler.types = Some(vec!["A".to_owned(), "B".to_owned()]);
        let store = log.open().await?;
        let notifications = store.notifications().unwrap();
        let ended = dropped_after(waits, notifications.register(&handler, Default::default())).await;
        drop((notifications, store));
        let torn = "SELECT count(*) FROM (SELECT handler, count(*) AS types FROM {ledger}.handler_types GROUP BY handler)
                    AS registered WHERE types <> 2";
        assert_eq!(log.one(torn).await?, "0", "after {waits} waits");
        match ended {
            Some(registered) => {
                registered?;
                break;
            }
            None => died += 1,
        }
    }
    assert!(died >= 5, "it died at {died} points");
    Ok(())
}

/// The relay is dropped, as in a crash, before a call has an effect, after it, and when the call has ended.
async fn a_relay_that_dies_around_a_call_repeats_it_and_loses_nothing<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    for number in 0..6 {
        log.write("Placed", "1", number).await?;
    }
    let calls = Calls::default();
    for point in ["before the call", "in the call", "after the call"] {
        let (started, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (entered, gate) = (started.clone(), go_on.clone());
        let recorded = calls.clone();
        let handler =
            postrider::Subscription::handler("mail", move |event: Arc<postrider::Event>, _: Context| {
                let (entered, gate, recorded) = (entered.clone(), gate.clone(), recorded.clone());
                async move {
                    if point == "before the call" {
                        // The call is begun, and nothing was done yet.
                        entered.add_permits(1);
                        std::future::pending::<()>().await;
                    }
                    recorded.record("mail", &event);
                    entered.add_permits(1);
                    gate.acquire().await.unwrap().forget();
                    Ok(())
                }
            });
        // The result of a call is settled late.
        let policy = fast_policy().flush_interval(Duration::from_secs(600));
        let router = postrider::route::Router::to("mail").only(["Placed"]);
        let relay: Relay = log.relay([handler.router(router).policy(policy)]).await?;
        started.acquire().await.unwrap().forget();
        if point == "after the call" {
            go_on.add_permits(1);
            // The next call begins when the first has ended.
            started.acquire().await.unwrap().forget();
        }
        drop(relay);
    }
    let relay = log.relay([calls.handler("mail", &["Placed"])]).await?;
    log.wait_until_handled(6).await?;
    relay.shutdown().await?;
    let of_mail = calls.of("mail");
    let firsts: Vec<&String> = of_mail
        .iter()
        .enumerate()
        .filter(|(at, call)| !of_mail[..*at].contains(call))
        .map(|(_, call)| call)
        .collect();
    assert_eq!(firsts, ["Placed 1 0", "Placed 1 1", "Placed 1 2", "Placed 1 3", "Placed 1 4", "Placed 1 5"]);
    // A call that had begun is repeated. One that had ended is repeated unless its result was settled before the death.
    let repeated = of_mail.iter().filter(|call| *call == "Placed 1 0").count();
    assert!((2..=3).contains(&repeated), "{repeated} calls");
    Ok(())
}
