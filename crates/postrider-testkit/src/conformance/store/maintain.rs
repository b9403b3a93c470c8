//! Retention deletes delivered events, and only those.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen, ParkedRow, ParkedState, Progress};
use postrider::store::{
    Acquired, Epoch, LeaseRequest, Purge, Purged, RetentionHold, Settled, Settlement, Start, Store,
};
use postrider::{Code, Event, Position, Result, Timestamp};

use super::stage::{NAME, drain, failed, granted, lease, positions, settlement, subscribed};
use super::{Database, Databases};

/// Deletes events that are older than an hour.
const PURGE: Purge = Purge::new(Duration::from_secs(3_600), 100);

/// Old according to every clock of a test.
pub(super) const OLD: Timestamp = Timestamp::from_micros(-1_000_000_000_000_000);

fn old(count: usize) -> Vec<Event> {
    (0..count).map(|_| Event::new("old", "").with_time(OLD)).collect()
}

/// Writes old events and settles them up to the given one.
async fn settled(
    under_test: &dyn Database,
    store: &Arc<dyn Store>,
    count: usize,
    up_to: usize,
    parked: &[usize],
) -> Result<Vec<Position>> {
    let events = old(count);
    let mark = events[up_to].id;
    let written = under_test.write(events).await?;
    let state = |index: usize| ParkedState::ALL[index % ParkedState::ALL.len()];
    let park = parked.iter().map(|index| ParkedRow {
        position: written[*index],
        key: None,
        destination: None,
        state: state(*index),
        attempts: 1,
        next_attempt_at: None,
        last_error: None,
        redelivery: None,
    });
    let owner = granted(store, "reader").await?;
    let done = Settlement {
        highest: Some(LastSeen { position: written[up_to], id: mark }),
        park: park.collect(),
        ..settlement(owner.epoch, Intervals::up_to(written[up_to]))
    };
    assert_eq!(store.settle(done).await?, Settled::Done);
    Ok(written)
}

/// The events in the outbox.
async fn left(store: &Arc<dyn Store>) -> Result<Vec<Position>> {
    Ok(positions(&drain(&mut store.claimer(&Progress::default())).await?))
}

/// The last one seen stays, to detect a changed history.
pub async fn old_delivered_events_are_deleted(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = settled(&*under_test, &store, 5, 4, &[]).await?;
    let purged = store.purge(PURGE).await?;
    assert_eq!(purged, Purged { deleted: 4, reached: written[4], more: false, held: None });
    assert_eq!(left(&store).await?, written[4..]);
    let again = store.purge(Purge { after: purged.reached, ..PURGE }).await?;
    assert_eq!((again.deleted, again.reached, again.more), (0, written[4], false));
    let owner = granted(&store, "reader").await?;
    let mut claimer = store.claimer(&owner.progress);
    assert!(drain(&mut claimer).await?.is_empty(), "the history is the same");
    let later = under_test.write(old(1)).await?;
    assert_eq!(positions(&drain(&mut claimer).await?), later);
    Ok(())
}

/// One short transaction deletes at most this many events, and reports whether there are more.
pub async fn deletion_respects_its_batch_size(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = settled(&*under_test, &store, 6, 5, &[]).await?;
    let mut after = Position::ZERO;
    for (deleted, reached, more) in [(2, 1, true), (2, 3, true), (1, 5, true), (0, 5, false)] {
        let purged = store.purge(Purge { after, events_max: 2, ..PURGE }).await?;
        assert_eq!((purged.deleted, purged.reached, purged.more), (deleted, written[reached], more));
        after = purged.reached;
    }
    assert_eq!(left(&store).await?, written[5..]);
    Ok(())
}

/// Later events are not examined: positions have an index, times have none.
pub async fn a_recent_event_ends_the_deletion(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(old(2)).await?;
    let now = store.overview(0).await?.now;
    written.extend(under_test.write(vec![Event::new("young", "").with_time(now)]).await?);
    written.extend(settled(&*under_test, &store, 2, 1, &[]).await?);
    let purged = store.purge(PURGE).await?;
    assert_eq!((purged.deleted, purged.reached, purged.more), (2, written[1], false));
    assert_eq!(left(&store).await?, written[2..]);
    Ok(())
}

/// In every state, by any subscription.
pub async fn parked_events_are_not_deleted(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let parked: Vec<usize> = (0..ParkedState::ALL.len()).collect();
    let count = parked.len();
    let written = settled(&*under_test, &store, count + 2, count + 1, &parked).await?;
    store.subscribe("other", Start::Now).await?;
    assert_eq!(store.purge(PURGE).await?.deleted, 1);
    let kept: Vec<Position> =
        written.iter().copied().filter(|position| *position != written[count]).collect();
    assert_eq!(left(&store).await?, kept);
    Ok(())
}

