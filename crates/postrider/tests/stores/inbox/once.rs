//! Once per group, however many deliver at the same time.

use std::sync::Arc;

use postrider::inbox::Once;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::case::{Consumer, Delivery, Design, End, InboxCase};

/// Consumers that deliver each id at the same time.
const CONSUMERS: usize = 32;

/// Ids, each delivered by every consumer. `make soak` sets more.
fn ids() -> usize {
    std::env::var("POSTRIDER_INBOX_IDS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Delivers each of some ids by all consumers at once. A part of the deliveries is rolled back first. Returns how often
/// the database refused a delivery that was then repeated.
async fn storm<C: InboxCase>(case: &C, ids: &Arc<Vec<Uuid>>, design: Design) -> u32 {
    let start = Arc::new(Barrier::new(CONSUMERS));
    let mut consumers = tokio::task::JoinSet::new();
    for number in 0..CONSUMERS {
        let (mut consumer, inbox) = (case.consumer().await, case.inbox());
        let (ids, start) = (ids.clone(), start.clone());
        consumers.spawn(async move {
            let mut refused = 0;
            for (place, id) in ids.iter().enumerate() {
                let delivery = Delivery { design, ..Delivery::of("mail", *id) };
                start.wait().await;
                // For every id, eight of the consumers are rolled back, each time others.
                if (number + place) % 4 == 0 {
                    _ = consumer.deliver(&inbox, delivery, End::Rollback).await;
                }
                refused += consumer.deliver_again(&inbox, delivery).await.1;
            }
            refused
        });
    }
    consumers.join_all().await.into_iter().sum()
}

/// How many effects are missing, and how many are too many.
async fn wrong<C: InboxCase>(case: &C, ids: &[Uuid]) -> (i64, i64) {
    let applied = case.number("SELECT COUNT(DISTINCT event_id) FROM effects").await;
    let effects = case.number("SELECT COUNT(*) FROM effects").await;
    (ids.len() as i64 - applied, effects - applied)
}

pub(crate) async fn an_effect_happens_once_under_32_concurrent_deliveries_and_rollbacks<C: InboxCase>(
    case: C,
) {
    let ids: Arc<Vec<Uuid>> = Arc::new((0..ids()).map(|_| Uuid::now_v7()).collect());
    let refused = storm(&case, &ids, Design::Ours).await;
    println!("{} ids, {CONSUMERS} consumers: {refused} deliveries refused and repeated", ids.len());
    assert_eq!(wrong(&case, &ids).await, (0, 0));
    assert_eq!(case.rows().await, ids.len() as i64);
}

pub(crate) async fn a_design_without_the_inbox_row_is_found_wrong<C: InboxCase>(case: C) {
    let ids: Arc<Vec<Uuid>> = Arc::new((0..20).map(|_| Uuid::now_v7()).collect());
    storm(&case, &ids, Design::NoRow).await;
    assert_eq!(wrong(&case, &ids).await, (0, 20 * (CONSUMERS as i64 - 1)));
    // One writer at a time makes a check before the effect right in SQLite, and there alone.
    let other: Arc<Vec<Uuid>> = Arc::new((0..20).map(|_| Uuid::now_v7()).collect());
    case.run("DELETE FROM effects").await;
    storm(&case, &other, Design::CheckThenAct).await;
    let (missing, surplus) = wrong(&case, &other).await;
    assert_eq!((missing, surplus > 0), (0, C::IS_CONCURRENT));
}

pub(crate) async fn a_second_group_has_its_own_effect<C: InboxCase>(case: C) {
    let (id, inbox, mut consumer) = (Uuid::now_v7(), case.inbox(), case.consumer().await);
    for group in ["mail", "billing"] {
        let first = consumer.deliver(&inbox, Delivery::of(group, id), End::Commit).await.unwrap();
        assert_eq!(first, Once::Applied(()), "{group}");
        let again = consumer.deliver(&inbox, Delivery::of(group, id), End::Commit).await.unwrap();
        assert_eq!(again, Once::Duplicate, "{group}");
    }
    assert_eq!(
        [case.effects("mail", id).await, case.effects("billing", id).await, case.rows().await],
        [1, 1, 2]
    );
}

pub(crate) async fn a_duplicate_waits_for_the_first_and_applies_if_that_rolled_back<C: InboxCase>(case: C) {
    let (inbox, mut one, mut two) = (case.inbox(), case.consumer().await, case.consumer().await);
    for end in [End::Rollback, End::Commit] {
        let id = Uuid::now_v7();
        let both = Arc::new(Barrier::new(2));
        let (first, second) = tokio::join!(
            async {
                both.wait().await;
                one.deliver(&inbox, Delivery::of("mail", id), end).await
            },
            async {
                both.wait().await;
                two.deliver_again(&inbox, Delivery::of("mail", id)).await.0
            }
        );
        let applied = [first.unwrap(), second].into_iter().filter(|once| !once.is_duplicate()).count();
        assert!(applied >= 1, "{end:?}");
        assert_eq!(case.effects("mail", id).await, 1, "{end:?}");
    }
}

pub(crate) async fn the_inbox_is_part_of_the_callers_transaction<C: InboxCase>(case: C) {
    let (id, inbox, mut consumer) = (Uuid::now_v7(), case.inbox(), case.consumer().await);
    let rolled_back = consumer.deliver(&inbox, Delivery::of("mail", id), End::Rollback).await.unwrap();
    assert_eq!((rolled_back, case.rows().await), (Once::Applied(()), 0));
    consumer.deliver(&inbox, Delivery::of("mail", id), End::EffectFails).await.unwrap_err();
    assert_eq!((case.effects("mail", id).await, case.rows().await), (0, 0));
    let applied = consumer.deliver(&inbox, Delivery::of("mail", id), End::Commit).await.unwrap();
    assert_eq!((applied, case.effects("mail", id).await), (Once::Applied(()), 1));
}
