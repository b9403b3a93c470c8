//! Once per group, however many consumers deliver at the same time.

use std::sync::Arc;

use postrider::inbox::{Once, Received};
use postrider_testkit::eventually;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::case::{Consumer, Delivery, Design, End, InboxCase};

/// Consumers that deliver each id at the same time.
const CONSUMERS: usize = 32;

/// The number of ids, each delivered by every consumer. `make soak` sets more.
fn ids() -> usize {
    std::env::var("INBOX_IDS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Delivers some ids with all consumers concurrently. Some of the deliveries are rolled back first. Returns how often
/// the database refused a delivery that was then repeated.
async fn storm<C: InboxCase>(case: &C, ids: &Arc<Vec<Uuid>>, design: Design) -> u32 {
    let start = Arc::new(Barrier::new(CONSUMERS));
    let mut consumers = tokio::task::JoinSet::new();
    for number in 0..CONSUMERS {
        let (mut consumer, inbox) = (case.consumer().await, case.inbox());
        let (ids, start) = (ids.clone(), start.clone());
        consumers.spawn(async move {
            let mut refused = 0;
            for (index, id) in ids.iter().enumerate() {
                let delivery = Delivery { design, ..Delivery::of("mail", *id) };
                start.wait().await;
                // For every id, eight of the consumers are rolled back, different ones each time.
                if (number + index) % 4 == 0 {
                    _ = consumer.deliver(&inbox, delivery, End::Rollback).await;
                }
                refused += consumer.deliver_again(&inbox, delivery).await.1;
            }
            refused
        });
    }
    consumers.join_all().await.into_iter().sum()
}

/// The number of missing effects, and of duplicate ones.
async fn wrong<C: InboxCase>(case: &C, ids: &[Uuid]) -> (i64, i64) {
    let applied = case.number("SELECT COUNT(DISTINCT event_id) FROM effects").await;
    let effects = case.number("SELECT COUNT(*) FROM effects").await;
    (ids.len() as i64 - applied, effects - applied)
}

pub(crate) async fn an_effect_happens_once_under_32_concurrent_deliveries_and_rollbacks<C: InboxCase>(
    case: C,
) {
    let ids: Arc<Vec<Uuid>> = Arc::new((0..ids()).map(|_| Uuid::now_v7()).collect());
    let refused = storm(&case, &ids, Design::Inbox).await;
    println!(
        "{}: {} ids, {CONSUMERS} consumers, each effect once; {refused} deliveries refused and repeated",
        C::NAME,
        ids.len()
    );
    assert_eq!(wrong(&case, &ids).await, (0, 0));
    assert_eq!(case.rows().await, ids.len() as i64);
}

pub(crate) async fn a_design_without_the_inbox_row_is_found_wrong<C: InboxCase>(case: C) {
    let ids: Arc<Vec<Uuid>> = Arc::new((0..20).map(|_| Uuid::now_v7()).collect());
    storm(&case, &ids, Design::NoRow).await;
    assert_eq!(wrong(&case, &ids).await, (0, 20 * (CONSUMERS as i64 - 1)));
    // Only on SQLite, which has one writer at a time, is a check before the effect correct.
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
    let inbox = case.inbox();
    let (mut first, mut second) = (case.consumer().await, case.consumer().await);
    for (is_committed, expected) in [(false, Once::Applied(())), (true, Once::Duplicate)] {
        let delivery = Delivery::of("mail", Uuid::now_v7());
        assert_eq!(first.hold(&inbox, delivery).await.unwrap(), Received::First);
        let again = second.deliver_again(&inbox, delivery);
        let end = async {
            if let Some(waiting) = C::WAITING {
                eventually("the second waits", async || Ok(case.number(waiting).await > 0)).await.unwrap();
            }
            first.end(is_committed).await.unwrap();
        };
        let ((once, _), ()) = tokio::join!(again, end);
        assert_eq!(once, expected, "the first is committed: {is_committed}");
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
