//! Actions in a transaction that the caller opened.

use postrider::Code;
use postrider::action::{Database, Shard};
use postrider::layout::RowLayout;
use uuid::Uuid;

use crate::drivers::{Case, Driver};
use crate::place::{Layout, Place};
use crate::wallet::{Amount, Deposit, Open};

/// The balance of the only wallet, and how many deposits there are events of.
async fn balance_and_events<D: Driver>(case: &Case<D>, layout: Layout) -> [String; 2] {
    let type_of = if layout.is_some() { "event_type" } else { "type" };
    let events = format!("SELECT count(*) FROM {{events}} WHERE {type_of} = 'MoneyDeposited'");
    [case.place.one("SELECT balance FROM wallets").await, case.place.one(&events).await]
}

pub(crate) async fn an_action_in_a_transaction_happens_if_its_caller_commits<D: Driver>() {
    for layout in [None, Some(RowLayout::Eventlog)].into_iter().filter(|of| D::LAYOUTS.contains(of)) {
        let Some(case) = Case::<D>::new(layout).await else { return };
        let deposit = Deposit::new(case.driver.wallets());
        let executor = case.builder().action(Open).action(deposit).build().unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 100 }).await.unwrap();
        let database = case.driver.database();
        let call = |amount| executor.call::<Deposit>(Amount { wallet, amount });

        let mut tx = database.begin().await.unwrap();
        assert_eq!(call(5).execute_in(&mut tx).await.unwrap(), 105);
        assert_eq!(balance_and_events(&case, layout).await, ["100", "0"], "{layout:?}: it commits nothing");
        D::Database::rollback(tx).await;
        assert_eq!(balance_and_events(&case, layout).await, ["100", "0"], "{layout:?}: rolled back");

        let mut tx = database.begin().await.unwrap();
        assert_eq!(call(7).execute_in(&mut tx).await.unwrap(), 107);
        D::Database::commit(tx).await.unwrap();
        assert_eq!(balance_and_events(&case, layout).await, ["107", "1"], "{layout:?}: committed");

        // The second one reads what is committed, so its version is stale in this transaction. It is not tried again.
        let mut tx = database.begin().await.unwrap();
        call(1).execute_in(&mut tx).await.unwrap();
        let error = call(1).execute_in(&mut tx).await.unwrap_err();
        assert_eq!(error.code(), Code::ActionStale, "{layout:?}: {error}");
        D::Database::rollback(tx).await;
        assert_eq!(balance_and_events(&case, layout).await, ["107", "1"], "{layout:?}");

        executor.add_shard(Shard::new(0, 1).unwrap(), case.driver.database());
        let mut tx = database.begin().await.unwrap();
        let error = call(1).execute_in(&mut tx).await.unwrap_err();
        assert_eq!(error.code(), Code::ShardsMixed, "{layout:?}: {error}");
        D::Database::commit(tx).await.unwrap();
        assert_eq!(balance_and_events(&case, layout).await, ["107", "1"], "{layout:?}: nothing was written");
    }
}
