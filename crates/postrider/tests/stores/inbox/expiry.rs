//! How long the inbox keeps its rows.

use std::time::Duration;

use postrider::inbox::Once;
use postrider::store::{InboxPurge, RetentionScope};
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase};

async fn delivered<C: InboxCase>(case: &C, number: usize, retention: Duration) -> Vec<Uuid> {
    let (inbox, mut consumer) = (case.inbox().retention(retention), case.consumer().await);
    let mut ids = Vec::new();
    for _ in 0..number {
        let id = Uuid::now_v7();
        consumer.deliver(&inbox, Delivery::of("mail", id), End::Commit).await.unwrap();
        ids.push(id);
    }
    ids
}

pub(crate) async fn expired_rows_are_deleted_and_others_are_kept<C: InboxCase>(case: C) {
    let day = Duration::from_secs(86_400);
    // Rows that expire in 30 days, which is the default, and one that never expires.
    delivered(&case, 2, 30 * day).await;
    delivered(&case, 1, Duration::MAX).await;
    let bounds = [C::days_from_now(29), C::days_from_now(31)];
    let in_30_days =
        format!("SELECT COUNT(*) FROM {{inbox}} WHERE expires_at BETWEEN {} AND {}", bounds[0], bounds[1]);
    assert_eq!(case.number(&in_30_days).await, 2);
    let processed_now = format!(
        "SELECT COUNT(*) FROM {{inbox}} WHERE processed_at BETWEEN {} AND {}",
        C::days_from_now(-1),
        C::days_from_now(1)
    );
    assert_eq!(case.number(&processed_now).await, 3);

    let old = delivered(&case, 5, day).await;
    for id in &old {
        let expire = format!(
            "UPDATE {{inbox}} SET processed_at = {}, expires_at = {} WHERE event_id = {}",
            C::days_from_now(-3),
            C::days_from_now(-1),
            C::id(*id)
        );
        case.run(&expire).await;
    }
    // A store keeps rows that were processed more recently than the events it keeps.
    let purge = |days: u32| InboxPurge { older_than: days * day, rows_max: 2, scope: RetentionScope::All };
    let store = case.store().await;
    assert_eq!(store.purge_inbox(purge(7)).await.unwrap().deleted, 0);
    let purged = store.purge_inbox(purge(2)).await.unwrap();
    assert_eq!((purged.deleted, purged.more, case.rows().await), (2, true, 6));
    // A consumer without a relay deletes them in a transaction.
    let mut consumer = case.consumer().await;
    assert_eq!(consumer.delete_expired(&case.inbox(), 2).await.unwrap(), 2);
    assert_eq!(consumer.delete_expired(&case.inbox(), 2).await.unwrap(), 1);
    assert_eq!(consumer.delete_expired(&case.inbox(), 2).await.unwrap(), 0);
    assert_eq!(case.rows().await, 3);
    store.close().await;
}

pub(crate) async fn an_expired_row_still_recognises_a_duplicate_until_it_is_deleted<C: InboxCase>(case: C) {
    let (inbox, mut consumer) = (case.inbox().retention(Duration::ZERO), case.consumer().await);
    let delivery = Delivery::of("mail", Uuid::now_v7());
    assert_eq!(consumer.deliver(&inbox, delivery, End::Commit).await.unwrap(), Once::Applied(()));
    case.run(&format!("UPDATE {{inbox}} SET expires_at = {}", C::days_from_now(-1))).await;
    assert_eq!(consumer.deliver(&inbox, delivery, End::Commit).await.unwrap(), Once::Duplicate);
    assert_eq!(consumer.delete_expired(&inbox, 10).await.unwrap(), 1);
    assert_eq!(consumer.deliver(&inbox, delivery, End::Commit).await.unwrap(), Once::Applied(()));
}
