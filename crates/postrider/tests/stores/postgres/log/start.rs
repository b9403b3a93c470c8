//! Where a subscription begins while transactions are open.

use std::time::Duration;

use postrider::store::{Acquired, Budget, Claimed, Epoch, LeaseRequest, Start, Store};
use postrider::{Result, Timestamp};

use super::case::{Case, case, failed};

/// The events that a new owner reads.
async fn unread(case: &Case, name: &str) -> Result<Vec<i64>> {
    let store = case.store().await?;
    let lease = LeaseRequest {
        subscription: name.to_owned(),
        holder: "a".to_owned(),
        duration: Duration::from_secs(60),
    };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget::new(100, 1 << 20);
    let claimed = store.claimer(&loaded.progress).claim(budget).await?;
    let Claimed::Page(page) = claimed else { panic!("the history did not change") };
    Ok(page.events.iter().map(|event| event.position.get()).collect())
}

case! {
    async fn starting_now_includes_events_written_before_and_committed_after(case) {
        case.committed("seen").await?;
        let between = case.writing("late").await?;
        case.committed("seen").await?;
        let behind = case.writing("late").await?;
        let store = case.store().await?;
        store.subscribe("now", Start::Now).await?;
        store.subscribe("later", Start::Time(Timestamp::from_micros(i64::MAX / 2))).await?;
        for late in [between, behind] {
            late.batch_execute("COMMIT").await.map_err(failed)?;
        }
        case.committed("new").await?;
        assert_eq!(unread(&case, "now").await?, [2, 4, 5]);
        assert_eq!(unread(&case, "later").await?, [2, 4, 5]);
    }
}

case! {
    async fn starting_at_a_position_beyond_the_end_starts_at_the_end(case) {
        let store = case.store().await?;
        store.subscribe("early", Start::Position(postrider::Position::new(100))).await?;
        let done: String = case.one("SELECT done FROM {schema}.subscriptions").await?;
        assert_eq!(done, "0");
    }
}

case! {
    /// The floor of a subscription with an explicit start proves nothing about earlier positions.
    async fn events_that_another_subscription_skips_are_still_delivered(case) {
        let open = case.writing("late").await?;
        case.committed("seen").await?;
        let store = case.store().await?;
        store.subscribe("position", Start::Position(postrider::Position::new(3))).await?;
        store.subscribe("now", Start::Now).await?;
        let floors: Vec<i64> =
            store.overview(0).await?.subscriptions.iter().map(|known| known.floor.get()).collect();
        assert_eq!(floors, [0, 2], "now, position");
        open.batch_execute("COMMIT").await.map_err(failed)?;
        assert_eq!(unread(&case, "now").await?, [1]);
    }
}

case! {
    async fn rolled_back_and_deleted_positions_are_done_for_a_subscription_that_starts_now(case) {
        let gone = case.writing("gone").await?;
        case.committed("deleted").await?;
        case.committed("seen").await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.run("DELETE FROM {schema}.events WHERE type = 'deleted'").await?;
        let last = case.writing("gone").await?;
        last.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.store().await?.subscribe("now", Start::Now).await?;
        let done: String = case.one("SELECT done FROM {schema}.subscriptions").await?;
        assert_eq!(done, "4");
        case.committed("new").await?;
        assert_eq!(unread(&case, "now").await?, [5]);
    }
}

case! {
    /// A prepared transaction has no connection any more, and another name.
    async fn a_subscription_that_starts_now_waits_for_a_prepared_writer(case) {
        let late = case.writing("late").await?;
        let name = case.sql("start of {schema}");
        late.batch_execute(&format!("PREPARE TRANSACTION '{name}'")).await.map_err(failed)?;
        case.committed("seen").await?;
        case.store().await?.subscribe("now", Start::Now).await?;
        case.run(&format!("COMMIT PREPARED '{name}'")).await?;
        assert_eq!(unread(&case, "now").await?, [1]);
    }
}

case! {
    /// Whether dead letters are kept must not depend on concurrent writers.
    async fn accepting_a_history_now_keeps_parked_events_while_a_writer_is_open(case) {
        let store = case.store().await?;
        store.subscribe("mail", Start::Beginning).await?;
        let open = case.writing("late").await?;
        case.committed("dead").await?;
        case.run(
            "INSERT INTO {schema}.parked (subscription, position, state, attempts) VALUES
             ('mail', 1, 'dead', 1), ('mail', 2, 'dead', 1)",
        )
        .await?;
        store.halt("mail", Epoch(9), "restored").await?;
        store.accept_history("mail", Start::Now).await?;
        let parked: Vec<i64> = case.one("SELECT array_agg(position) FROM {schema}.parked").await?;
        assert_eq!(parked, [2], "the first is read again when its writer commits");
        open.batch_execute("COMMIT").await.map_err(failed)?;
        assert_eq!(unread(&case, "mail").await?, [1]);
    }
}
