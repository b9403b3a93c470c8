//! Every state of a row is explained truly.

use postrider::ledger::ParkedState;
use postrider::operate::explain::{Absent, EventSelector, EventState, Explained, Explanation, Hindrance};
use postrider::operate::{AuditRecord, Operator};
use postrider::{Result, StoredEvent};

use super::Tables;
use super::stage::{NAME, Owner, failed, owned, parked, subscribed};

/// By the id of its event if the table can find it, otherwise by the id of its row.
async fn explained(owner: &Owner, row: &str, event: &StoredEvent) -> Result<Explained> {
    let operator = Operator::new(owner.store.clone(), "test");
    let by_id = operator.explain(EventSelector::Event(event.event.id.to_string())).await?;
    if by_id.event.is_some() {
        Ok(by_id)
    } else {
        operator.explain(EventSelector::Event(row.to_owned())).await
    }
}

async fn only(owner: &Owner, row: &str, event: &StoredEvent) -> Result<Explanation> {
    let explained = explained(owner, row, event).await?;
    match explained.subscriptions.iter().find(|of| of.subscription == NAME) {
        Some(only) => Ok(only.clone()),
        None => Err(failed(format!("the subscription should be explained: {explained:?}"))),
    }
}

/// Delivered, retried, behind another, given up.
pub async fn a_row_is_explained_by_its_state(tables: &Tables) -> Result<()> {
    let (_table, mut owner, ids, events) = owned(tables, 4).await?;
    owner.deliver(&events[..1]).await?;
    let rows = vec![
        parked(&events[1], ParkedState::Dead, 1),
        parked(&events[2], ParkedState::Retry, 1),
        parked(&events[3], ParkedState::Behind, 0),
    ];
    owner.park(rows).await?;
    let delivered = only(&owner, &ids[0], &events[0]).await?;
    assert!(matches!(delivered.state, EventState::Delivered { before: Some(_) }), "{delivered:?}");
    let dead = only(&owner, &ids[1], &events[1]).await?;
    assert!(
        matches!(&dead.state, EventState::Dead { error: Some(error), .. } if error == "no such mailbox"),
        "{dead:?}"
    );
    let retry = only(&owner, &ids[2], &events[2]).await?;
    assert!(matches!(retry.state, EventState::Retry { due_at: Some(_), .. }), "{retry:?}");
    assert_eq!(retry.relay.map(|relay| relay.name), Some("first".to_owned()));
    let behind = only(&owner, &ids[3], &events[3]).await?;
    match &behind.state {
        EventState::Behind { head: Some(head), .. } => assert_eq!(*head, ids[2]),
        other => return Err(failed(format!("it waits behind another row: {other:?}"))),
    }
    Ok(())
}

/// Marked while an owner has it; then by what stops its subscription.
pub async fn a_row_that_waits_is_explained_by_what_stops_its_subscription(tables: &Tables) -> Result<()> {
    let (table, owner, ids, events) = owned(tables, 1).await?;
    let handed_out = only(&owner, &ids[0], &events[0]).await?;
    assert_eq!(handed_out.hindrance, None, "a relay has it");
    if tables.marks() {
        assert_eq!(handed_out.state, EventState::BeingPublished);
    }
    owner.store.release(NAME, owner.loaded.epoch, true).await?;
    let waiting = only(&owner, &ids[0], &events[0]).await?;
    assert_eq!(waiting.state, EventState::Backlog { ahead: None });
    assert!(matches!(waiting.hindrance, Some(Hindrance::NoRelay { .. })), "{waiting:?}");
    let audit = AuditRecord::new("bob@shop", "pause", NAME, Some("moving"));
    owner.store.pause_audited(NAME, Some("moving"), audit).await?;
    let paused = only(&owner, &ids[0], &events[0]).await?;
    assert!(
        matches!(&paused.hindrance, Some(Hindrance::Paused { by: Some(by), .. }) if by == "bob@shop"),
        "{paused:?}"
    );
    table.deliver_elsewhere(&ids[0]).await?;
    let delivered = only(&owner, &ids[0], &events[0]).await?;
    if tables.says_delivered() {
        assert!(matches!(delivered.state, EventState::Delivered { .. }), "{delivered:?}");
    }
    Ok(())
}

/// By position, id, or a text that is neither.
pub async fn a_row_that_does_not_exist_is_explained(tables: &Tables) -> Result<()> {
    let (_table, store) = subscribed(tables).await?;
    let operator = Operator::new(store, "test");
    for unknown in ["999999", "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77", "no id"] {
        let explained = operator.explain(EventSelector::Event(unknown.to_owned())).await?;
        assert_eq!((&explained.event, explained.subscriptions.len()), (&None, 0));
        assert_eq!(explained.absent, Some(Absent::Unknown { searched: None }), "{unknown}");
    }
    let nothing = operator.explain(EventSelector::Key("none".to_owned())).await?;
    assert_eq!(nothing.absent, Some(Absent::NothingParked));
    Ok(())
}

/// Its first row that is not finished.
pub async fn a_key_of_rows_is_explained_by_its_first_parked_row(tables: &Tables) -> Result<()> {
    let (_table, mut owner, ids, events) = owned(tables, 2).await?;
    let rows = vec![parked(&events[0], ParkedState::Retry, 1), parked(&events[1], ParkedState::Behind, 0)];
    let Some(key) = rows[0].key.clone() else { return Ok(()) };
    owner.park(rows).await?;
    let operator = Operator::new(owner.store.clone(), "test");
    let explained = operator.explain(EventSelector::Key(key)).await?;
    let rows: Vec<_> =
        explained.subscriptions.iter().filter_map(|of| Some(&of.event.as_ref()?.row)).collect();
    assert_eq!(rows, [&ids[0]], "{explained:?}");
    Ok(())
}
