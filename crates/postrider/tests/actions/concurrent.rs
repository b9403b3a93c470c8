//! Many actions that change one row at once.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::action::{Retry, RetryOn};
use postrider::layout::RowLayout;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::drivers::{Case, Driver};
use crate::place::Place;
use crate::wallet::{Amount, Deposit, Open};

const DEPOSITS: usize = 64;

pub(crate) async fn concurrent_deposits_end_with_the_right_balance_and_one_event_each<D: Driver>() {
    for layout in [None, Some(RowLayout::Eventlog)] {
        if !D::LAYOUTS.contains(&layout) {
            continue;
        }
        let Some(case) = Case::<D>::new(layout).await else { return };
        let often = Retry::times(10_000).delay(Duration::from_millis(2));
        let builder = case.builder().retry(RetryOn::Stale, often).retry(RetryOn::Busy, often);
        let executor = builder.action(Open).action(Deposit::new(case.driver.wallets())).build().unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
        let mut deposits = JoinSet::new();
        for _ in 0..DEPOSITS {
            let executor = executor.clone();
            deposits.spawn(async move { executor.execute::<Deposit>(Amount { wallet, amount: 1 }).await });
        }
        let balances = deposits.join_all().await.into_iter().collect::<Result<BTreeSet<_>, _>>().unwrap();
        assert_eq!(balances, (1..=DEPOSITS as i64).collect(), "each deposit saw the one before it");
        let place = &case.place;
        assert_eq!(place.rows("SELECT balance, version FROM wallets").await, [["64", "65"]]);
        let events = match layout {
            None => "SELECT COUNT(*), COUNT(DISTINCT id) FROM {events}",
            Some(_) => {
                "SELECT COUNT(event_type), COUNT(DISTINCT action_id) FROM {events} WHERE event_type IS NOT NULL"
            }
        };
        assert_eq!(place.rows(events).await, [["64", "64"]], "{layout:?}");
    }
}
