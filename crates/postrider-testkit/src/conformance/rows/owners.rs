//! Release and takeover of a lease.

use postrider::Result;
use postrider::ledger::Trial;
use postrider::store::{Acquired, Epoch, Settlement};

use super::stage::{NAME, Owner, PLENTY, failed, lease, owned, state};
use super::{RowState, Tables};

/// No attempt is counted.
pub async fn releasing_a_lease_releases_its_rows(tables: &Tables) -> Result<()> {
    let (table, owner, ids, _) = owned(tables, 3).await?;
    owner.store.release(NAME, owner.loaded.epoch, true).await?;
    for id in &ids {
        assert_eq!(state(&*table, id).await?, (RowState::Waiting, 0));
    }
    let mut next = Owner::new(table.open().await?, "second").await?;
    assert!(next.loaded.clean && next.loaded.epoch > owner.loaded.epoch);
    assert_eq!(next.read().await?.len(), 3);
    Ok(())
}

/// All rows that it had claimed. No attempt is counted.
pub async fn the_rows_of_a_dead_owner_are_read_by_the_next(tables: &Tables) -> Result<()> {
    if tables.updates_wait() {
        return Ok(());
    }
    let (table, mut owner, ids, events) = owned(tables, 3).await?;
    owner.deliver(&events[..1]).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    assert!(!next.loaded.clean);
    assert_eq!(state(&*table, &ids[1]).await?, (RowState::Waiting, 0));
    let again = next.read().await?;
    assert_eq!(again.len(), 2);
    next.deliver(&again).await?;
    for id in &ids {
        assert_eq!(state(&*table, id).await?.0, RowState::Done);
    }
    Ok(())
}

/// If claiming marks rows, a previous owner must not mark any.
pub async fn an_owner_that_lost_its_lease_can_claim_nothing_more(tables: &Tables) -> Result<()> {
    let (table, mut owner, _, _) = owned(tables, 1).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    next.read().await?;
    let ids = table.write("z", 1).await?;
    let zombie = owner.page(PLENTY).await;
    if tables.marks() {
        assert!(zombie.is_err(), "{zombie:?}");
        assert_eq!(state(&*table, &ids[0]).await?, (RowState::Waiting, 0));
    }
    assert_eq!(next.read().await?.len(), 1);
    Ok(())
}

/// Until it expires.
pub async fn a_held_lease_is_not_granted(tables: &Tables) -> Result<()> {
    let (table, owner, _, _) = owned(tables, 1).await?;
    let other = table.open().await?;
    match other.acquire(lease("second")).await? {
        Acquired::Held { holder, .. } => assert_eq!(holder, "first"),
        got => return Err(failed(format!("the lease is held, but: {got:?}"))),
    }
    owner.store.halt(NAME, Epoch(i64::MAX), "because").await?;
    assert_eq!(other.acquire(lease("second")).await?, Acquired::Halted("because".to_owned()));
    Ok(())
}

/// With positions of the new owner.
pub async fn rows_on_trial_are_remembered_and_read_first(tables: &Tables) -> Result<()> {
    if tables.updates_wait() {
        return Ok(());
    }
    let (table, owner, _, events) = owned(tables, 3).await?;
    let trial = Trial { positions: vec![events[1].position, events[2].position], deaths: 1 };
    owner.settle(Settlement { trial: Some(trial), ..owner.settlement() }).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    let trial = next.loaded.progress.trial.clone().ok_or_else(|| failed("there is no trial"))?;
    assert_eq!((trial.positions.len(), trial.deaths), (2, 1));
    let read = next.read().await?;
    assert_eq!(read.len(), 3);
    let accused: Vec<_> = read.iter().filter(|event| trial.positions.contains(&event.position)).collect();
    let ids: Vec<_> = accused.iter().map(|event| event.event.id).collect();
    assert_eq!(ids, [events[1].event.id, events[2].event.id]);
    next.deliver(&read).await?;
    let last = Owner::successor(&*table, "third").await?;
    assert_eq!(last.loaded.progress.trial, None);
    Ok(())
}

/// Otherwise a consumer could not detect a duplicate.
pub async fn an_event_has_the_same_id_at_every_delivery(tables: &Tables) -> Result<()> {
    let (table, _owner, _, events) = owned(tables, 2).await?;
    let mut next = Owner::successor(&*table, "second").await?;
    let again = next.read().await?;
    let ids = |events: &[postrider::StoredEvent]| events.iter().map(|e| e.event.id).collect::<Vec<_>>();
    assert_eq!(ids(&events), ids(&again));
    assert_ne!(ids(&events)[0], ids(&events)[1]);
    Ok(())
}