/// It is reported, with the time of the first event that it has not finished.
pub async fn the_slowest_subscription_holds_everything_back(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    store.subscribe("slow", Start::Beginning).await?;
    let written = settled(&*under_test, &store, 4, 3, &[]).await?;
    let purged = store.purge(PURGE).await?;
    let held = RetentionHold { subscription: "slow".to_owned(), floor: Position::ZERO, oldest: OLD };
    assert_eq!(purged, Purged { held: Some(held.clone()), ..Purged::default() });
    assert_eq!(left(&store).await?, written);
    let overview = store.overview(0).await?;
    assert_eq!(overview.held_back(PURGE.older_than), Some(held));
    assert_eq!(overview.held_back(Duration::MAX), None);
    Ok(())
}

/// Its floor may belong to another history and does not apply to the current events.
pub async fn a_halted_subscription_holds_everything_back(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = settled(&*under_test, &store, 4, 3, &[]).await?;
    store.halt(NAME, Epoch(i64::MAX), "restored").await?;
    let held = RetentionHold { subscription: NAME.to_owned(), floor: Position::ZERO, oldest: OLD };
    assert_eq!(store.purge(PURGE).await?, Purged { held: Some(held.clone()), ..Purged::default() });
    assert_eq!(left(&store).await?, written);
    // Every caller gets the same answer, whatever the others did.
    store.subscribe("other", Start::Now).await?;
    assert_eq!(store.overview(0).await?.held_back(PURGE.older_than), Some(held));
    Ok(())
}

/// Without a subscription it is unknown which events were delivered.
pub async fn without_a_subscription_nothing_is_deleted(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let written = under_test.write(old(3)).await?;
    assert_eq!(store.purge(PURGE).await?, Purged::default());
    assert_eq!(left(&store).await?, written);
    Ok(())
}

/// In either order, a subscription from the beginning gets all events that existed when it was created.
pub async fn a_subscription_created_during_deletion_loses_none_of_its_events(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    settled(&*under_test, &store, 50, 49, &[]).await?;
    let other = under_test.open().await?;
    let purges = async {
        let mut after = Position::ZERO;
        loop {
            match store.purge(Purge { after, events_max: 5, ..PURGE }).await {
                Ok(purged) if !purged.more => return Ok(()),
                Ok(purged) => after = purged.reached,
                Err(error) if error.code() == Code::StoreBusy => {}
                Err(error) => return Err(error),
            }
        }
    };
    let late = async {
        other.subscribe("late", Start::Beginning).await?;
        left(&other).await
    };
    let (purged, counted_on) = tokio::join!(purges, late);
    purged?;
    assert_eq!(left(&store).await?, counted_on?);
    Ok(())
}

/// A subscription that is moved back to the beginning needs all remaining events.
pub async fn a_subscription_moved_back_keeps_the_remaining_events(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = settled(&*under_test, &store, 4, 3, &[]).await?;
    assert_eq!(store.purge(Purge { events_max: 2, ..PURGE }).await?.deleted, 2);
    store.accept_history(NAME, Start::Beginning).await?;
    assert_eq!(store.purge(PURGE).await?.deleted, 0);
    assert_eq!(left(&store).await?, written[2..]);
    Ok(())
}

/// Deleted events cannot return. A subscription that starts after them does not block retention, whether a relay
/// serves it or not.
pub async fn a_subscription_that_starts_after_the_deleted_events_holds_nothing_back(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = settled(&*under_test, &store, 5, 4, &[]).await?;
    assert_eq!(store.purge(PURGE).await?.deleted, 4);
    store.subscribe("now", Start::Now).await?;
    store.subscribe("later", Start::Time(Timestamp::from_micros(OLD.as_micros() + 1))).await?;
    let floors = store.overview(0).await?.subscriptions.into_iter().map(|of| (of.name, of.floor));
    let all = ["later", NAME, "now"].map(|name| (name.to_owned(), written[4]));
    assert_eq!(floors.collect::<Vec<_>>(), all);
    assert_eq!(store.purge(PURGE).await?.held, None);
    let next = under_test.write(old(1)).await?;
    for subscription in ["now", "later"] {
        let lease = LeaseRequest { subscription: subscription.to_owned(), ..lease("reader") };
        let Acquired::Granted(loaded) = store.acquire(lease).await? else {
            return Err(failed("the lease is free"));
        };
        let mut claimer = store.claimer(&loaded.progress);
        assert_eq!(positions(&drain(&mut claimer).await?), next, "{subscription}");
    }
    Ok(())
}
