//! Connections that are lost, and servers that are not what they were.

use std::time::Duration;

use postrider::ledger::{Intervals, Progress};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{
    Acquired, Budget, Claimed, Epoch, LeaseRequest, Loaded, Settled, Settlement, Start, Store,
};
use postrider::{Code, Position, Recovery, Result};

use super::case::{Case, case};

const BUDGET: Budget = Budget { events_max: 100, bytes_max: 1 << 20 };

fn lease() -> LeaseRequest {
    LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "a".to_owned(),
        duration: Duration::from_secs(60),
    }
}

async fn granted(store: &PostgresStore) -> Result<Loaded> {
    let Acquired::Granted(loaded) = store.acquire(lease()).await? else { panic!("the lease is ours") };
    Ok(*loaded)
}

async fn subscribed(case: &Case) -> Result<PostgresStore> {
    let store = case.store().await?;
    store.subscribe("mail", Start::Beginning).await?;
    Ok(store)
}

fn settlement(epoch: Epoch) -> Settlement {
    Settlement {
        subscription: "mail".to_owned(),
        epoch,
        done: Intervals::up_to(Position::new(1)),
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

case! {
    async fn after_a_lost_connection_the_old_lease_is_refused_and_a_new_one_works(case) {
        let store = subscribed(&case).await?;
        let before = granted(&store).await?;
        assert_eq!(store.settle(settlement(before.epoch)).await?, Settled::Done);
        case.cut().await?;
        // The first to notice, and those after it: the epoch is still the row's, the connection is another.
        for _ in 0..3 {
            let error = store.settle(settlement(before.epoch)).await.unwrap_err();
            assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
        }
        let error = store.renew(lease(), before.epoch).await.unwrap_err();
        assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
        let after = granted(&store).await?;
        assert!(after.epoch > before.epoch);
        assert_eq!(store.settle(settlement(after.epoch)).await?, Settled::Done);
    }
}

case! {
    async fn a_claimer_does_not_outlive_its_connection(case) {
        let store = case.store().await?;
        case.committed("a").await?;
        let mut claimer = store.claimer(&Progress::default());
        claimer.claim(BUDGET).await?;
        case.cut().await?;
        for _ in 0..3 {
            let error = claimer.claim(BUDGET).await.unwrap_err();
            assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
        }
        let claimed = store.claimer(&Progress::default()).claim(BUDGET).await?;
        assert!(matches!(claimed, Claimed::Page(page) if page.events.len() == 1));
    }
}

case! {
    async fn a_dropped_claim_loses_nothing(case) {
        let store = case.store().await?;
        case.committed("a").await?;
        let mut claimer = store.claimer(&Progress::default());
        for polls in 1..30 {
            let mut claim = claimer.claim(BUDGET);
            for _ in 0..polls {
                tokio::select! { biased; _ = &mut claim => break, () = tokio::task::yield_now() => {} }
            }
        }
        case.committed("b").await?;
        let mut read = 0;
        while let Claimed::Page(page) = claimer.claim(BUDGET).await? {
            read += page.events.len();
            if page.events.iter().any(|event| event.position.get() == 2) {
                break;
            }
        }
        assert!(read >= 1);
    }
}

case! {
    async fn a_standby_that_was_promoted_halts_the_subscription(case) {
        let store = subscribed(&case).await?;
        case.run("UPDATE {schema}.subscriptions SET history = replace(history, '/', '/0')").await?;
        for _ in 0..2 {
            let Acquired::Halted(reason) = store.acquire(lease()).await? else { panic!("another history") };
            assert!(reason.contains("timeline"), "{reason}");
        }
        store.accept_history("mail", Start::Beginning).await?;
        granted(&store).await?;
    }
}

case! {
    async fn who_is_not_let_in_is_told_so(case) {
        let refused = case.config_as("nobody_of_this_name")?;
        assert_eq!(PostgresStore::connect(&refused).await.unwrap_err().code(), Code::LoginRefused);
        let nowhere = PostgresConfig::new("postgres://127.0.0.1:1/postgres")?;
        assert_eq!(PostgresStore::connect(&nowhere).await.unwrap_err().code(), Code::StoreFailed);
        let error = PostgresConfig::new("postgres://u:secret@[").unwrap_err();
        assert_eq!(error.code(), Code::ConfigValue);
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

case! {
    async fn a_closed_store_answers_no_more(case) {
        let store = case.store().await?;
        store.close().await;
        assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::StoreFailed);
    }
}
