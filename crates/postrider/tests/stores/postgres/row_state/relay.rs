//! A whole relay on every layout: order, poison, outage, death.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::relay::{Policy, Relay, Retention, Subscription};
use postrider::sink::{Failure, Outcome, Sink};
use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Start, Store};
use postrider_testkit::conformance::rows::Refusing;

use super::case::Case;
use crate::taker::{LONG, Taker};

const KEYS: usize = 5;
const ROWS: usize = 30;

fn policy() -> Policy {
    Policy {
        lease: Duration::from_secs(1),
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(20),
        probe_min: Duration::from_millis(5),
        probe_max: Duration::from_millis(20),
        ..Policy::default()
    }
}

pub(crate) async fn relay(store: Arc<dyn Store>, sink: &Taker) -> Result<Relay> {
    relay_to(store, sink.clone()).await
}

pub(crate) async fn relay_to(store: Arc<dyn Store>, sink: impl Sink + 'static) -> Result<Relay> {
    let subscription = Subscription::new("mail", sink).start(Start::Beginning).policy(policy());
    Relay::builder().outbox_keeping(store, [subscription], Retention::FOREVER).spawn().await
}

/// Rows of several keys, interleaved, each a transaction of its own.
pub(crate) async fn write(case: &Case, rows: usize) -> Result<()> {
    for number in 0..rows {
        for key in 0..KEYS {
            case.run(&case.insert(&format!("key{key}"), number)).await?;
        }
    }
    Ok(())
}

/// How many rows are in the state of delivered ones.
pub(crate) async fn delivered(case: &Case) -> Result<i64> {
    case.one("SELECT count(*) FROM {t} WHERE lower(status::text) IN ('sent', 'published')").await
}

pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let waiting = async {
        while !is_so().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("it never came that {what}"))
}

fn attempts(layout: RowLayout) -> &'static str {
    match layout {
        RowLayout::EventOutbox => "attempts",
        RowLayout::Outbox => "retry_count",
        RowLayout::OutboxEvents | RowLayout::Custom => "attempt_count",
    }
}

#[tokio::test]
async fn every_key_arrives_in_its_order_and_once() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        let sink = Taker::new(|_, _| None);
        let relay = relay(case.store().await?, &sink).await?;
        write(&case, ROWS).await?;
        sink.wait_for(KEYS * ROWS).await;
        relay.shutdown().await?;
        let expected: Vec<u64> = (0..ROWS as u64).collect();
        for key in 0..KEYS {
            assert_eq!(sink.of_key(&format!("key{key}")), expected, "{layout:?}");
        }
        assert_eq!(delivered(&case).await?, (KEYS * ROWS) as i64);
        let waits = "SELECT count(*) FROM {ledger}.row_claims";
        assert_eq!(case.one::<i64>(waits).await?, 0, "no claim is left");
    }
    Ok(())
}

#[tokio::test]
async fn a_poison_row_is_given_up_and_delays_only_its_own_key() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let sink = Taker::new(move |key, number| {
            (key.ends_with("key1") && number == 2).then(|| {
                counted.fetch_add(1, Ordering::Relaxed);
                Outcome::Failed(Failure::new("poison"))
            })
        });
        write(&case, 10).await?;
        let relay = relay(case.store().await?, &sink).await?;
        sink.wait_for(KEYS * 10 - 1).await;
        eventually("the row is given up", async || {
            Ok(case.one::<i64>("SELECT count(*) FROM {ledger}.row_notes WHERE state = 'dead'").await? == 1)
        })
        .await?;
        relay.shutdown().await?;
        assert_eq!(tries.load(Ordering::Relaxed), 3, "{layout:?}");
        assert_eq!(sink.of_key("key1"), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(sink.of_key("key2"), (0..10).collect::<Vec<u64>>());
        let failed =
            format!("SELECT {}::int FROM {{t}} WHERE lower(status::text) = 'failed'", attempts(layout));
        assert_eq!(case.all::<i32>(&failed).await?, [3], "{layout:?}");
        let error: String = case.one("SELECT last_error FROM {ledger}.row_notes").await?;
        assert!(error.contains("poison"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_outage_burns_no_attempt_of_any_row() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        let answers = Arc::new(AtomicU32::new(0));
        let counted = answers.clone();
        let sink = Taker::new(move |_, _| {
            (counted.fetch_add(1, Ordering::Relaxed) < 200)
                .then(|| Outcome::Down(Failure::new("maintenance")))
        });
        write(&case, 10).await?;
        let relay = relay(case.store().await?, &sink).await?;
        sink.wait_for(KEYS * 10).await;
        relay.shutdown().await?;
        assert!(answers.load(Ordering::Relaxed) > 200, "there was an outage");
        // Seed 004 counts the one try that went well.
        let own = i32::from(layout == RowLayout::OutboxEvents);
        let counted = format!("SELECT max({})::int FROM {{t}}", attempts(layout));
        assert_eq!(case.one::<i32>(&counted).await?, own, "{layout:?}");
        assert_eq!(delivered(&case).await?, (KEYS * 10) as i64);
    }
    Ok(())
}

#[tokio::test]
async fn a_relay_that_is_shut_down_during_an_outage_leaves_the_rows_as_they_were() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let sink = Taker::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(Outcome::Down(Failure::new("maintenance")))
        });
        write(&case, 3).await?;
        let relay = relay(case.store().await?, &sink).await?;
        eventually("somebody tried", async || Ok(asked.load(Ordering::Relaxed) > 0)).await?;
        relay.shutdown().await?;
        let waiting = format!(
            "SELECT count(*) FROM {{t}} WHERE lower(status::text) = 'pending' AND {} = 0",
            attempts(layout)
        );
        assert_eq!(case.one::<i64>(&waiting).await?, (KEYS * 3) as i64, "{layout:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_killed_relay_had_in_its_hands_is_delivered_by_the_next() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        write(&case, ROWS).await?;
        // Some are taken and never settled, for the relay dies before.
        let first = Taker::new(|_, number| (number >= 5).then(|| Outcome::Down(Failure::new("slow"))));
        let doomed = relay(case.store().await?, &first).await?;
        first.wait_for(KEYS).await;
        drop(doomed);
        let second = Taker::new(|_, _| None);
        let next = relay(case.store().await?, &second).await?;
        eventually("all rows are delivered", async || Ok(delivered(&case).await? == (KEYS * ROWS) as i64))
            .await?;
        next.shutdown().await?;
        for key in 0..KEYS {
            let name = format!("key{key}");
            let (before, after) = (first.of_key(&name), second.of_key(&name));
            let from = after.first().copied().unwrap_or(0);
            assert_eq!(after, (from..ROWS as u64).collect::<Vec<u64>>(), "{layout:?}: in order");
            assert!(before.len() as u64 >= from, "{layout:?}: nothing between is lost: {before:?} {after:?}");
        }
    }
    Ok(())
}

