//! Rows that are given up, and what an operator can do about it.

use postrider::Result;
use postrider::ledger::ParkedState;

use super::stage::{Owner, owned, parked, state};
use super::{ATTEMPTS_MAX, RowState, Tables};

/// If the message itself is bad, after one attempt.
pub async fn a_row_given_up_is_never_due(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    owner.park(vec![parked(&events[0], ParkedState::Dead, 1)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::GivenUp);
    owner.deliver(&events[1..]).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.parked, []);
    assert_eq!(next.loaded.dead.len(), 1);
    assert_eq!(next.loaded.dead[0].attempts, 1, "the note knows how often it was tried");
    assert_eq!(next.loaded.parked_count, 1);
    assert_eq!(next.read().await?, []);
    Ok(())
}

/// The owner is still active.
pub async fn a_row_given_up_and_reset_is_read_again(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Dead, 1)]).await?;
    table.put_back(&ids[0]).await?;
    let again = owner.read().await?;
    assert_eq!(again.len(), 1);
    assert!(again[0].position > events[0].position);
    owner.deliver(&again).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    let next = Owner::successor(&*table, "second").await?;
    assert_eq!((next.loaded.dead.len(), next.loaded.parked_count), (0, 0), "its note is gone");
    Ok(())
}

/// There is no owner while the row is reset.
pub async fn a_row_given_up_and_reset_is_read_by_the_next_owner(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Dead, 1)]).await?;
    table.put_back(&ids[0]).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.dead, []);
    assert_eq!(next.read().await?.len(), 1);
    Ok(())
}

/// The event contains the number of attempts that are left.
pub async fn attempts_of_an_earlier_owner_count(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    assert_eq!(events[0].event.max_attempts, Some(ATTEMPTS_MAX));
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    let row = next.loaded.parked[0].clone();
    let fetched = next.store.fetch(vec![row.position], 1_000_000).await?;
    assert_eq!((row.attempts, fetched.events[0].event.max_attempts), (1, Some(ATTEMPTS_MAX)));
    next.park(vec![parked(&fetched.events[0], ParkedState::Retry, 2)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?, (RowState::Retry, 2));
    let mut last = Owner::successor(&*table, "third").await?;
    let fetched = last.store.fetch(vec![last.loaded.parked[0].position], 1_000_000).await?;
    last.park(vec![parked(&fetched.events[0], ParkedState::Dead, 3)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?, (RowState::GivenUp, ATTEMPTS_MAX));
    Ok(())
}
