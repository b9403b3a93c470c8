//! Creating the only subscription of a table.

use postrider::store::{Epoch, Start};
use postrider::{Code, Result};

use super::Tables;
use super::stage::{NAME, lease, refused, subscribed};

/// A second one is refused; the first one is not changed.
pub async fn a_table_has_only_one_subscription(tables: &Tables) -> Result<()> {
    let (_table, store) = subscribed(tables).await?;
    assert!(!store.subscribe(NAME, Start::Beginning).await?, "it is there");
    let error = refused(store.subscribe("audit", Start::Beginning).await)?;
    assert_eq!(error.code(), Code::SecondSubscription);
    assert!(error.report().contains("\"mail\""), "{error}");
    Ok(())
}

/// A row has no column to record that a subscription skips it.
pub async fn a_start_that_skips_due_rows_is_refused(tables: &Tables) -> Result<()> {
    let table = tables.fresh().await?;
    let store = table.open().await?;
    table.write("k", 1).await?;
    let error = refused(store.subscribe(NAME, Start::Now).await)?;
    assert_eq!(error.code(), Code::StartRefused);
    let unknown = refused(store.acquire(lease("first")).await)?;
    assert_eq!(unknown.code(), Code::SubscriptionUnknown, "nothing was created");
    assert!(store.subscribe(NAME, Start::Beginning).await?);

    let empty = tables.fresh().await?;
    assert!(empty.open().await?.subscribe(NAME, Start::Now).await?, "nothing is left out");
    Ok(())
}

/// For every operation with a subscription.
pub async fn an_unknown_subscription_is_an_error(tables: &Tables) -> Result<()> {
    let under_test = tables.fresh().await?;
    let store = under_test.open().await?;
    assert_eq!(refused(store.acquire(lease("first")).await)?.code(), Code::SubscriptionUnknown);
    assert_eq!(refused(store.pause(NAME, None).await)?.code(), Code::SubscriptionUnknown);
    assert_eq!(refused(store.halt(NAME, Epoch(i64::MAX), "x").await)?.code(), Code::SubscriptionUnknown);
    assert_eq!(
        refused(store.accept_history(NAME, Start::Beginning).await)?.code(),
        Code::SubscriptionUnknown
    );
    Ok(())
}
