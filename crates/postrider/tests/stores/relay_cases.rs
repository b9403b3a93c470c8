//! A relay on a table with a state per row, on any database: order, poisoned rows, outages, crashes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::handler::Context;
use postrider::relay::{OutboxOptions, Policy, Relay, Retention, Subscription};
use postrider::sink::{Failure, Outcome, Sink};
use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Start, Store};
use postrider::{Code, Event, Result};
use postrider_testkit::eventually;

use crate::recording_sink::RecordingSink;

pub(crate) const KEYS: usize = 5;
const ROWS: usize = 30;

/// A table, and the operations of the tests on it. Rows are given up after three attempts.
pub(crate) trait Table {
    async fn store(&self) -> Result<Arc<dyn Store>>;

    /// Writes a row of a key, with its number in the payload.
    async fn write(&self, key: &str, number: usize) -> Result<()>;

    /// The number of delivered rows.
    async fn delivered(&self) -> Result<usize>;

    /// The attempts of undelivered rows, and whether they are marked as failed.
    async fn undelivered(&self) -> Result<Vec<(u32, bool)>>;

    /// The highest number of attempts of a row.
    async fn attempts_max(&self) -> Result<u32>;

    /// The last errors of the rows that are dead according to Postrider's notes.
    async fn dead(&self) -> Result<Vec<String>>;

    /// The number of recorded claims that are not settled, on databases that record claims.
    async fn claims(&self) -> Result<usize> {
        Ok(0)
    }

    /// Makes the table refuse every UPDATE of a row. Returns whether the database can.
    async fn refuse(&self, _key: &str, _number: usize) -> Result<bool> {
        Ok(false)
    }

    /// Makes the table refuse to release a row. Returns whether rows are marked.
    async fn refuse_release(&self, _key: &str, _number: usize) -> Result<bool> {
        Ok(false)
    }

    /// Whether a delivered row counts the successful attempt.
    fn counts_success(&self) -> bool {
        false
    }

    /// Whether rows are marked before they are published: one that cannot be updated is then never sent.
    fn marks(&self) -> bool {
        false
    }
}

pub(crate) async fn relay(store: Arc<dyn Store>, sink: &RecordingSink) -> Result<Relay> {
    relay_to(store, sink.clone()).await
}

pub(crate) async fn relay_to(store: Arc<dyn Store>, sink: impl Sink + 'static) -> Result<Relay> {
    relay_for(store, Subscription::new("mail", sink)).await
}

async fn relay_for(store: Arc<dyn Store>, subscription: Subscription) -> Result<Relay> {
    let policy = Policy::default()
        .lease(Duration::from_secs(1))
        .backoff_min(Duration::from_millis(5))
        .backoff_max(Duration::from_millis(20))
        .probe_min(Duration::from_millis(5))
        .probe_max(Duration::from_millis(20));
    let subscription = subscription.start(Start::Beginning).policy(policy);
    Relay::builder()
        .outbox_with(store, [subscription], OutboxOptions::default().retention(Retention::FOREVER))
        .spawn()
        .await
}

/// Rows of several keys, interleaved, each in its own transaction.
pub(crate) async fn write<T: Table>(table: &T, rows: usize) -> Result<()> {
    for number in 0..rows {
        for key in 0..KEYS {
            table.write(&format!("key{key}"), number).await?;
        }
    }
    Ok(())
}

/// One module per table, with one test per case.
macro_rules! relay_tests {
    ($($module:ident: $table:expr;)+) => { $(
        mod $module {
            use super::*;

            crate::relay_cases::relay_tests! { $table =>
                every_key_arrives_in_its_order_and_once
                a_poison_row_is_given_up_and_delays_only_its_own_key
                an_outage_counts_no_attempt_of_any_row
                rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
                a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other
                a_handler_gets_every_row_in_order_and_a_failed_one_again
                a_sink_with_the_name_of_a_handler_is_refused_until_it_shall_replace_it
            }
        }
    )+ };
    ($table:expr => $($case:ident)+) => { $(
        #[tokio::test]
        async fn $case() -> postrider::Result<()> {
            match $table.await? {
                Some(table) => crate::relay_cases::$case(table).await,
                None => Ok(()),
            }
        }
    )+ };
}
pub(crate) use relay_tests;

