//! A database whose history changed halts the subscription; no event is skipped.

use std::sync::Arc;

use postrider::Result;
use postrider::ledger::{Intervals, Progress};
use postrider::store::{Acquired, Claimer, Settlement, Store};

use super::stage::{
    drain, events, failed, granted, history_change, lease, mark, positions, set_of, settlement, subscribed,
};
use super::{Database, Databases};

/// Detected by the claimer that saw it.
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

/// Detected by the next owner, from the settled progress.
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

/// An older copy was restored.
pub async fn an_outbox_that_fell_behind_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (_under_test, store, mut claimer) = restored_behind(databases).await?;
    history_change(&mut claimer).await?;
    let loaded = granted(&store, "a").await?;
    history_change(&mut store.claimer(&loaded.progress)).await?;
    Ok(())
}

/// An older copy was restored and has grown past the previous state: the positions belong to other events.
pub async fn an_outbox_that_was_rewritten_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store, mut claimer) = restored_behind(databases).await?;
    under_test.write(events(5)).await?;
    history_change(&mut claimer).await?;
    // A store may detect it while it loads the state.
    match store.acquire(lease("a")).await? {
        Acquired::Granted(loaded) => history_change(&mut store.claimer(&loaded.progress)).await.map(drop),
        Acquired::Halted(_) => Ok(()),
        held @ Acquired::Held { .. } => Err(failed(format!("the lease is free, and yet: {held:?}"))),
    }
}

/// Even if no event is left to compare: positions that are done must have existed.
pub async fn an_outbox_that_fell_behind_the_floor_is_a_changed_history(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let backup = under_test.back_up().await?;
    let written = under_test.write(events(3)).await?;
    under_test.restore(backup).await?;
    let progress = Progress { done: Intervals::up_to(written[2]), ..Progress::default() };
    history_change(&mut store.claimer(&progress)).await?;
    Ok(())
}

/// Retention does that.
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

/// An outbox with four settled events that was restored to two, and the claimer that has read all four.
async fn restored_behind(
    databases: &Databases,
) -> Result<(Box<dyn Database>, Arc<dyn Store>, Box<dyn Claimer>)> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(2)).await?;
    let backup = under_test.back_up().await?;
    under_test.write(events(2)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    settle_all(&store).await?;
    under_test.restore(backup).await?;
    Ok((under_test, store, claimer))
}

/// Settles every event, with the mark of the last one.
async fn settle_all(store: &Arc<dyn Store>) -> Result<()> {
    let owner = granted(store, "a").await?;
    let read = drain(&mut store.claimer(&owner.progress)).await?;
    let done = settlement(owner.epoch, set_of(&positions(&read)));
    store.settle(Settlement { highest: read.last().map(mark), ..done }).await?;
    Ok(())
}
