//! Lost connections, and servers that were replaced.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, ParkedRow, ParkedState, Progress};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{
    Acquired, Budget, Claimed, Epoch, LeaseRequest, Loaded, Renewed, Settled, Settlement, Start, Store,
};
use postrider::{Code, Position, Recovery, Result, Timestamp};

use postrider_testkit::conformance::store::lease::a_renewal_does_not_wait_for_a_report;
use postrider_testkit::eventually;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::postgres;

use super::case::{Case, RELAY, case, failed};

const BUDGET: Budget = Budget::new(100, 1 << 20);

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
        // The first call that notices it, and later ones: the epoch is still that of the row, but the connection is a
        // new one.
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
    async fn a_lease_is_released_over_another_connection_if_one_is_cut(case) {
        let proxy = Proxy::to(postgres::port().unwrap()).await.map_err(failed)?;
        let address = format!("postgres://{RELAY}@127.0.0.1:{}/postgres", proxy.port());
        let store = PostgresStore::connect(&case.config_at(&address)?).await?;
        store.subscribe("mail", Start::Beginning).await?;
        let owner = granted(&store).await?;
        // The lease is released before the cut connection is noticed.
        proxy.cut();
        store.release("mail", owner.epoch, true).await?;
        let left: i64 = case.one("SELECT count(*) FROM {schema}.leases").await?;
        assert_eq!(left, 0);
        assert!(granted(&store).await?.clean);
    }
}

case! {
    async fn no_renewal_waits_for_a_subscription_that_takes_long_to_create(case) {
        let store = subscribed(&case).await?;
        let owner = granted(&store).await?;
        // A process that creates a subscription waits for one that deletes events.
        let deleting = "(hashtextextended('postrider retention of \"{schema}\"', 0))";
        case.run(&format!("SELECT pg_advisory_lock{deleting}")).await?;
        let creator = store.clone();
        let creating = tokio::spawn(async move { creator.subscribe("other", Start::Now).await });
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                       WHERE locktype = 'advisory' AND NOT granted AND application_name = '{schema}'";
        eventually("the creation waits", async || Ok(case.one::<i64>(waiting).await? > 0)).await?;
        assert_eq!(store.renew(lease(), owner.epoch).await?, Renewed::Held { paused: None, parked_changed: false });
        assert!(!creating.is_finished(), "the renewal came first");
        case.run(&format!("SELECT pg_advisory_unlock{deleting}")).await?;
        assert!(creating.await.unwrap()?);
        // Its connection is closed.
        let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}'";
        eventually("one connection is left", async || Ok(case.one::<i64>(connections).await? <= 1)).await?;
    }
}

case! {
    async fn no_renewal_waits_for_a_blocked_report(case) {
        case.run("BEGIN; LOCK TABLE {schema}.relays IN ACCESS EXCLUSIVE MODE").await?;
        let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '{schema}.relays'::regclass AND NOT granted)";
        let store = Arc::new(case.store().await?);
        let report = a_renewal_does_not_wait_for_a_report(store, async || case.one(waiting).await).await?;
        case.run("COMMIT").await?;
        report.await.unwrap()?;
    }
}

case! {
    async fn a_parked_row_that_an_operator_postpones_to_infinity_breaks_no_lease(case) {
        let store = subscribed(&case).await?;
        let mut owner = granted(&store).await?;
        case.committed("parked").await?;
        let row = ParkedRow {
            position: Position::new(1),
            key: None,
            destination: None,
            state: ParkedState::Retry,
            attempts: 1,
            next_attempt_at: Some(Timestamp::from_micros(1)),
            last_error: None,
            redelivery: None,
        };
        store.settle(Settlement { park: vec![row], ..settlement(owner.epoch) }).await?;
        for end in ["infinity", "-infinity"] {
            case.run(&format!("UPDATE {{schema}}.parked SET next_attempt_at = '{end}'")).await?;
            let reported = Renewed::Held { paused: None, parked_changed: true };
            assert_eq!(store.renew(lease(), owner.epoch).await?, reported);
            owner = granted(&store).await?;
            let unchanged = Renewed::Held { paused: None, parked_changed: false };
            assert_eq!(store.renew(lease(), owner.epoch).await?, unchanged);
            // After it is written again, it has its previous value.
            let park: Vec<_> = owner.parked.iter().cloned().map(|row| ParkedRow { attempts: 7, ..row }).collect();
            assert_eq!(store.settle(Settlement { park, ..settlement(owner.epoch) }).await?, Settled::Done);
            assert_eq!(store.renew(lease(), owner.epoch).await?, unchanged);
            let found: String = case.one("SELECT attempts || ' ' || next_attempt_at FROM {schema}.parked").await?;
            assert_eq!(found, format!("7 {end}"));
        }
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
    async fn a_promoted_standby_halts_the_subscription(case) {
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
    async fn a_refused_login_is_reported(case) {
        let refused = case.config_as("nobody_of_this_name")?;
        assert_eq!(PostgresStore::connect(&refused).await.unwrap_err().code(), Code::LoginRefused);
        let nowhere = PostgresConfig::new("postgres://127.0.0.1:1/postgres")?;
        assert_eq!(PostgresStore::connect(&nowhere).await.unwrap_err().code(), Code::StoreFailed);
        let error = PostgresConfig::new("postgres://u:secret@[").unwrap_err();
        assert_eq!(error.code(), Code::ConfigValue);
        assert!(!error.report().contains("secret"), "{error}");
    }
}

case! {
    async fn a_closed_store_refuses_calls(case) {
        let store = case.store().await?;
        store.close().await;
        assert_eq!(store.pause("mail", None).await.unwrap_err().code(), Code::StoreFailed);
        assert_eq!(store.accept_history("mail", Start::Now).await.unwrap_err().code(), Code::StoreFailed);
    }
}