pub(crate) async fn every_key_arrives_in_its_order_and_once<T: Table>(table: T) -> Result<()> {
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(table.store().await?, &sink).await?;
    write(&table, ROWS).await?;
    sink.wait_for(KEYS * ROWS).await;
    relay.shutdown().await?;
    for key in 0..KEYS {
        assert_eq!(sink.of_key(&format!("key{key}")), (0..ROWS as u64).collect::<Vec<_>>());
    }
    assert_eq!(table.delivered().await?, KEYS * ROWS);
    assert_eq!(table.claims().await?, 0, "no claim is left");
    Ok(())
}

pub(crate) async fn a_handler_gets_every_row_in_order_and_a_failed_one_again<T: Table>(
    table: T,
) -> Result<()> {
    let handled = Arc::new(Mutex::new(Vec::new()));
    let seen = handled.clone();
    let handler = move |event: Arc<Event>, cx: Context| {
        let key = event.message_key().unwrap_or_default().to_owned();
        let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
        let number = payload["n"].as_u64().unwrap();
        let fails = key.ends_with("key1") && number == 2 && cx.attempt() == 1;
        if !fails {
            seen.lock().unwrap().push((key, number));
        }
        async move { if fails { Err("not yet")? } else { Ok(()) } }
    };
    write(&table, ROWS).await?;
    let relay = relay_for(table.store().await?, Subscription::handler("mail", handler)).await?;
    eventually("all rows are delivered", async || Ok(table.delivered().await? == KEYS * ROWS)).await?;
    relay.shutdown().await?;
    let handled = handled.lock().unwrap();
    for key in 0..KEYS {
        let of_key = handled.iter().filter(|(of, _)| of.ends_with(&format!("key{key}")));
        assert_eq!(
            of_key.map(|(_, number)| *number).collect::<Vec<_>>(),
            (0..ROWS as u64).collect::<Vec<_>>()
        );
    }
    Ok(())
}

pub(crate) async fn a_sink_with_the_name_of_a_handler_is_refused_until_it_shall_replace_it<T: Table>(
    table: T,
) -> Result<()> {
    let handler = || Subscription::handler("mail", |_: Arc<Event>, _| async { Ok(()) });
    relay_for(table.store().await?, handler()).await?.shutdown().await?;
    write(&table, 1).await?;
    let sink = RecordingSink::new(|_, _| None);
    let refused = relay(table.store().await?, &sink).await.unwrap_err();
    assert_eq!(refused.code(), Code::SubscriptionIsHandler, "{refused}");
    assert_eq!(table.delivered().await?, 0);
    let replacing = || Subscription::new("mail", sink.clone()).replaces_handler();
    let relay = relay_for(table.store().await?, replacing()).await?;
    eventually("the sink has the rows", async || Ok(table.delivered().await? == KEYS)).await?;
    relay.shutdown().await?;
    // From now on it is a sink, until a program serves it as a handler again.
    self::relay(table.store().await?, &sink).await?.shutdown().await?;
    relay_for(table.store().await?, handler()).await?.shutdown().await?;
    let refused = self::relay(table.store().await?, &sink).await.unwrap_err();
    assert_eq!(refused.code(), Code::SubscriptionIsHandler, "{refused}");
    Ok(())
}

pub(crate) async fn a_poison_row_is_given_up_and_delays_only_its_own_key<T: Table>(table: T) -> Result<()> {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let sink = RecordingSink::new(move |key, number| {
        (key.ends_with("key1") && number == 2).then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Outcome::Failed(Failure::new("poison"))
        })
    });
    write(&table, 10).await?;
    let doomed = relay(table.store().await?, &sink).await?;
    sink.wait_for(KEYS * 10 - 1).await;
    eventually("the row is given up", async || Ok(table.dead().await?.len() == 1)).await?;
    doomed.shutdown().await?;
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(sink.of_key("key1"), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(sink.of_key("key2"), (0..10).collect::<Vec<u64>>());
    assert_eq!(table.undelivered().await?, [(3, true)], "it was given up after three tries");
    let why = table.dead().await?;
    assert!(why[0].contains("poison"), "{why:?}");
    // The next owner does not change it either.
    let next = relay(table.store().await?, &sink).await?;
    table.write("key1", 10).await?;
    sink.wait_for(KEYS * 10).await;
    next.shutdown().await?;
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    Ok(())
}

