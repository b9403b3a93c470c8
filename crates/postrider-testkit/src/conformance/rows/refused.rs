//! Rows that their table refuses to change: they delay no other row and are not read again.

use postrider::Result;
use postrider::ledger::{ParkedRow, ParkedState};

use super::stage::{Owner, owned, parked, state, subscribed};
use super::{ATTEMPTS_MAX, Refusing, RowState, Tables};

/// The UPDATE fails, and the database undoes the whole statement.
pub async fn a_delivered_row_that_cannot_be_updated_delays_no_other_and_is_not_read_again(
    tables: &Tables,
) -> Result<()> {
    delivered(tables, Refusing::WithAnError, 40, &[7]).await
}

/// A trigger leaves the row as it is and reports nothing.
pub async fn a_delivered_row_whose_update_is_silently_ignored_is_not_read_again(
    tables: &Tables,
) -> Result<()> {
    delivered(tables, Refusing::InSilence, 40, &[7]).await
}

/// Enough rows that a store uses more than one connection.
pub async fn some_of_many_delivered_rows_cannot_be_updated(tables: &Tables) -> Result<()> {
    delivered(tables, Refusing::WithAnError, 700, &[0, 350, 699]).await
}

async fn delivered(tables: &Tables, how: Refusing, rows: usize, bad: &[usize]) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, rows).await?;
    let refused: Vec<&str> = bad.iter().map(|at| ids[*at].as_str()).collect();
    if !table.refuse(&refused, how).await? {
        return Ok(());
    }
    owner.deliver(&events).await?;
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(state(&*table, id).await?.0 == RowState::Done, !bad.contains(&at), "{id}");
    }
    assert_eq!(owner.read().await?, [], "none is read again by this owner");
    let overview = owner.store.overview(10).await?;
    let reported = &overview.subscriptions[0].parked;
    assert_eq!(reported.count(ParkedState::Dead), bad.len() as u64);
    assert!(reported.last_error().unwrap_or_default().contains("rejects"), "{:?}", reported.last_error());
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.read().await?, [], "nor by the next");
    assert_eq!((next.loaded.parked.len(), next.loaded.dead.len()), (0, 0), "its key waits for nothing");
    let more = table.write("k", 1).await?;
    let events = next.read().await?;
    next.deliver(&events).await?;
    assert_eq!(state(&*table, &more[0]).await?.0, RowState::Done);
    Ok(())
}

/// Together with rows that are delivered and one that waits.
pub async fn a_row_that_is_given_up_and_cannot_be_updated_is_not_read_again(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 10).await?;
    if !table.refuse(&[&ids[4], &ids[6]], Refusing::WithAnError).await? {
        return Ok(());
    }
    let apart = |at: &usize| ![4, 6].contains(at);
    (0..10).filter(apart).for_each(|at| owner.done.insert(events[at].position));
    let dead = parked(&events[4], ParkedState::Dead, ATTEMPTS_MAX);
    owner.park(vec![dead, parked(&events[6], ParkedState::Retry, 1)]).await?;
    for at in (0..10).filter(apart) {
        assert_eq!(state(&*table, &ids[at]).await?.0, RowState::Done, "{at}");
    }
    assert_eq!(owner.read().await?, []);
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.read().await?, []);
    let (dead, waits) = (&next.loaded.dead, &next.loaded.parked);
    assert_eq!((dead.len(), waits.len()), (1, 1), "{dead:?} {waits:?}");
    assert_eq!((waits[0].state, waits[0].attempts), (ParkedState::Retry, 1));
    let fetched = next.store.fetch(vec![waits[0].position], 1_000_000).await?;
    if fetched.events.is_empty() {
        // A layout that marks rows before they are published cannot mark this one.
        assert!(tables.marks());
        return Ok(());
    }
    next.unpark(waits[0].position).await?;
    let mut last = Owner::successor(&*table, "third").await?;
    assert_eq!((last.loaded.parked.len(), last.loaded.dead.len()), (0, 1));
    assert_eq!(last.read().await?, []);
    Ok(())
}

/// If rows are marked before they are published, such a row is not published; otherwise it is published once.
pub async fn a_row_that_cannot_be_updated_from_the_start_is_parked(tables: &Tables) -> Result<()> {
    let (table, store) = subscribed(tables).await?;
    let ids = table.write("k", 20).await?;
    if !table.refuse(&[&ids[3]], Refusing::WithAnError).await? {
        return Ok(());
    }
    let mut owner = Owner::new(store, "first").await?;
    let page = owner.page(super::stage::PLENTY).await?;
    assert_eq!((page.events.len(), page.damaged.len()), if tables.marks() { (19, 1) } else { (20, 0) });
    page.events.iter().for_each(|event| owner.done.insert(event.position));
    let damaged = page.damaged.into_iter().map(|(position, why)| ParkedRow {
        position,
        key: None,
        destination: None,
        state: ParkedState::Dead,
        attempts: 0,
        next_attempt_at: None,
        last_error: Some(why),
        redelivery: None,
    });
    owner.park(damaged.collect()).await?;
    assert_eq!(owner.read().await?, []);
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.read().await?, []);
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(state(&*table, id).await?.0 == RowState::Done, at != 3, "{id}");
    }
    Ok(())
}

/// A row is delivered however often it was attempted.
pub async fn an_attempt_count_at_the_maximum_of_its_column_stays_there(tables: &Tables) -> Result<()> {
    let (table, store) = subscribed(tables).await?;
    let ids = table.write("k", 3).await?;
    if !table.count_to_the_end(&ids[1]).await? {
        return Ok(());
    }
    let mut owner = Owner::new(store, "first").await?;
    let events = owner.read().await?;
    assert_eq!(events.len(), 3);
    // A changed row may have another position in the order.
    let (first, others): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| event.event.payload.as_ref() == b"{\"n\": 0}");
    owner.deliver(&others).await?;
    assert_eq!(state(&*table, &ids[1]).await?.0, RowState::Done);
    owner.park(vec![parked(&first[0], ParkedState::Dead, u32::MAX)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::GivenUp);
    Ok(())
}

/// If rows are marked, they are delivered with the mark of the owner that died.
pub async fn rows_of_a_dead_owner_that_cannot_be_released_are_still_delivered(tables: &Tables) -> Result<()> {
    let (table, owner, ids, _) = owned(tables, 5).await?;
    if !tables.marks() || !table.refuse_waiting(&[&ids[1], &ids[3]]).await? {
        return Ok(());
    }
    drop(owner);
    let mut next = Owner::successor(&*table, "second").await?;
    let mut positions: Vec<_> = next.loaded.parked.iter().map(|row| row.position).collect();
    let events = next.read().await?;
    next.deliver(&events).await?;
    positions.retain(|position| !events.iter().any(|event| event.position == *position));
    let fetched = next.store.fetch(positions.clone(), 1_000_000).await?;
    assert_eq!(fetched.events.len() + events.len(), 5, "each is there once: {fetched:?}");
    for position in positions {
        next.unpark(position).await?;
    }
    for id in &ids {
        assert_eq!(state(&*table, id).await?.0, RowState::Done, "{id}");
    }
    let mut last = Owner::successor(&*table, "third").await?;
    assert_eq!((last.loaded.parked.len(), last.read().await?.len()), (0, 0));
    Ok(())
}
