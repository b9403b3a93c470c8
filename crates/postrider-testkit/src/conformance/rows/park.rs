//! Parked rows, and how they are delivered later.

use postrider::Result;
use postrider::ledger::ParkedState;

use super::stage::{Owner, failed, later, owned, parked, state};
use super::{RowState, Tables};

/// The next owner loads the time, the reason and the key of the retry.
pub async fn a_failed_attempt_is_counted_and_waits_for_its_retry_time(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?, (RowState::Retry, 1));
    assert_eq!(owner.read().await?, [], "it waits");
    let mut next = Owner::successor(&*table, "second").await?;
    let [row] = &next.loaded.parked[..] else {
        return Err(failed(format!("one row is parked: {:?}", next.loaded.parked)));
    };
    assert_eq!((row.state, row.attempts), (ParkedState::Retry, 1));
    assert_eq!(row.key.as_deref(), events[0].event.ordering_key().as_deref());
    assert_eq!(row.next_attempt_at, Some(later(&events[0])));
    assert_eq!(row.last_error.as_deref(), Some("no such mailbox"));
    assert_eq!(next.loaded.parked_count, 1);
    assert_eq!(next.read().await?, [], "it waits for the next owner too");
    Ok(())
}

/// Both by the same owner and by the next one.
pub async fn a_retry_is_handed_out_again_and_delivered(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    let rows = events.iter().map(|event| parked(event, ParkedState::Retry, 1)).collect();
    owner.park(rows).await?;
    let fetched = owner.store.fetch(vec![events[0].position], 1_000_000).await?;
    assert_eq!(fetched.events.len(), 1);
    assert_eq!(fetched.events[0].event.payload, events[0].event.payload);
    assert!(fetched.gone.is_empty() && fetched.taken.is_empty());
    if tables.marks() {
        assert_eq!(state(&*table, &ids[0]).await?, (RowState::InFlight, 2));
    }
    owner.unpark(events[0].position).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);

    let next = Owner::successor(&*table, "second").await?;
    let position = next.loaded.parked[0].position;
    assert_eq!(next.store.fetch(vec![position], 1_000_000).await?.events[0].event.id, events[1].event.id);
    next.unpark(position).await?;
    assert_eq!(state(&*table, &ids[1]).await?.0, RowState::Done);
    Ok(())
}

/// The row itself did not fail.
pub async fn a_row_behind_another_is_untouched(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    let rows = vec![parked(&events[0], ParkedState::Retry, 1), parked(&events[1], ParkedState::Behind, 0)];
    owner.park(rows).await?;
    assert_eq!(state(&*table, &ids[1]).await?, (RowState::Waiting, 0));
    assert_eq!(owner.read().await?, [], "it is in the relay's mind");
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.parked.len(), 1);
    let behind = next.read().await?;
    assert_eq!(behind.len(), 1, "the next owner reads it again, behind the first");
    assert!(behind[0].position > next.loaded.parked[0].position);
    assert_eq!(behind[0].event.ordering_key().as_deref(), next.loaded.parked[0].key.as_deref());
    Ok(())
}

/// An outage of the destination is not a failure of the row.
pub async fn a_row_whose_destination_is_down_counts_no_attempt(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Held, 0)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?, (RowState::Waiting, 0));
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.parked[0].state, ParkedState::Held);
    assert_eq!(next.read().await?, []);
    let position = next.loaded.parked[0].position;
    assert_eq!(next.store.fetch(vec![position], 1_000_000).await?.events.len(), 1);
    next.unpark(position).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    Ok(())
}

/// The row is finished, and is not modified.
pub async fn a_waiting_row_delivered_by_another_publisher_is_reported_as_taken(
    tables: &Tables,
) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    table.deliver_elsewhere(&ids[0]).await?;
    let before = state(&*table, &ids[0]).await?;
    let fetched = owner.store.fetch(vec![events[0].position], 1_000_000).await?;
    assert_eq!((fetched.events.len(), fetched.taken), (0, vec![events[0].position]));
    owner.unpark(events[0].position).await?;
    assert_eq!(state(&*table, &ids[0]).await?, before);
    let next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.parked, []);
    Ok(())
}

/// Only a note records that a row is unrouted; the row in the table must not contradict it.
pub async fn an_unrouted_row_is_not_lost_when_it_waits_for_another_reason(tables: &Tables) -> Result<()> {
    for waits in [ParkedState::Held, ParkedState::Retry] {
        let (table, mut owner, ids, events) = owned(tables, 1).await?;
        owner.park(vec![parked(&events[0], ParkedState::Unrouted, 0)]).await?;
        let mut next = Owner::successor(&*table, "second").await?;
        let position = next.loaded.parked[0].position;
        let fetched = next.store.fetch(vec![position], 1_000_000).await?;
        let attempts = u32::from(waits == ParkedState::Retry);
        next.park(vec![parked(&fetched.events[0], waits, attempts)]).await?;
        let last = Owner::successor(&*table, "third").await?;
        let found: Vec<ParkedState> = last.loaded.parked.iter().map(|row| row.state).collect();
        assert_eq!(found, [waits], "the third owner knows of it");
        let position = last.loaded.parked[0].position;
        assert_eq!(last.store.fetch(vec![position], 1_000_000).await?.events.len(), 1);
        last.unpark(position).await?;
        assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    }
    Ok(())
}

/// The rules of the next owner may have a route for it.
pub async fn an_unrouted_row_comes_back_with_the_next_owner(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Unrouted, 0)]).await?;
    assert_eq!(
        state(&*table, &ids[0]).await?.0,
        RowState::GivenUp,
        "other programs see that it will not be tried"
    );
    let next = Owner::successor(&*table, "second").await?;
    let position = next.loaded.parked[0].position;
    assert_eq!(next.loaded.parked[0].state, ParkedState::Unrouted);
    assert_eq!(next.store.peek(vec![position], 1_000_000).await?.events.len(), 1);
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::GivenUp, "looking changes nothing");
    assert_eq!(next.store.fetch(vec![position], 1_000_000).await?.events.len(), 1);
    next.unpark(position).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    Ok(())
}
