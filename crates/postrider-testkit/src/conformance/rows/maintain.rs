//! Retention and the overview.

use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::operate::{AuditQuery, Cleanup, Operator};
use postrider::store::{Purge, RetentionScope};
use postrider::{Result, Timestamp};

use super::Tables;
use super::stage::{Owner, failed, owned, parked, subscribed};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Undelivered rows stay, however old they are.
pub async fn only_old_delivered_rows_are_deleted(tables: &Tables) -> Result<()> {
    if tables.updates_wait() {
        return Ok(());
    }
    let (table, mut owner, ids, events) = owned(tables, 5).await?;
    owner.store.note_deliveries();
    owner.deliver(&events[..3]).await?;
    owner.park(vec![parked(&events[3], ParkedState::Dead, 1)]).await?;
    let purge = |events_max| Purge::new(DAY, events_max);
    assert_eq!(owner.store.purge(purge(10)).await?.deleted, 0, "all are young");
    table.age().await?;
    let first = owner.store.purge(purge(2)).await?;
    assert_eq!((first.deleted, first.more), (2, true));
    let rest = owner.store.purge(purge(2)).await?;
    assert_eq!((rest.deleted, rest.more), (1, false));
    for (id, stays) in ids.iter().zip([false, false, false, true, true]) {
        assert_eq!(table.row(id).await?.is_some(), stays, "{id}");
    }
    Ok(())
}

/// Other publishers leave no note, and neither does a relay without a retention.
pub async fn rows_delivered_by_other_publishers_stay_unless_configured(tables: &Tables) -> Result<()> {
    if !tables.says_delivered() {
        return Ok(());
    }
    let (table, store) = subscribed(tables).await?;
    let theirs = table.write("k", 1).await?;
    table.deliver_elsewhere(&theirs[0]).await?;
    let ours = table.write("k", 2).await?;
    let mut owner = Owner::new(store, "first").await?;
    let events = owner.read().await?;
    assert_eq!(events.len(), 2);
    owner.deliver(&events[..1]).await?;
    owner.store.note_deliveries();
    owner.deliver(&events[1..]).await?;
    table.age().await?;
    let purge = Purge::new(DAY, 10);
    assert_eq!(owner.store.purge(purge).await?.deleted, 1, "the one that was noted");
    assert!(table.row(&ours[1]).await?.is_none());
    assert_eq!(owner.store.purge(purge).await?.deleted, 0);
    for id in [&theirs[0], &ours[0]] {
        assert!(table.row(id).await?.is_some(), "{id} is not ours to delete");
    }
    let all = Purge { scope: RetentionScope::All, ..purge };
    assert_eq!(owner.store.purge(all).await?.deleted, 2, "asked for");
    Ok(())
}

/// A cleanup by hand deletes what retention would, in batches, with audit rows; a count changes nothing.
pub async fn a_cleanup_by_hand_deletes_only_old_delivered_rows(tables: &Tables) -> Result<()> {
    if tables.updates_wait() {
        return Ok(());
    }
    let (table, mut owner, ids, events) = owned(tables, 5).await?;
    owner.store.note_deliveries();
    owner.deliver(&events[..3]).await?;
    owner.park(vec![parked(&events[3], ParkedState::Dead, 1)]).await?;
    let operator = Operator::new(owner.store.clone(), "alice@host");
    let yesterday = Timestamp::from_micros(Timestamp::now().as_micros() - 86_400_000_000);
    let mut cleanup = Cleanup::new(yesterday);
    cleanup.batch_events_max = 2;
    assert_eq!(operator.plan_cleanup(cleanup).await?.events.events, 0, "all are younger");
    assert_eq!(operator.cleanup(cleanup, None, &mut |_| {}).await?, 0);
    table.age().await?;
    let plan = operator.plan_cleanup(cleanup).await?.events;
    assert_eq!((plan.events, plan.at_least), (2, true), "one batch is counted");
    for id in &ids {
        assert!(table.row(id).await?.is_some(), "the count changed {id}");
    }
    let mut progress = Vec::new();
    let deleted = operator.cleanup(cleanup, Some("full"), &mut |deleted| progress.push(deleted)).await?;
    assert_eq!((deleted, progress), (3, vec![2, 3]));
    for (id, stays) in ids.iter().zip([false, false, false, true, true]) {
        assert_eq!(table.row(id).await?.is_some(), stays, "{id}");
    }
    let audit = owner.store.list_audit(AuditQuery::default().commands_max(10)).await?;
    let found: Vec<_> = audit.iter().filter(|entry| entry.action == "cleanup").collect();
    assert_eq!(found.len(), 1, "a command that deletes nothing leaves no row: {audit:?}");
    assert_eq!((found[0].events, found[0].reason.as_deref()), (3, Some("full")));
    Ok(())
}

/// The overview also contains the owner.
pub async fn the_overview_counts_waiting_and_parked_rows(tables: &Tables) -> Result<()> {
    let (table, mut owner, _, events) = owned(tables, 4).await?;
    owner.deliver(&events[..1]).await?;
    let rows = vec![parked(&events[1], ParkedState::Retry, 1), parked(&events[2], ParkedState::Dead, 1)];
    owner.park(rows).await?;
    table.write("b", 2).await?;
    let overview = table.open().await?.overview(100).await?;
    let [subscription] = &overview.subscriptions[..] else {
        return Err(failed(format!("one subscription: {overview:?}")));
    };
    assert_eq!((subscription.backlog.events, subscription.backlog.more), (3, false));
    assert_eq!(subscription.parked.count(ParkedState::Retry), 1);
    assert_eq!(subscription.parked.count(ParkedState::Dead), 1);
    assert_eq!(subscription.parked.last_error(), Some("no such mailbox"));
    assert!(subscription.oldest().is_some() && subscription.backlog.first <= Some(overview.last));
    assert_eq!(subscription.leader(overview.now).map(|lease| lease.holder.as_str()), Some("first"));
    let counted = table.open().await?.overview(2).await?;
    assert!(counted.subscriptions[0].backlog.more);
    Ok(())
}
