//! Another timeline of the same cluster, as after the promotion of a standby.

use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen};
use postrider::store::postgres::PostgresStore;
use postrider::store::{Acquired, AfterFailover, LeaseRequest, Settlement, Start, Store};
use postrider::{Position, Result};
use uuid::Uuid;

use super::case::{Case, case};

async fn acquired(case: &Case, choice: AfterFailover) -> Result<Acquired> {
    let store = PostgresStore::connect(&case.config.clone().after_failover(choice)).await?;
    store
        .acquire(LeaseRequest {
            subscription: "mail".to_owned(),
            holder: "a".to_owned(),
            duration: Duration::from_secs(60),
        })
        .await
}

/// Three events are delivered and settled; then the progress is changed to an earlier timeline.
async fn failed_over(case: &Case) -> Result<String> {
    for _ in 0..3 {
        case.committed("done").await?;
    }
    let store = case.store().await?;
    store.subscribe("mail", Start::Beginning).await?;
    let Acquired::Granted(loaded) = acquired(case, AfterFailover::Halt).await? else { panic!("it is free") };
    let id: Uuid = case.one("SELECT id FROM {schema}.events WHERE position = 3").await?;
    // On another connection, because the store refuses a lease that it did not take.
    let settlement = Settlement {
        subscription: "mail".to_owned(),
        epoch: loaded.epoch,
        done: Intervals::up_to(Position::new(3)),
        highest: Some(LastSeen { position: Position::new(3), id }),
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    };
    let lease = LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "a".to_owned(),
        duration: Duration::from_secs(60),
    };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("it is ours") };
    store.settle(Settlement { epoch: loaded.epoch, ..settlement }).await?;
    rewrite(case, "regexp_replace(history, '/.*', '/00000000')").await?;
    case.one("SELECT history FROM {schema}.subscriptions").await
}

async fn rewrite(case: &Case, history: &str) -> Result<()> {
    case.run(&format!("UPDATE {{schema}}.subscriptions SET history = {history}")).await
}

async fn history(case: &Case) -> Result<String> {
    case.one("SELECT history FROM {schema}.subscriptions").await
}

case! {
    async fn a_failover_halts_the_subscription_by_default(case) {
        let known = failed_over(&case).await?;
        let Acquired::Halted(reason) = acquired(&case, AfterFailover::default()).await? else {
            panic!("it must halt")
        };
        assert!(reason.contains(&known), "{reason}");
        // A later choice does not undo a halt either.
        assert_eq!(acquired(&case, AfterFailover::Check).await?, Acquired::Halted(reason));
        assert_eq!(history(&case).await?, known);
    }
}

case! {
    async fn a_checked_failover_continues_if_the_last_event_seen_still_exists(case) {
        let known = failed_over(&case).await?;
        let Acquired::Granted(loaded) = acquired(&case, AfterFailover::Check).await? else {
            panic!("nothing is missing")
        };
        assert_eq!(loaded.progress.done.to_string(), "3");
        assert_ne!(history(&case).await?, known);
        // The new history is recorded: a relay that halts after a failover now finds no change.
        assert!(matches!(acquired(&case, AfterFailover::Halt).await?, Acquired::Granted(_)));
    }
}

case! {
    async fn a_checked_failover_halts_if_the_last_event_seen_is_missing_or_different(case) {
        failed_over(&case).await?;
        case.run("UPDATE {schema}.events SET id = gen_random_uuid() WHERE position = 3").await?;
        let Acquired::Halted(reason) = acquired(&case, AfterFailover::Check).await? else { panic!("another") };
        assert!(reason.contains("position 3 held event"), "{reason}");
        case.run("UPDATE {schema}.subscriptions SET halted = NULL; DELETE FROM {schema}.events WHERE position = 3")
            .await?;
        let Acquired::Halted(reason) = acquired(&case, AfterFailover::Check).await? else { panic!("gone") };
        assert!(reason.contains("no longer exists"), "{reason}");
    }
}

case! {
    async fn a_checked_failover_halts_if_the_sequence_is_behind(case) {
        failed_over(&case).await?;
        case.run("SELECT setval('{schema}.events_position_seq', 2)").await?;
        let Acquired::Halted(reason) = acquired(&case, AfterFailover::Check).await? else { panic!("behind") };
        assert!(reason.contains("the outbox now ends at 2"), "{reason}");
    }
}

case! {
    async fn another_cluster_or_an_earlier_timeline_is_not_a_failover(case) {
        failed_over(&case).await?;
        for history in ["'1/00000001'", "regexp_replace(history, '^.*/.*$', '7/FFFFFFFF')",
                        "(SELECT system_identifier || '/FFFFFFFF' FROM pg_control_system())"] {
            rewrite(&case, history).await?;
            assert!(matches!(acquired(&case, AfterFailover::Check).await?, Acquired::Halted(_)), "{history}");
            case.run("UPDATE {schema}.subscriptions SET halted = NULL").await?;
        }
    }
}
