//! Cleaning and looking.

use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::store::Trim;
use postrider::{Position, Result};

use super::RowsUnderTest;
use super::stage::{failed, owned, parked};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Undelivered rows stay, however old they are.
pub async fn what_is_delivered_and_old_is_deleted_and_nothing_else<S: RowsUnderTest>() -> Result<()> {
    let (table, mut owner, ids, events) = owned::<S>(5).await?;
    owner.deliver(&events[..3]).await?;
    owner.park(vec![parked(&events[3], ParkedState::Dead, 1)]).await?;
    let trim = |events_max| Trim { after: Position::ZERO, older_than: DAY, events_max };
    assert_eq!(owner.store.trim(trim(10)).await?.deleted, 0, "all are young");
    table.age().await?;
    let first = owner.store.trim(trim(2)).await?;
    assert_eq!((first.deleted, first.more), (2, true));
    let rest = owner.store.trim(trim(2)).await?;
    assert_eq!((rest.deleted, rest.more), (1, false));
    for (id, stays) in ids.iter().zip([false, false, false, true, true]) {
        assert_eq!(table.row(id).await?.is_some(), stays, "{id}");
    }
    Ok(())
}

/// And who works it.
pub async fn the_overview_tells_what_waits_and_what_is_parked<S: RowsUnderTest>() -> Result<()> {
    let (table, mut owner, _, events) = owned::<S>(4).await?;
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
