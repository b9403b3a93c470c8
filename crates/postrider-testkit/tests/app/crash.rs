//! Handlers that die at each of their points.

use std::sync::{Arc, Mutex};

use postrider::handler::{Context, Handlers, Result};
use postrider::inbox::{Inbox, Received};
use postrider::{Outbox, Subscription};
use postrider_testkit::{Crash, CrashTest, TestOutbox};

use super::{OrderBilled, OrderPlaced, placed};

const ORDERS: i64 = 2;

/// The bill, a follow-up event and the inbox row in one transaction.
fn bill_once(outbox: &TestOutbox, placed: &OrderPlaced, cx: &Context) -> Result {
    let mut db = outbox.connect();
    let tx = db.transaction()?;
    if cx.receive(&Inbox::new(), &tx)? == Received::First {
        cx.crash_point("received");
        tx.execute("INSERT INTO bills VALUES (?)", [placed.order])?;
        cx.crash_point("billed");
        Outbox::new().write(&tx, &OrderBilled { order: placed.order })?;
        cx.crash_point("event written");
    }
    tx.commit()?;
    cx.crash_point("committed");
    Ok(())
}

/// The same without an inbox.
fn bill_again(outbox: &TestOutbox, placed: &OrderPlaced, cx: &Context) -> Result {
    let mut db = outbox.connect();
    let tx = db.transaction()?;
    tx.execute("INSERT INTO bills VALUES (?)", [placed.order])?;
    cx.crash_point("billed");
    tx.commit()?;
    cx.crash_point("committed");
    Ok(())
}

/// A mistake: the inbox row is committed before the effect.
fn bill_too_late(outbox: &TestOutbox, placed: &OrderPlaced, cx: &Context) -> Result {
    let mut db = outbox.connect();
    let tx = db.transaction()?;
    let received = cx.receive(&Inbox::new(), &tx)?;
    tx.commit()?;
    cx.crash_point("received");
    if received == Received::First {
        db.execute("INSERT INTO bills VALUES (?)", [placed.order])?;
    }
    Ok(())
}

type Bill = fn(&TestOutbox, &OrderPlaced, &Context) -> Result;

/// Crashes a handler everywhere. Returns each crash with the bills and the follow-up events of both orders.
async fn crashes(bill: Bill) -> Vec<(Crash, i64, usize)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let test = CrashTest::new(move |outbox, points| {
        let outbox = outbox.clone();
        let handlers = Handlers::new().on(move |placed: OrderPlaced, cx: Context| {
            let outbox = outbox.clone();
            async move { bill(&outbox, &placed, &cx) }
        });
        [Subscription::handlers("billing", points.watch(handlers))]
    });
    let setup = |outbox: &TestOutbox| {
        outbox.connect().execute("CREATE TABLE bills (order_id INTEGER)", []).unwrap();
        (1..=ORDERS).for_each(|order| _ = outbox.write(&placed(order)));
    };
    let check = |outbox: &TestOutbox, crash: &Crash| {
        let follow_ups = outbox.emitted().of_type("order.billed").events().len();
        found.lock().unwrap().push((crash.clone(), outbox.count("SELECT count(*) FROM bills"), follow_ups));
    };
    let crashes = test.run(setup, check).await;
    let found = found.lock().unwrap().clone();
    assert_eq!(found[0].0, Crash::None);
    assert_eq!(found[1..].iter().map(|(crash, ..)| crash.clone()).collect::<Vec<_>>(), crashes);
    found
}

fn at(point: &str, time: u32) -> Crash {
    Crash::At(point.to_owned(), time)
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_wherever_the_handler_dies() {
    let found = crashes(bill_once).await;
    for (crash, bills, follow_ups) in &found {
        assert_eq!((*bills, *follow_ups), (2, 2), "{crash}");
    }
    // Six points, each reached for two orders, the run without a crash, and the one before the progress.
    assert_eq!(found.len(), 6 * 2 + 2);
    for point in ["before the call", "received", "billed", "event written", "committed", "after the call"] {
        assert!(found.iter().any(|(crash, ..)| *crash == at(point, 1)), "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_inbox_a_crash_after_the_commit_has_the_effect_twice() {
    for (crash, bills, _) in crashes(bill_again).await {
        match crash {
            Crash::At(point, _) if point == "committed" || point == "after the call" => {
                assert!(bills > 2, "{point}: {bills}");
            }
            Crash::BeforeProgress => assert_eq!(bills, 4, "both were handled again"),
            Crash::At(..) => assert!(bills >= 2, "at least once"),
            _ => assert_eq!(bills, 2),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_row_that_is_committed_before_the_effect_loses_it() {
    let found = crashes(bill_too_late).await;
    let lost = found.iter().filter(|(_, bills, _)| *bills < 2);
    assert!(lost.clone().all(|(crash, ..)| matches!(crash, Crash::At(point, _) if point == "received")));
    assert!(lost.count() > 0);
}