pub(crate) async fn an_outage_counts_no_attempt_of_any_row<T: Table>(table: T) -> Result<()> {
    let answers = Arc::new(AtomicU32::new(0));
    let counted = answers.clone();
    let sink = RecordingSink::new(move |_, _| {
        (counted.fetch_add(1, Ordering::Relaxed) < 200).then(|| Outcome::Down(Failure::new("maintenance")))
    });
    write(&table, 10).await?;
    let relay = relay(table.store().await?, &sink).await?;
    sink.wait_for(KEYS * 10).await;
    relay.shutdown().await?;
    assert!(answers.load(Ordering::Relaxed) > 200, "there was an outage");
    assert_eq!(table.attempts_max().await?, u32::from(table.counts_success()));
    assert_eq!(table.delivered().await?, KEYS * 10);
    Ok(())
}

pub(crate) async fn rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next<T: Table>(
    table: T,
) -> Result<()> {
    write(&table, ROWS).await?;
    // Some are claimed and never settled, because the relay dies before that.
    let first = RecordingSink::new(|_, number| (number >= 5).then(|| Outcome::Down(Failure::new("slow"))));
    let doomed = relay(table.store().await?, &first).await?;
    first.wait_for(KEYS).await;
    drop(doomed);
    let second = RecordingSink::new(|_, _| None);
    let next = relay(table.store().await?, &second).await?;
    eventually("all rows are delivered", async || Ok(table.delivered().await? == KEYS * ROWS)).await?;
    next.shutdown().await?;
    for key in 0..KEYS {
        let name = format!("key{key}");
        let (before, after) = (first.of_key(&name), second.of_key(&name));
        let from = after.first().copied().unwrap_or(0);
        assert_eq!(after, (from..ROWS as u64).collect::<Vec<u64>>(), "in order");
        assert!(before.len() as u64 >= from, "nothing between is lost: {before:?} {after:?}");
    }
    Ok(())
}

pub(crate) async fn a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other<T: Table>(
    table: T,
) -> Result<()> {
    write(&table, ROWS).await?;
    assert!(table.refuse("key0", 3).await?, "the test can make a row that cannot be updated");
    let first = RecordingSink::new(|_, _| None);
    let relay_of_first = relay(table.store().await?, &first).await?;
    let all_but_one = KEYS * ROWS - 1;
    eventually("all other rows are recorded", async || Ok(table.delivered().await? == all_but_one)).await?;
    relay_of_first.shutdown().await?;
    for key in 0..KEYS {
        let is_sent = |number: &u64| !(table.marks() && key == 0 && *number == 3);
        let expected: Vec<u64> = (0..ROWS as u64).filter(is_sent).collect();
        assert_eq!(first.of_key(&format!("key{key}")), expected, "each once");
    }
    let second = RecordingSink::new(|_, _| None);
    let relay_of_second = relay(table.store().await?, &second).await?;
    table.write("key0", ROWS).await?;
    eventually("a later row is recorded", async || Ok(table.delivered().await? == KEYS * ROWS)).await?;
    relay_of_second.shutdown().await?;
    assert_eq!(second.accepted().len(), 1, "the next relay does not send it again: {:?}", second.accepted());
    Ok(())
}

/// An owner marks rows as being published, and dies.
async fn die_with_rows(store: Arc<dyn Store>, rows: usize) -> Result<()> {
    store.subscribe("mail", Start::Beginning).await?;
    let lease =
        LeaseRequest { subscription: "mail".into(), holder: "dead".into(), duration: Duration::from_secs(1) };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget::new(rows, 1_000_000);
    let Claimed::Page(page) = store.claimer(&loaded.progress).claim(budget).await? else { panic!("a page") };
    assert_eq!(page.events.len(), rows);
    Ok(())
}

/// On a table where rows are marked.
pub(crate) async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order<T: Table>(
    table: T,
) -> Result<()> {
    write(&table, ROWS).await?;
    die_with_rows(table.store().await?, KEYS * 3).await?;
    assert!(table.refuse_release("key0", 1).await?, "rows are marked");
    let sink = RecordingSink::new(|_, _| None);
    let next = relay(table.store().await?, &sink).await?;
    eventually("all rows are delivered", async || Ok(table.delivered().await? == KEYS * ROWS)).await?;
    next.shutdown().await?;
    for key in 0..KEYS {
        assert_eq!(sink.of_key(&format!("key{key}")), (0..ROWS as u64).collect::<Vec<_>>());
    }
    Ok(())
}
