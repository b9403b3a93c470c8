//! A database that is not the one it was stops the subscription; it never skips.

use std::sync::Arc;

use postrider::Result;
use postrider::ledger::{Intervals, Progress};
use postrider::store::{Acquired, Settlement, Store};

use super::Databases;
use super::stage::{
    drain, events, failed, granted, history_change, lease, mark, positions, set_of, settlement, subscribed,
};

/// By the claimer that saw it.
pub async fn deleting_the_last_event_seen_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    under_test.delete(written[2]).await?;
    let why = history_change(&mut claimer).await?;
    assert!(why.contains(&written[2].to_string()), "{why:?} names the position");
    Ok(())
}

/// By the next owner, from what was settled.
pub async fn a_loaded_mark_that_is_gone_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    settle_all(&store).await?;
    under_test.delete(written[2]).await?;
    under_test.write(events(1)).await?;
    let loaded = granted(&store, "a").await?;
    history_change(&mut store.claimer(&loaded.progress)).await?;
    Ok(())
}

/// An older copy is in place.
pub async fn an_outbox_that_fell_behind_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(2)).await?;
    let backup = under_test.back_up().await?;
    under_test.write(events(2)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    settle_all(&store).await?;
    under_test.restore(backup).await?;
    history_change(&mut claimer).await?;
    let loaded = granted(&store, "a").await?;
    history_change(&mut store.claimer(&loaded.progress)).await?;
    Ok(())
}

/// An older copy is in place, and has come further than the one before: the positions are others'.
pub async fn an_outbox_that_was_rewritten_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(2)).await?;
    let backup = under_test.back_up().await?;
    under_test.write(events(2)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    settle_all(&store).await?;
    under_test.restore(backup).await?;
    under_test.write(events(5)).await?;
    history_change(&mut claimer).await?;
    // A store may notice it as soon as the state is loaded.
    match store.acquire(lease("a")).await? {
        Acquired::Granted(loaded) => history_change(&mut store.claimer(&loaded.progress)).await.map(drop),
        Acquired::Halted(_) => Ok(()),
        held @ Acquired::Held { .. } => Err(failed(format!("nobody has the lease, and yet: {held:?}"))),
    }
}

/// Also where no event is left to compare: what is done must have existed.
pub async fn an_outbox_that_fell_behind_the_floor_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let backup = under_test.back_up().await?;
    let written = under_test.write(events(3)).await?;
    under_test.restore(backup).await?;
    let progress = Progress { done: Intervals::up_to(written[2]), ..Progress::default() };
    history_change(&mut store.claimer(&progress)).await?;
    Ok(())
}

/// Cleanup does that.
pub async fn deleting_earlier_events_is_not_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    under_test.delete(written[0]).await?;
    under_test.delete(written[1]).await?;
    let later = under_test.write(events(1)).await?;
    assert_eq!(positions(&drain(&mut claimer).await?), later);
    Ok(())
}

/// Settles everything there is, with the mark of the last event.
async fn settle_all(store: &Arc<dyn Store>) -> Result<()> {
    let owner = granted(store, "a").await?;
    let read = drain(&mut store.claimer(&owner.progress)).await?;
    let done = settlement(owner.epoch, set_of(&positions(&read)));
    store.settle(Settlement { highest: read.last().map(mark), ..done }).await?;
    Ok(())
}
