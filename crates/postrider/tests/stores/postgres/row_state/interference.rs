//! A relay while other sessions use and change the database.

use std::sync::Arc;

use postrider::layout::RowLayout;
use postrider::sink::{Failure, Outcome};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::{Ident, Result};
use postrider_testkit::eventually;

use super::case::{failed, on_every_layout, url};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{Table as _, relay, write};
use crate::test_layouts::TestLayout;

/// Asserts that every key starts with its first row, and that each delivery is at most one ahead of those before it: a
/// replay, or the next row.
fn assert_ordered(sink: &RecordingSink, key: &str, rows: u64, layout: RowLayout) {
    let mut next = 0;
    for number in sink.of_key(key) {
        assert!(number <= next, "{layout:?}: {key} {number} came before {next}");
        next = next.max(number + 1);
    }
    assert_eq!(next, rows, "{layout:?}: {key} is complete");
}

#[tokio::test]
async fn nothing_is_lost_when_connections_are_cut() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let sink = RecordingSink::new(|_, _| None);
        let relay = relay(case.store().await?, &sink).await?;
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{schema}'";
        let mut cuts = 0;
        for number in 0..40 {
            for key in 0..5 {
                case.run(&case.insert(&format!("key{key}"), number)).await?;
            }
            if number % 10 == 5 {
                cuts += case.one::<i64>(cut).await?;
            }
        }
        eventually("all rows are delivered", async || Ok(case.delivered().await? == 200)).await?;
        relay.shutdown().await?;
        assert!(cuts > 0, "connections were cut");
        (0..5).for_each(|key| assert_ordered(&sink, &format!("key{key}"), 40, layout));
        assert_eq!(case.one::<i64>("SELECT count(*) FROM {ledger}.row_claims").await?, 0);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_open_transaction_delays_only_its_own_rows() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let sink = RecordingSink::new(|_, _| None);
        let relay = relay(case.store().await?, &sink).await?;
        let (late, never) = (case.another().await?, case.another().await?);
        for (client, key) in [(&late, "late"), (&never, "never")] {
            client.batch_execute("BEGIN").await.map_err(failed)?;
            client.query(&case.insert(key, 0), &[]).await.map_err(failed)?;
        }
        write(&case, 10).await?;
        sink.wait_for(50).await;
        assert_eq!(sink.of_key("late"), [] as [u64; 0]);
        late.batch_execute("COMMIT").await.map_err(failed)?;
        never.batch_execute("ROLLBACK").await.map_err(failed)?;
        sink.wait_for(51).await;
        relay.shutdown().await?;
        assert_eq!((sink.of_key("late"), sink.of_key("never")), (vec![0], vec![]), "{layout:?}");
        assert_eq!(sink.accepted().len(), 51);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn of_two_relays_one_works_and_the_other_takes_over() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let (first_sink, second_sink) = (RecordingSink::new(|_, _| None), RecordingSink::new(|_, _| None));
        let first = relay(case.store().await?, &first_sink).await?;
        write(&case, 5).await?;
        first_sink.wait_for(25).await;
        let second = relay(case.store().await?, &second_sink).await?;
        write(&case, 5).await?;
        first_sink.wait_for(50).await;
        assert_eq!(second_sink.accepted(), [], "it is a standby");
        first.shutdown().await?;
        write(&case, 5).await?;
        second_sink.wait_for(25).await;
        second.shutdown().await?;
        let all = first_sink.accepted().len() + second_sink.accepted().len();
        assert_eq!((all, case.delivered().await?), (75, 75), "{layout:?}: each row once");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn times_are_the_same_in_every_session_time_zone() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        // Five and a half hours ahead.
        let there = format!("{}?options=-c%20TimeZone%3DAsia/Kolkata", url()?);
        let config = PostgresConfig::new(&there)?.schema(Ident::new(&case.ledger)?);
        let store = Arc::new(PostgresRowStore::connect(&config, &case.table).await?);
        let sink = RecordingSink::new(|key, number| {
            (key.ends_with("key0") && number == 0).then(|| Outcome::Rejected(Failure::new("poison")))
        });
        write(&case, 2).await?;
        let relay = relay(store, &sink).await?;
        sink.wait_for(9).await;
        relay.shutdown().await?;
        let TestLayout { settled_at, given_up, .. } = TestLayout::of(layout);
        let right = format!(
            "SELECT count(*) FROM {{t}} WHERE lower(status::text) IN ('sent', 'published')
               AND {settled_at} BETWEEN created_at AND now() + interval '1 minute'"
        );
        assert_eq!(case.one::<i64>(&right).await?, 9, "{layout:?}");
        let ended = format!("SELECT count(*) FROM {{t}} WHERE lower(status::text) = 'failed' AND {given_up}");
        assert_eq!(case.one::<i64>(&ended).await?, 1, "{layout:?}");
        Ok(())
    })
    .await
}
