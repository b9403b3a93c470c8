//! Counting the rows of mapped tables.

use postrider::Result;
use postrider::sink::{Failure, Outcome};
use postrider::store::CountBy;
use postrider::store::postgres::PostgresRowStore;
use postrider_testkit::eventually;

use super::case::{KINDS, Kind};
use crate::mapped::undelivered;
use crate::postgres::row_state::case::Case;
use crate::recording_sink::RecordingSink;
use crate::relay_cases::relay;

#[tokio::test]
async fn rows_of_a_mapped_table_are_counted_by_their_state() -> Result<()> {
    for kind in KINDS {
        if !Case::is_available() {
            return Ok(());
        }
        let case = kind.case().await?;
        for key in ["a", "poison", "b", "c"] {
            case.run(&kind.insert(key, 0)).await?;
        }
        let sink = RecordingSink::new(|key, _| {
            key.ends_with("poison").then(|| Outcome::Failed(Failure::new("poison")))
        });
        let relay = relay(case.store().await?, &sink).await?;
        eventually("one row is given up, the others are delivered", async || {
            let dead =
                case.one::<i64>("SELECT count(*) FROM {ledger}.row_notes WHERE state = 'dead'").await?;
            Ok(dead == 1 && undelivered(&case, kind).await? == 1)
        })
        .await?;
        relay.shutdown().await?;
        for number in [1, 2] {
            case.run(&kind.insert("a", number)).await?;
        }
        let event_counts =
            PostgresRowStore::count_events(&case.config, &case.table, CountBy::Type, 10).await?;
        let [group] = &event_counts.groups[..] else { panic!("{kind:?}: {event_counts:?}") };
        let done = if kind == Kind::Deleted { 0 } else { 3 };
        assert_eq!(
            (group.total, group.pending, group.failed, group.done, group.due),
            (3 + done, 2, 1, done, 2),
            "{kind:?}"
        );
        assert_eq!((group.attempts_max, group.subscription.as_deref()), (Some(3), Some("mail")), "{kind:?}");
        assert!(group.event_type.is_some() && group.latency.is_none(), "{kind:?}: {group:?}");
        // Not every table records when a row was created.
        assert_eq!(group.lag.is_some(), kind != Kind::Deleted, "{kind:?}: {group:?}");
    }
    Ok(())
}
