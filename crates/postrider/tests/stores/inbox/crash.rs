//! Consumers that crash at every point of a delivery.

use postrider::inbox::Once;
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase};

pub(crate) async fn a_consumer_lost_at_any_point_has_each_effect_once_after_redelivery<C: InboxCase>(
    case: C,
) {
    let (inbox, mut consumer) = (case.inbox(), case.consumer().await);
    for first in End::CRASHES {
        for second in End::CRASHES {
            let id = Uuid::now_v7();
            // A broker repeats the delivery until the event is acknowledged.
            let mut applied = 0;
            for end in [first, second, End::Commit] {
                assert_eq!(end.is_acknowledged(), end == End::Commit);
                let delivered = consumer.deliver(&inbox, Delivery::of("mail", id), end).await;
                applied += u32::from(end == End::CrashAfterCommit && delivered.is_ok());
            }
            let last = consumer.deliver(&inbox, Delivery::of("mail", id), End::Commit).await.unwrap();
            assert_eq!(last, Once::Duplicate, "{first:?}, {second:?}");
            assert_eq!(case.effects("mail", id).await, 1, "{first:?}, {second:?}");
            let committed = [first, second].into_iter().filter(|end| *end == End::CrashAfterCommit).count();
            assert_eq!(applied as usize, committed, "{first:?}, {second:?}: the crash point was reached");
        }
    }
    assert_eq!(case.rows().await, (End::CRASHES.len() * End::CRASHES.len()) as i64);
}