/// Beside others too. Where rows are marked before they are published, such a row is never published, and is parked.
#[tokio::test]
async fn a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other() -> Result<()> {
    for (layout, is_shared) in RowLayout::ALL.into_iter().flat_map(|layout| [(layout, false), (layout, true)])
    {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(layout).await?;
        case.table = case.table.shared(is_shared);
        write(&case, ROWS).await?;
        let bad: String = case
            .one("SELECT id::text FROM {t} AS t WHERE t::text LIKE '%key0%' AND payload->>'n' = '3'")
            .await?;
        case.refuse("{t}", "old.id::text", &[&bad], Refusing::WithAnError).await?;
        let sink = Taker::new(|_, _| None);
        let first = relay(case.store().await?, &sink).await?;
        let all_but_one = (KEYS * ROWS - 1) as i64;
        eventually("all others are recorded", async || Ok(delivered(&case).await? == all_but_one)).await?;
        first.shutdown().await?;
        let is_marked = is_shared && layout == RowLayout::OutboxEvents;
        let expected: Vec<u64> = (0..ROWS as u64).filter(|number| *number != 3 || !is_marked).collect();
        assert_eq!(sink.of_key("key0"), expected, "{layout:?}, each once");
        let again = Taker::new(|_, _| None);
        let second = relay(case.store().await?, &again).await?;
        case.run(&case.insert("key0", ROWS)).await?;
        eventually("a later row is recorded", async || Ok(delivered(&case).await? == all_but_one + 1))
            .await?;
        second.shutdown().await?;
        assert_eq!(again.taken().len(), 1, "{layout:?}: {:?}", again.taken());
    }
    Ok(())
}

/// An owner marks rows as being published, and is never heard of again.
async fn die_with_rows(store: Arc<dyn Store>, rows: usize) -> Result<()> {
    store.subscribe("mail", Start::Beginning).await?;
    let lease =
        LeaseRequest { subscription: "mail".into(), holder: "dead".into(), duration: Duration::from_secs(1) };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget { events_max: rows, bytes_max: 1_000_000 };
    let Claimed::Page(page) = store.claimer(&loaded.progress).claim(budget).await? else { panic!("a page") };
    assert_eq!(page.events.len(), rows);
    Ok(())
}

/// Two ways to say that rows are to be marked.
#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_given_back_are_delivered_in_their_order() -> Result<()> {
    for timeout in [None, Some(Duration::from_secs(3_600))] {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(RowLayout::OutboxEvents).await?;
        case.table = case.table.shared(timeout.is_none()).foreign_claim_timeout(timeout);
        write(&case, ROWS).await?;
        die_with_rows(case.store().await?, KEYS * 3).await?;
        case.run(
            "CREATE FUNCTION frozen() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'the row is frozen' USING ERRCODE = 'FRZ01'; END $$;
             CREATE TRIGGER frozen BEFORE UPDATE ON {t} FOR EACH ROW
             WHEN (old.status = 'PUBLISHING' AND new.status = 'PENDING' AND old.aggregate_id = 'key0'
                   AND old.payload->>'n' = '1')
             EXECUTE FUNCTION frozen()",
        )
        .await?;
        let sink = Taker::new(|_, _| None);
        let next = relay(case.store().await?, &sink).await?;
        eventually("all rows are delivered", async || Ok(delivered(&case).await? == (KEYS * ROWS) as i64))
            .await?;
        next.shutdown().await?;
        for key in 0..KEYS {
            assert_eq!(sink.of_key(&format!("key{key}")), (0..ROWS as u64).collect::<Vec<_>>());
        }
    }
    Ok(())
}
