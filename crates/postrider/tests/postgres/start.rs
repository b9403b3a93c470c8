//! Where a subscription begins while transactions are open.

use std::time::Duration;

use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Start, Store};
use postrider::{Result, Timestamp};

use super::case::{Case, case, failed};

/// The events a new owner reads.
async fn unread(case: &Case, name: &str) -> Result<Vec<i64>> {
    let store = case.store().await?;
    let lease = LeaseRequest {
        subscription: name.to_owned(),
        holder: "a".to_owned(),
        duration: Duration::from_secs(60),
    };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget { events_max: 100, bytes_max: 1 << 20 };
    let claimed = store.claimer(&loaded.progress).claim(budget).await?;
    let Claimed::Page(page) = claimed else { panic!("the history did not change") };
    Ok(page.events.iter().map(|event| event.position.get()).collect())
}

case! {
    async fn now_includes_what_was_written_before_and_is_committed_after(case) {
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
    async fn a_position_the_outbox_has_not_reached_is_its_end(case) {
        let store = case.store().await?;
        store.subscribe("early", Start::Position(postrider::Position::new(100))).await?;
        let done: String = case.one("SELECT done FROM {schema}.subscriptions").await?;
        assert_eq!(done, "0");
    }
}
