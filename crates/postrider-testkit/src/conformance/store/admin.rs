//! Operations of operators.

use postrider::Result;
use postrider::ledger::{ParkedRow, ParkedState};
use postrider::store::{Acquired, Epoch, Settled, Settlement, Start};

use super::Databases;
use super::stage::{NAME, events, granted, held, lease, set_of, settlement, subscribed, unread};

/// The end of a pause is reported in the same way.
pub async fn a_pause_is_reported_by_the_next_renewal_and_load(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(owner.paused, None);
    store.pause(NAME, Some("maintenance")).await?;
    let paused = Some("maintenance".to_owned());
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(paused.clone()));
    let owner = granted(&store, "a").await?;
    assert_eq!(owner.paused, paused);
    store.pause(NAME, None).await?;
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None));
    Ok(())
}

/// The lease is granted to no relay; the reason is returned.
pub async fn a_halted_subscription_is_not_granted(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    store.halt(NAME, owner.epoch, "restored").await?;
    store.release(NAME, owner.epoch, false).await?;
    for holder in ["a", "b"] {
        assert_eq!(store.acquire(lease(holder)).await?, Acquired::Halted("restored".to_owned()));
    }
    Ok(())
}

/// A previous owner must not stop the subscription of the current one, and its pause must not last longer than its
/// lease.
pub async fn an_owner_that_lost_its_lease_can_neither_halt_nor_pause(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let zombie = granted(&store, "a").await?;
    under_test.expire_lease(NAME).await?;
    let owner = granted(&store, "b").await?;
    assert_eq!(store.halt(NAME, zombie.epoch, "restored").await?, Settled::Fenced);
    assert_eq!(store.pause_as_owner(NAME, zombie.epoch, "gone").await?, Settled::Fenced);
    assert_eq!(store.renew(lease("b"), owner.epoch).await?, held(None));
    assert_eq!(store.pause_as_owner(NAME, owner.epoch, "gone").await?, Settled::Done);
    let paused = Some("gone".to_owned());
    assert_eq!(store.renew(lease("b"), owner.epoch).await?, held(paused));
    assert_eq!(store.halt(NAME, owner.epoch, "restored").await?, Settled::Done);
    assert_eq!(store.acquire(lease("b")).await?, Acquired::Halted("restored".to_owned()));
    Ok(())
}

/// An owner with a higher epoch than the database has seen a state that was lost by a restore.
pub async fn an_owner_from_before_a_restore_can_halt(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(store.halt(NAME, Epoch(owner.epoch.0 + 7), "restored").await?, Settled::Done);
    assert_eq!(store.acquire(lease("b")).await?, Acquired::Halted("restored".to_owned()));
    Ok(())
}

/// From the beginning, or from now.
pub async fn accepting_the_history_restarts_at_the_chosen_position(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(events(2)).await?;
    let owner = granted(&store, "reader").await?;
    store.settle(settlement(owner.epoch, set_of(&written))).await?;
    store.halt(NAME, owner.epoch, "restored").await?;
    store.accept_history(NAME, Start::Beginning).await?;
    assert_eq!(unread(&store).await?, written);
    let owner = granted(&store, "reader").await?;
    store.halt(NAME, owner.epoch, "restored").await?;
    store.accept_history(NAME, Start::Now).await?;
    written = under_test.write(events(1)).await?;
    assert_eq!(unread(&store).await?, written);
    Ok(())
}

/// Parked events above the new start are read again. A pause of the operator stays.
pub async fn accepting_the_history_discards_parked_rows_above_its_start(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let owner = granted(&store, "a").await?;
    let row = |position| ParkedRow {
        position,
        key: None,
        destination: None,
        state: ParkedState::Retry,
        attempts: 1,
        next_attempt_at: None,
        last_error: None,
        redelivery: None,
    };
    let park = vec![row(written[0]), row(written[2])];
    store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&written)) }).await?;
    store.pause(NAME, Some("maintenance")).await?;
    store.halt(NAME, owner.epoch, "restored").await?;
    store.accept_history(NAME, Start::Position(written[1])).await?;
    let loaded = granted(&store, "a").await?;
    assert_eq!(loaded.parked.iter().map(|row| row.position).collect::<Vec<_>>(), [written[0]]);
    assert_eq!(loaded.paused.as_deref(), Some("maintenance"));
    Ok(())
}

/// The parked events belong to the old history. They must not be mistaken for the events that have their positions now.
pub async fn accepting_the_history_discards_parked_rows_whose_position_belongs_to_another_event(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(events(1)).await?;
    let backup = under_test.back_up().await?;
    written.extend(under_test.write(events(3)).await?);
    let owner = granted(&store, "a").await?;
    let park = [ParkedState::Dead, ParkedState::Dead, ParkedState::Retry].into_iter().zip(&written);
    let park = park.map(|(state, position)| ParkedRow {
        position: *position,
        key: None,
        destination: None,
        state,
        attempts: 1,
        next_attempt_at: None,
        last_error: None,
        redelivery: None,
    });
    let park = park.collect();
    store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&written)) }).await?;
    under_test.restore(backup).await?;
    assert_eq!(under_test.write(events(3)).await?, written[1..], "the positions are given out again");
    store.halt(NAME, owner.epoch, "restored").await?;
    store.accept_history(NAME, Start::Now).await?;
    let loaded = granted(&store, "a").await?;
    assert_eq!(loaded.parked, []);
    assert_eq!(loaded.dead.iter().map(|row| row.position).collect::<Vec<_>>(), written[..1]);
    assert_eq!(loaded.parked_count, 1);
    Ok(())
}

/// The previous owner knows another history; its progress must not replace the operator's decision.
pub async fn accepting_the_history_fences_the_previous_owner(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(2)).await?;
    let owner = granted(&store, "a").await?;
    store.halt(NAME, owner.epoch, "restored").await?;
    store.accept_history(NAME, Start::Beginning).await?;
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&written))).await?, Settled::Fenced);
    store.release(NAME, owner.epoch, false).await?;
    Ok(())
}
