//! Visibility: which transactions and processes see an event, and when.

use postrider::ledger::Progress;
use postrider::store::{Acquired, Renewed, Settled};
use postrider::{Result, StoredEvent};

use super::Databases;
use super::stage::{NAME, drain, events, granted, lease, positions, set_of, settlement, subscribed, unread};

/// Including a claimer that has already read its position.
pub async fn an_uncommitted_event_is_not_seen_until_its_commit(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(events(1)).await?;
    let mut claimer = store.claimer(&Progress::default());
    let late = events(2);
    let open = under_test.begin(late.clone()).await?;
    assert_eq!(positions(&drain(&mut claimer).await?), written);
    assert_eq!(drain(&mut claimer).await?, []);
    open.commit().await?;
    let seen = drain(&mut claimer).await?;
    assert_eq!(ids(&seen), late.iter().map(|event| event.id).collect::<Vec<_>>());
    written.extend(positions(&seen));
    assert_eq!(unread(&store).await?, written);
    Ok(())
}

/// Not even if another event gets the next position.
pub async fn a_rolled_back_event_is_never_seen(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(1)).await?;
    let mut claimer = store.claimer(&Progress::default());
    drain(&mut claimer).await?;
    let open = under_test.begin(events(2)).await?;
    assert_eq!(drain(&mut claimer).await?, []);
    open.roll_back().await?;
    assert_eq!(drain(&mut claimer).await?, []);
    let real = events(1);
    under_test.write(real.clone()).await?;
    assert_eq!(ids(&drain(&mut claimer).await?), [real[0].id]);
    Ok(())
}

/// Events, leases and progress.
pub async fn two_processes_see_the_same_outbox(databases: &Databases) -> Result<()> {
    let (under_test, first) = subscribed(databases).await?;
    let second = under_test.open().await?;
    let written = under_test.write(events(3)).await?;
    let owner = granted(&first, "a").await?;
    assert!(matches!(second.acquire(lease("b")).await?, Acquired::Held { .. }));
    first.settle(settlement(owner.epoch, set_of(&written[..2]))).await?;
    first.release(NAME, owner.epoch, true).await?;
    assert_eq!(unread(&second).await?, written[2..]);
    Ok(())
}

/// As soon as the second process has loaded the state.
pub async fn a_takeover_by_another_process_fences_the_first(databases: &Databases) -> Result<()> {
    let (under_test, first) = subscribed(databases).await?;
    let second = under_test.open().await?;
    let written = under_test.write(events(3)).await?;
    let (old, new) = (granted(&first, "a").await?, {
        under_test.expire_lease(NAME).await?;
        granted(&second, "b").await?
    });
    assert_eq!(first.settle(settlement(old.epoch, set_of(&written))).await?, Settled::Fenced);
    assert_eq!(first.renew(lease("a"), old.epoch).await?, Renewed::Lost);
    assert_eq!(second.settle(settlement(new.epoch, set_of(&written[..1]))).await?, Settled::Done);
    second.release(NAME, new.epoch, true).await?;
    assert_eq!(unread(&first).await?, written[1..]);
    Ok(())
}

fn ids(events: &[StoredEvent]) -> Vec<uuid::Uuid> {
    events.iter().map(|stored| stored.event.id).collect()
}
