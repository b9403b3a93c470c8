//! Names of consumer groups.

use postrider::Code;
use postrider::inbox::Once;
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase};

pub(crate) async fn a_hostile_group_name_is_data_or_refused<C: InboxCase>(case: C) {
    let (id, inbox, mut consumer) = (Uuid::now_v7(), case.inbox(), case.consumer().await);
    let hostile = [
        "'; DROP TABLE effects; --",
        "\"; DELETE FROM inbox; --",
        "Duplicate entry for key 'inbox.PRIMARY'",
        "{schema}.inbox",
        "$1 ? :group %s \\",
        "Größe 🚚",
        "mail",
        "MAIL",
    ];
    for group in hostile {
        let first = consumer.deliver(&inbox, Delivery::of(group, id), End::Commit).await.unwrap();
        assert_eq!(first, Once::Applied(()), "{group}");
        let again = consumer.deliver(&inbox, Delivery::of(group, id), End::Commit).await.unwrap();
        assert_eq!(again, Once::Duplicate, "{group}");
    }
    assert_eq!(case.rows().await, hostile.len() as i64);
    for refused in ["", "mail ", "a\nb", "a\0b"] {
        let error = consumer.deliver(&inbox, Delivery::of(refused, id), End::Commit).await.unwrap_err();
        assert_eq!(error.code(), Code::NameInvalid, "{refused:?}");
    }
    assert_eq!(case.rows().await, hostile.len() as i64);
}
