//! Operators list and retry rows that were given up or wait.

use postrider::ledger::ParkedState;
use postrider::operate::{
    AuditQuery, ChangeOptions, Operator, ParkedAction, ParkedChanged, ParkedFilter, ParkedQuery,
    SubscriptionAction,
};
use postrider::store::{Renewed, Start};
use postrider::{Code, Result};

use super::stage::{NAME, Owner, lease, owned, parked, state};
use super::{Refusing, RowState, Tables};

async fn change(
    owner: &Owner,
    action: ParkedAction,
    filter: ParkedFilter,
    out_of_order: bool,
) -> Result<ParkedChanged> {
    let operator = Operator::new(owner.store.clone(), "alice@shop");
    let options = ChangeOptions::default().reason(Some("fixed".to_owned())).out_of_order(out_of_order);
    operator.change(NAME, action, &filter, options, &mut |_| {}).await
}

fn dead() -> ParkedFilter {
    ParkedFilter::default().states(vec![ParkedState::Dead])
}

/// Its key may have moved on, so that has to be accepted. The owner that leads loads its state again.
pub async fn a_row_given_up_is_listed_and_retried_by_an_operator(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 2).await?;
    owner.park(vec![parked(&events[0], ParkedState::Dead, 1)]).await?;
    owner.deliver(&events[1..]).await?;
    let found = owner.store.list_parked(ParkedQuery::new(NAME, dead(), 10)).await?;
    assert_eq!(found.iter().map(|item| item.row.as_str()).collect::<Vec<_>>(), [ids[0].as_str()]);
    assert_eq!(found[0].id, Some(events[0].event.id.to_string()));
    assert_eq!(found[0].event_type.as_deref(), Some(events[0].event.event_type.as_str()));
    let by_id = dead().events(vec![events[0].event.id.to_string()]);
    assert_eq!(owner.store.count_parked(ParkedQuery::new(NAME, by_id, 10)).await?, 1);
    let unheld = Renewed::Held { paused: None, parked_changed: false };
    assert_eq!(owner.store.renew(lease("first"), owner.loaded.epoch).await?, unheld);
    let refused = change(&owner, ParkedAction::Retry, dead(), false).await?;
    if found[0].key.is_some() {
        assert_eq!(refused, ParkedChanged::new(0, 1, 0));
        assert_eq!(change(&owner, ParkedAction::Retry, dead(), true).await?, ParkedChanged::new(1, 0, 0));
    } else {
        assert_eq!(refused, ParkedChanged::new(1, 0, 0), "a row without a key has no order");
    }
    let reported = Renewed::Held { paused: None, parked_changed: true };
    assert_eq!(owner.store.renew(lease("first"), owner.loaded.epoch).await?, reported);
    assert_eq!(owner.store.list_parked(ParkedQuery::new(NAME, dead(), 10)).await?, []);
    let again = owner.read().await?;
    assert_eq!(again.len(), 1);
    owner.deliver(&again).await?;
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::Done);
    let audit = owner.store.list_audit(AuditQuery::default().commands_max(10)).await?;
    assert_eq!(
        audit.iter().map(|entry| (entry.action.as_str(), entry.events)).collect::<Vec<_>>(),
        [("retry", 1)]
    );
    assert!(audit[0].concerns(&ids[0]), "{audit:?}");
    Ok(())
}

/// Its next attempt was scheduled for later.
pub async fn a_row_that_waits_is_retried_at_once_by_an_operator(tables: &Tables) -> Result<()> {
    let (table, mut owner, _, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    let waiting = ParkedFilter::default().states(vec![ParkedState::Retry]);
    assert_eq!(change(&owner, ParkedAction::Retry, waiting, false).await?.changed, 1);
    let mut next = Owner::successor(&*table, "second").await?;
    assert_eq!(next.loaded.parked, [], "it is due like any other row");
    assert_eq!(next.read().await?.len(), 1);
    Ok(())
}

/// The owner has the row in memory, and would overwrite the change.
pub async fn a_row_that_waits_is_given_up_by_an_operator_only_without_an_owner(
    tables: &Tables,
) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Retry, 1)]).await?;
    let waiting = ParkedFilter::default().states(vec![ParkedState::Retry]);
    let refused = change(&owner, ParkedAction::Kill, waiting.clone(), false).await;
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::LeaseHeld));
    table.expire_lease().await?;
    assert_eq!(change(&owner, ParkedAction::Kill, waiting, false).await?.changed, 1);
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::GivenUp);
    let next = Owner::successor(&*table, "second").await?;
    assert_eq!((next.loaded.parked.len(), next.loaded.dead.len()), (0, 1));
    Ok(())
}

/// Its note stays, and the audit trail has only what was changed.
pub async fn a_row_that_the_table_refuses_to_change_stays_listed_and_the_others_are_changed(
    tables: &Tables,
) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 3).await?;
    owner.park(events.iter().map(|event| parked(event, ParkedState::Dead, 1)).collect()).await?;
    if !table.refuse(&[ids[0].as_str()], Refusing::InSilence).await? {
        return Ok(());
    }
    let changed = change(&owner, ParkedAction::Retry, dead(), true).await?;
    let left = owner.store.list_parked(ParkedQuery::new(NAME, dead(), 10)).await?;
    if changed.changed == 3 {
        // A table without a state for rows that are given up: a retry removes Postrider's notes and updates no row.
        assert_eq!(left, []);
        return Ok(());
    }
    assert_eq!(changed, ParkedChanged::new(2, 0, 1));
    assert_eq!(left.iter().map(|item| item.row.as_str()).collect::<Vec<_>>(), [ids[0].as_str()]);
    let audit = owner.store.list_audit(AuditQuery::default().commands_max(10)).await?;
    assert_eq!(audit.iter().map(|entry| entry.events).collect::<Vec<_>>(), [2]);
    assert!(!audit[0].concerns(&ids[0]), "{audit:?}");
    Ok(())
}

/// Each row has its own state, so there is no progress to move.
pub async fn a_subscription_of_rows_is_neither_moved_nor_removed(tables: &Tables) -> Result<()> {
    let (_table, owner, _, _) = owned(tables, 1).await?;
    let operator = Operator::new(owner.store.clone(), "alice@shop");
    for action in [SubscriptionAction::Move(Start::Beginning), SubscriptionAction::Remove] {
        let refused = operator.change_subscription(NAME, action, None).await;
        assert_eq!(refused.map_err(|error| error.code()), Err(Code::LayoutDiffers));
    }
    let refused = operator.plan_move(NAME, Start::Beginning).await;
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::LayoutDiffers));
    Ok(())
}

/// The table has no state for it. Nothing is changed.
pub async fn a_row_can_neither_be_discarded_nor_skipped(tables: &Tables) -> Result<()> {
    let (table, mut owner, ids, events) = owned(tables, 1).await?;
    owner.park(vec![parked(&events[0], ParkedState::Dead, 1)]).await?;
    for action in [ParkedAction::Discard, ParkedAction::Skip] {
        let refused = change(&owner, action, dead(), true).await;
        assert_eq!(refused.map_err(|error| error.code()), Err(Code::LayoutDiffers));
    }
    assert_eq!(state(&*table, &ids[0]).await?.0, RowState::GivenUp);
    assert_eq!(owner.store.list_audit(AuditQuery::default().commands_max(10)).await?, []);
    Ok(())
}
