//! Leases: which relay owns a subscription.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::store::{
    Acquired, LeaseRequest, RelayFacts, RelayReport, RelayRole, Renewed, Settled, Start, Store,
};
use tokio::task::JoinHandle;

use super::Databases;
use super::stage::{NAME, failed, granted, held, lease, set_of, settlement, subscribed};
use crate::eventually;

/// The waiting relay receives the holder and the remaining time.
pub async fn a_free_lease_is_granted_and_a_held_one_is_not(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    granted(&store, "a").await?;
    match store.acquire(lease("b")).await? {
        Acquired::Held { holder, remaining } => {
            assert_eq!(holder, "a");
            assert!(remaining > Duration::ZERO && remaining <= lease("a").duration, "{remaining:?}");
            Ok(())
        }
        other => Err(failed(format!("the lease is a's, but b got {other:?}"))),
    }
}

/// Every new owner has a higher epoch.
pub async fn an_expired_lease_is_taken_over(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    under_test.expire_lease(NAME).await?;
    let second = granted(&store, "b").await?;
    assert!(second.epoch > first.epoch);
    assert_eq!((first.previous, second.previous.map(|lease| lease.holder)), (None, Some("a".to_owned())));
    store.release(NAME, second.epoch, true).await?;
    assert_eq!(granted(&store, "c").await?.previous, None, "it was released");
    Ok(())
}

/// A relay that restarts does not wait for its own lease; its previous process is fenced.
pub async fn the_same_holder_gets_its_lease_again_with_a_new_epoch(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    let second = granted(&store, "a").await?;
    assert!(second.epoch > first.epoch);
    assert_eq!(store.settle(settlement(first.epoch, set_of(&[]))).await?, Settled::Fenced);
    assert_eq!(store.renew(lease("a"), first.epoch).await?, Renewed::Lost);
    assert_eq!(store.settle(settlement(second.epoch, set_of(&[]))).await?, Settled::Done);
    Ok(())
}

/// An expired lease without a takeover can still be renewed; one that was taken over cannot.
pub async fn renewing_extends_the_lease_until_a_takeover(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    under_test.expire_lease(NAME).await?;
    assert_eq!(store.renew(lease("a"), first.epoch).await?, held(None));
    assert!(is_held(&store, "b").await?, "the renewal prolonged it");
    under_test.expire_lease(NAME).await?;
    granted(&store, "b").await?;
    assert_eq!(store.renew(lease("a"), first.epoch).await?, Renewed::Lost);
    Ok(())
}

/// The next relay gets it immediately.
pub async fn releasing_frees_the_lease(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    store.release(NAME, first.epoch, true).await?;
    assert_eq!(store.renew(lease("a"), first.epoch).await?, Renewed::Lost);
    granted(&store, "b").await?;
    Ok(())
}

/// The new owner keeps the lease and its note of an unclean end.
pub async fn releasing_a_lost_lease_frees_nothing(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    under_test.expire_lease(NAME).await?;
    granted(&store, "b").await?;
    store.release(NAME, first.epoch, true).await?;
    assert!(is_held(&store, "a").await?, "b still has it");
    under_test.expire_lease(NAME).await?;
    assert!(!granted(&store, "c").await?.clean, "b did not leave in good order");
    Ok(())
}

/// A crash, and a release with events in flight, do not count as clean.
pub async fn only_a_clean_release_counts_as_clean(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    assert!(first.clean, "there was no owner before");
    store.release(NAME, first.epoch, true).await?;
    let second = granted(&store, "a").await?;
    assert!(second.clean);
    store.release(NAME, second.epoch, false).await?;
    assert!(!granted(&store, "a").await?.clean);
    under_test.expire_lease(NAME).await?;
    assert!(!granted(&store, "b").await?.clean);
    Ok(())
}

/// Several relays can share the subscriptions of an outbox.
pub async fn leases_of_different_subscriptions_are_independent(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    store.subscribe("search", Start::Beginning).await?;
    granted(&store, "a").await?;
    let other = LeaseRequest { subscription: "search".to_owned(), ..lease("b") };
    assert!(matches!(store.acquire(other).await?, Acquired::Granted(_)));
    assert!(is_held(&store, "b").await?, "a still has its own");
    Ok(())
}

/// A relay that was killed has no session any more. Where that cannot be seen, its lease stays until it expires.
pub async fn a_lease_is_free_when_the_session_that_took_it_is_gone_and_not_before(
    databases: &Databases,
) -> Result<()> {
    let (under_test, first) = subscribed(databases).await?;
    first.subscribe("search", Start::Beginning).await?;
    let second = under_test.open().await?;
    let owner = granted(&first, "a").await?;
    let search = |holder| LeaseRequest { subscription: "search".to_owned(), ..lease(holder) };
    assert!(matches!(first.acquire(search("a")).await?, Acquired::Granted(_)));
    assert!(is_held(&second, "b").await?);
    assert_eq!(first.renew(lease("a"), owner.epoch).await?, held(None), "asking changed nothing");
    first.close().await;
    if !under_test.ends_leases_with_sessions() {
        assert!(is_held(&second, "b").await?);
        return Ok(());
    }
    // The server needs a moment to notice.
    let next = eventually("the lease is free", async || match second.acquire(lease("b")).await {
        Ok(Acquired::Granted(loaded)) => Some(loaded),
        _ => None,
    })
    .await;
    assert!(next.epoch > owner.epoch && !next.clean, "{next:?}");
    assert_eq!(next.previous.map(|lease| lease.holder), Some("a".to_owned()));
    assert!(matches!(second.acquire(search("b")).await?, Acquired::Granted(_)), "and its other leases");
    let third = under_test.open().await?;
    assert_eq!(third.settle(settlement(owner.epoch, set_of(&[]))).await.ok(), None, "it took no lease");
    assert!(is_held(&third, "c").await?, "the new owner has a session");
    Ok(())
}

async fn is_held(store: &Arc<dyn Store>, asking: &str) -> Result<bool> {
    Ok(matches!(store.acquire(lease(asking)).await?, Acquired::Held { .. }))
}

/// Renews a lease while the report of the relay is blocked, which the caller arranges; `is_waiting` returns once the
/// report waits. Returns the report, which is still in progress.
pub async fn a_renewal_does_not_wait_for_a_report(
    store: Arc<dyn Store>,
    is_waiting: impl AsyncFn() -> Result<bool>,
) -> Result<JoinHandle<Result<()>>> {
    store.subscribe(NAME, Start::Beginning).await?;
    let owner = granted(&store, "a").await?;
    let report = RelayReport {
        subscription: NAME.to_owned(),
        relay: "a".to_owned(),
        role: RelayRole::Leading,
        duration: lease("a").duration,
        down: Vec::new(),
        facts: RelayFacts::default(),
    };
    let reporter = store.clone();
    let reporting = tokio::spawn(async move { reporter.report(report).await });
    while !is_waiting().await? {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None));
    assert!(!reporting.is_finished(), "the renewal came first");
    Ok(reporting)
}
