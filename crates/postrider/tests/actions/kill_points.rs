//! A program that dies at any point of an execution, and a caller that is dropped at any point.

use std::time::Duration;

use postrider::action::{Retry, RetryOn};
use postrider::layout::RowLayout;
use postrider_testkit::dropped_after;
use uuid::Uuid;

use crate::drivers::{Case, Driver};
use crate::mortal::Life;
use crate::place::Place;
use crate::wallet::{Amount, Deposit, Open, PlaceOrders};

/// How often every point is hit: how long the database takes decides what a death leaves.
const ROUNDS: usize = 3;

/// The layouts whose rows have the action.
fn layouts<D: Driver>() -> impl Iterator<Item = crate::place::Layout> {
    [None, Some(RowLayout::Eventlog)].into_iter().filter(|layout| D::LAYOUTS.contains(layout))
}

/// The points are all waits for the database from the begin to the commit. Each death ends a runtime with all of its tasks and
/// connections, as the end of a process does.
pub(crate) async fn a_program_that_dies_at_any_wait_of_the_transaction_leaves_all_of_it_or_nothing<
    D: Driver,
>() {
    for layout in layouts::<D>() {
        let Some(case) = Case::<D>::new(layout).await else { return };
        let wallet = Uuid::now_v7();
        let open = case.builder().action(Open).build().unwrap();
        open.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
        let case = std::sync::Arc::new(case);
        let mut died = 0;
        for round in 0.. {
            for waits in 0.. {
                let program = case.clone();
                let run = move || run_program(&program, wallet, waits);
                let is_complete = tokio::task::spawn_blocking(run).await.unwrap();
                agrees(&case, layout, waits).await;
                if is_complete {
                    break;
                }
                died += 1;
            }
            // It waits for the begin, an UPDATE, two INSERTs, the events and the commit, unless an answer is already there.
            if round >= ROUNDS && died >= 6 * ROUNDS {
                break;
            }
            assert!(round < 20, "it died at {died} points");
        }
        // No transaction is left open: others can change the row.
        let deposit = case.builder().action(Deposit::new(case.driver.wallets())).build().unwrap();
        deposit.execute::<Deposit>(Amount { wallet, amount: 1 }).await.unwrap();
        agrees(&case, layout, usize::MAX).await;
    }
}

/// A program with its own runtime and connections. Returns whether it ended by itself.
fn run_program<D: Driver>(case: &Case<D>, wallet: Uuid, waits: usize) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let is_complete = runtime.block_on(async {
        let driver = D::connect(&case.place).await;
        let life = Life::new(waits);
        let retry = Retry::times(1_000).delay(Duration::from_millis(5));
        let builder = driver.mortal(&life).outbox(case.place.outbox());
        let builder = builder.retry(RetryOn::Stale, retry).retry(RetryOn::Busy, retry);
        let executor =
            builder.action(PlaceOrders { wallets: driver.wallets(), topic: None }).build().unwrap();
        let placing =
            tokio::spawn(async move { executor.execute::<PlaceOrders>(Amount { wallet, amount: 1 }).await });
        tokio::select! {
            placed = placing => {
                placed.unwrap().unwrap();
                true
            }
            () = life.ends() => false,
        }
    });
    runtime.shutdown_background();
    is_complete
}

/// The points are all waits of the future that the caller holds. The program and its pool live on.
pub(crate) async fn an_execution_whose_caller_is_dropped_happens_as_a_whole_or_not_at_all<D: Driver>() {
    for layout in layouts::<D>() {
        let Some(case) = Case::<D>::new(layout).await else { return };
        let retry = Retry::times(1_000);
        let builder = case.builder().retry(RetryOn::Stale, retry).retry(RetryOn::Busy, retry);
        let place_orders = PlaceOrders { wallets: case.driver.wallets(), topic: None };
        let builder = builder.action(Open).action(place_orders).action(Deposit::new(case.driver.wallets()));
        let executor = builder.build().unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
        let mut dropped = 0;
        // More often than the pool has connections: a drop that loses one would empty it.
        for _ in 0..1_000 {
            if dropped >= 20 {
                break;
            }
            for waits in 0.. {
                let ended =
                    dropped_after(waits, executor.execute::<PlaceOrders>(Amount { wallet, amount: 1 })).await;
                agrees(&case, layout, waits).await;
                match ended {
                    Some(placed) => {
                        placed.unwrap();
                        break;
                    }
                    None => dropped += 1,
                }
            }
        }
        // It waits for the read and for the transaction, unless they are complete before it is polled again.
        assert!(dropped >= 20, "it was dropped at {dropped} points");
        executor.execute::<Deposit>(Amount { wallet, amount: 1 }).await.unwrap();
        agrees(&case, layout, usize::MAX).await;
    }
}

/// Compares rows and events in one snapshot: every execution updates the wallet, inserts two orders and one note, and writes
/// three events.
async fn agrees<D: Driver>(case: &Case<D>, layout: crate::place::Layout, waits: usize) {
    let type_of = if layout.is_some() { "event_type" } else { "type" };
    let sql = format!(
        "SELECT (SELECT version - 1 FROM wallets),
                (SELECT COUNT(*) FROM {{events}} WHERE {type_of} IN ('MoneySpent', 'MoneyDeposited')),
                (SELECT COUNT(*) FROM {{events}} WHERE {type_of} = 'order.placed'),
                (SELECT COUNT(*) FROM orders),
                (SELECT COUNT(*) * 2 FROM notes),
                (SELECT COUNT(*) * 2 FROM {{events}} WHERE {type_of} = 'MoneySpent')"
    );
    let rows = case.place.rows(&sql).await;
    let counts: Vec<i64> = rows[0].iter().map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts[0], counts[1], "{counts:?} after {waits} waits");
    assert!(counts[2..].iter().all(|count| *count == counts[5]), "{counts:?} after {waits} waits");
}
