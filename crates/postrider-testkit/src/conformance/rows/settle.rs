//! Reading and settling without failures.

use postrider::Result;
use postrider::ledger::ParkedState;
use postrider::store::{Budget, Settled};

use super::stage::{Owner, owned, parked, state, subscribed};
use super::{RowState, Tables};

/// Including rows of one transaction, which have the same creation time.
pub async fn due_rows_are_read_once_and_in_order(tables: &Tables) -> Result<()> {
    let (table, store) = subscribed(tables).await?;
    let mut ids = table.write("a", 20).await?;
    ids.extend(table.write("b", 1).await?);
    let mut owner = Owner::new(store, "first").await?;
    let events = owner.read().await?;
    let positions: Vec<_> = events.iter().map(|event| event.position).collect();
    assert!(positions.is_sorted() && positions.len() == 21, "{positions:?}");
    let numbers: Vec<String> =
        events.iter().map(|event| String::from_utf8_lossy(&event.event.payload).into_owned()).collect();
    let expected: Vec<String> = (0..20).chain(0..1).map(|n| format!("{{\"n\": {n}}}")).collect();
    assert_eq!(numbers, expected);
    let (first, last) = (events[0].event.ordering_key(), events[20].event.ordering_key());
    assert!(first.is_some() && first != last, "{first:?} {last:?}");
    assert_eq!(owner.read().await?, [], "each is read once");
    table.write("b", 2).await?;
    assert_eq!(owner.read().await?.len(), 2);
    Ok(())
}

/// Rows of an aggregate are ordered by its type and id, and the message has the id as its key. A key of the row is used
/// for both.
pub async fn the_key_of_a_message_is_the_id_of_its_aggregate_or_the_rows_own_key(
    tables: &Tables,
) -> Result<()> {
    let (_, _, _, events) = owned(tables, 1).await?;
    let event = &events[0].event;
    assert_eq!(event.message_key(), Some("k"));
    let ordering = match (&event.key, &event.aggregate) {
        (None, Some(aggregate)) => format!("{}/k", aggregate.kind),
        _ => "k".to_owned(),
    };
    assert_eq!(event.ordering_key().as_deref(), Some(ordering.as_str()));
    Ok(())
}

/// The number of rows and of bytes; at least one row.
pub async fn a_page_keeps_to_its_budget(tables: &Tables) -> Result<()> {
    let (table, store) = subscribed(tables).await?;
    table.write("a", 5).await?;
    let mut owner = Owner::new(store, "first").await?;
    let page = owner.page(Budget::new(2, 1_000_000)).await?;
    assert!(page.events.len() == 2 && page.has_unread && page.more_at_once);
    let page = owner.page(Budget::new(9, 1)).await?;
    assert!(page.events.len() == 1 && page.has_unread);
    assert_eq!(owner.read().await?.len(), 2);
    Ok(())
}

/// With its count and its time. In a layout without such a state, the row is not modified.
pub async fn a_claimed_row_is_marked_if_the_layout_has_a_mark(tables: &Tables) -> Result<()> {
    let (table, _owner, ids, _) = owned(tables, 1).await?;
    let expected = if tables.marks() { (RowState::InFlight, 1) } else { (RowState::Waiting, 0) };
    assert_eq!(state(&*table, &ids[0]).await?, expected);
    Ok(())
}

/// Neither by this owner nor by the next one.
pub async fn delivered_rows_are_marked_and_never_read_again(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 3).await?;
    owner.deliver(&events[..2]).await?;
    for (id, expected) in ids.iter().zip([true, true, false]) {
        assert_eq!(state(&*table, id).await?.0 == RowState::Done, expected, "{id}");
    }
    assert_eq!(owner.read().await?, []);
    let mut next = Owner::successor(&*table, "second").await?;
    let again = next.read().await?;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].event, events[2].event);
    Ok(())
}

/// More rows than a store marks with one statement on one connection.
const MANY: usize = 700;

/// Together with one that failed.
pub async fn many_deliveries_are_marked_at_once(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, MANY).await?;
    events[1..].iter().for_each(|event| owner.done.insert(event.position));
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    assert_eq!(state(&*table, &ids[0]).await?, (RowState::Retry, 1));
    for id in &ids[1..] {
        assert_eq!(state(&*table, id).await?.0, RowState::Done, "{id}");
    }
    assert_eq!(owner.read().await?, []);
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!((next.loaded.parked.len(), next.read().await?.len()), (1, 0));
    Ok(())
}

/// Every statement is fenced, whatever their number.
pub async fn a_fenced_settlement_of_many_changes_no_row(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, MANY).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    events.iter().for_each(|event| owner.done.insert(event.position));
    assert_eq!(owner.store.settle(owner.settlement()).await?, Settled::Fenced);
    for id in &ids {
        assert_ne!(state(&*table, id).await?.0, RowState::Done, "{id}");
    }
    assert_eq!(next.read().await?.len(), MANY);
    Ok(())
}

/// The rows belong to the next owner.
pub async fn a_fenced_settlement_changes_no_row(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    events.iter().for_each(|event| owner.done.insert(event.position));
    assert_eq!(owner.store.settle(owner.settlement()).await?, Settled::Fenced);
    for id in &ids {
        assert_ne!(state(&*table, id).await?.0, RowState::Done);
    }
    assert_eq!(next.read().await?.len(), 2);
    Ok(())
}

/// The mark of the other publisher stays.
pub async fn a_row_delivered_by_another_publisher_is_not_modified(tables: &Tables) -> Result<()> {
    if tables.updates_wait() {
        return Ok(());
    }
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    table.deliver_elsewhere(&ids[0]).await?;
    let row = parked(&events[0], ParkedState::Dead, 1);
    owner.park(vec![row]).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    owner.deliver(&events[1..]).await?;
    assert_eq!(state(&*table, &ids[1]).await?.0, RowState::Done);
    Ok(())
}
