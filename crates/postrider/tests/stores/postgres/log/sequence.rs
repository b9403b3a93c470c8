//! Positions that are assigned a second time, and progress that is set back.

use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen};
use postrider::store::postgres::PostgresStore;
use postrider::store::{
    Acquired, AfterFailover, Budget, Claimed, LeaseRequest, Loaded, Settled, Settlement, Start, Store,
};
use postrider::{Event, Position, Result};

use super::case::{Case, case, failed};

fn lease(holder: &str) -> LeaseRequest {
    LeaseRequest {
        subscription: "mail".to_owned(),
        holder: holder.to_owned(),
        duration: Duration::from_secs(60),
    }
}

async fn granted(store: &PostgresStore) -> Result<Loaded> {
    match store.acquire(lease("a")).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => panic!("{other:?}"),
    }
}

async fn halted(store: &PostgresStore, holder: &str) -> Result<String> {
    match store.acquire(lease(holder)).await? {
        Acquired::Halted(reason) => Ok(reason),
        other => panic!("{other:?}"),
    }
}

/// Only the progress.
fn settlement(loaded: &Loaded, done: Intervals) -> Settlement {
    Settlement {
        subscription: "mail".to_owned(),
        epoch: loaded.epoch,
        done,
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// A relay that led, settled everything up to a position and stopped, and the last event that it saw.
async fn settled(case: &Case, store: &PostgresStore, up_to: i64) -> Result<()> {
    store.subscribe("mail", Start::Beginning).await?;
    let loaded = granted(store).await?;
    let mut claimer = store.claimer_of("mail", &loaded);
    let Claimed::Page(page) = claimer.claim(Budget::new(100, 1 << 20)).await? else {
        panic!("the history did not change")
    };
    let last = page.events.last().unwrap();
    let highest = Some(LastSeen { position: last.position, id: last.event.id });
    let settlement = Settlement { highest, ..settlement(&loaded, Intervals::up_to(Position::new(up_to))) };
    assert_eq!(store.settle(settlement).await?, Settled::Done);
    store.release("mail", loaded.epoch, true).await?;
    case.one::<i64>("SELECT floor FROM {schema}.subscriptions").await.map(|floor| assert_eq!(floor, up_to))
}

async fn read(store: &PostgresStore) -> Result<Vec<i64>> {
    let loaded = granted(store).await?;
    let claimed = store.claimer_of("mail", &loaded).claim(Budget::new(100, 1 << 20)).await?;
    let Claimed::Page(page) = claimed else { panic!("the history did not change") };
    Ok(page.events.iter().map(|event| event.position.get()).collect())
}

case! {
    /// Retention keeps the last event seen. The sequence goes through the free positions below it, and passes it.
    async fn a_sequence_that_was_set_back_and_has_caught_up_halts_the_subscription(case) {
        for _ in 0..10 {
            case.committed("old").await?;
        }
        let store = case.store().await?;
        settled(&case, &store, 10).await?;
        case.run("DELETE FROM {schema}.events WHERE position < 10;
                  ALTER SEQUENCE {schema}.events_position_seq RESTART").await?;
        for _ in 0..9 {
            case.committed("new").await?;
        }
        case.committed("refused by the key").await.unwrap_err();
        assert_eq!(case.committed("new").await?, 11);
        let reason = halted(&store, "a").await?;
        assert!(reason.contains("set back") && reason.contains("9 later events are at 1 to 9"), "{reason}");
        assert!(reason.contains("--from position:1"), "{reason}");
        // Another process does not either, later.
        assert_eq!(halted(&case.store().await?, "b").await?, reason);
        store.accept_history("mail", Start::Position(Position::new(1))).await?;
        assert_eq!(read(&store).await?, (1..=11).collect::<Vec<_>>());
    }
}

case! {
    /// Rolled-back transactions leave positions without a row above the last event seen.
    async fn empty_positions_that_are_reused_halt_the_subscription(case) {
        for _ in 0..3 {
            case.committed("old").await?;
        }
        for _ in 0..3 {
            case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
        }
        let store = case.store().await?;
        settled(&case, &store, 6).await?;
        case.run("ALTER SEQUENCE {schema}.events_position_seq RESTART WITH 4").await?;
        for _ in 0..4 {
            case.committed("new").await?;
        }
        let reason = halted(&store, "a").await?;
        assert!(reason.contains("3 later events are at 4 to 6"), "{reason}");
    }
}

case! {
    async fn an_event_committed_long_after_later_ones_were_settled_does_not_halt_the_subscription(case) {
        let late = case.writing("late").await?;
        case.committed("fast").await?;
        let store = case.store().await?;
        store.subscribe("mail", Start::Beginning).await?;
        let loaded = granted(&store).await?;
        let mut done = Intervals::default();
        done.insert(Position::new(2));
        store.settle(settlement(&loaded, done)).await?;
        late.batch_execute("COMMIT").await.map_err(failed)?;
        assert_eq!(read(&store).await?, [1]);
    }
}

case! {
    /// It got its transaction id after the one that committed first, and the relay restarts before it commits.
    async fn an_event_with_a_higher_transaction_id_that_is_committed_after_a_restart_is_read_and_halts_nothing(case) {
        let store = case.store().await?;
        store.subscribe("mail", Start::Beginning).await?;
        let loaded = granted(&store).await?;
        let (fast, late) = (case.another_writer().await?, case.another_writer().await?);
        for writer in [&fast, &late] {
            writer.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.map_err(failed)?;
        }
        case.outbox().write(&late, Event::new("late", "")).await?;
        case.outbox().write(&fast, Event::new("fast", "")).await?;
        fast.batch_execute("COMMIT").await.map_err(failed)?;
        let mut done = Intervals::default();
        done.insert(Position::new(2));
        assert_eq!(store.settle(settlement(&loaded, done)).await?, Settled::Done);
        store.release("mail", loaded.epoch, true).await?;
        late.batch_execute("COMMIT").await.map_err(failed)?;
        // This holds on a private server; transactions of other tests may have raised it.
        let seen = "UPDATE {schema}.subscriptions SET seen_tx = (SELECT tx FROM {schema}.events WHERE position = 1)";
        case.run(seen).await?;
        assert_eq!(read(&case.store().await?).await?, [1]);
        // Positions above the gap that are done are still checked.
        let reused = "UPDATE {schema}.events SET tx = pg_current_xact_id() WHERE position = 2";
        case.run(reused).await?;
        assert!(halted(&case.store().await?, "a").await?.contains("1 later events are at 2 to 2"));
    }
}

case! {
    /// A dump contains transaction ids of its server, and the server that it is restored to may have assigned fewer.
    async fn events_with_transaction_ids_of_another_server_do_not_halt_a_subscription_permanently(case) {
        for _ in 0..3 {
            case.committed("restored").await?;
        }
        let store = case.store().await?;
        settled(&case, &store, 3).await?;
        case.run("UPDATE {schema}.events SET tx = '4000000000000' WHERE position = 1").await?;
        let near = "UPDATE {schema}.events SET tx = (pg_current_xact_id()::text::bigint + 200)::text::xid8
                    WHERE position > 1";
        case.run(near).await?;
        store.accept_history("mail", Start::Position(Position::new(4))).await?;
        for _ in 0..2 {
            granted(&store).await?;
        }
        // The server reaches the transaction ids of the other one while nothing is settled.
        for _ in 0..300 {
            case.run("SELECT pg_current_xact_id()").await?;
        }
        granted(&case.store().await?).await?;
    }
}

case! {
    /// The relay never had the lease, so it cannot detect the change by its own progress.
    async fn a_standby_relay_that_never_led_detects_a_restored_database(case) {
        for _ in 0..5 {
            case.committed("old").await?;
        }
        let (leader, standby) = (case.store().await?, case.store().await?);
        settled(&case, &leader, 3).await?;
        case.run("CREATE TABLE {schema}.backup AS SELECT * FROM {schema}.subscriptions").await?;
        settled(&case, &leader, 5).await?;
        granted(&leader).await?;
        assert!(matches!(standby.acquire(lease("b")).await?, Acquired::Held { .. }));
        case.run(
            "DELETE FROM {schema}.leases;
             UPDATE {schema}.subscriptions AS s SET epoch = b.epoch, floor = b.floor, done = b.done FROM {schema}.backup AS b",
        )
        .await?;
        let reason = halted(&standby, "b").await?;
        assert!(reason.contains("up to position 5") && reason.contains("has 3"), "{reason}");
        assert!(reason.contains("`--from floor` continues after position 3") && reason.contains("skips"), "{reason}");
    }
}

case! {
    /// A failover that lost what this process had settled: the relay must not log first that it continues.
    async fn a_failover_that_lost_progress_halts_without_accepting_the_new_history(case) {
        for _ in 0..5 {
            case.committed("old").await?;
        }
        let store = PostgresStore::connect(&case.config.clone().after_failover(AfterFailover::Check)).await?;
        settled(&case, &store, 5).await?;
        case.run(
            "UPDATE {schema}.subscriptions
             SET epoch = 0, floor = 3, done = '3', history = split_part(history, '/', 1) || '/00000000'",
        )
        .await?;
        let reason = halted(&store, "a").await?;
        assert!(reason.contains("timeline") && reason.contains("--from floor"), "{reason}");
        let history: String = case.one("SELECT history FROM {schema}.subscriptions").await?;
        assert!(history.ends_with("/00000000"), "the new history was not accepted: {history}");
    }
}
