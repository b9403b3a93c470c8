//! A table that is rewritten while a relay runs: a session that waited for its lock, and has an older snapshot, sees
//! none of its rows.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{Budget, Claimed, Start, Store};
use postrider_testkit::eventually;

use super::case::{Case, case, failed};
use super::event_types_sink::EventTypesSink;

/// Each rewrites every row.
const REWRITES: [&str; 8] = [
    "ALTER TABLE {schema}.events ADD COLUMN t uuid DEFAULT gen_random_uuid()",
    "ALTER TABLE {schema}.events ALTER COLUMN t TYPE text USING t::text",
    "ALTER TABLE {schema}.events DROP COLUMN t, ADD COLUMN u uuid DEFAULT gen_random_uuid()",
    "ALTER TABLE {schema}.events SET UNLOGGED",
    "ALTER TABLE {schema}.events SET LOGGED",
    "CLUSTER {schema}.events USING events_pkey",
    "ALTER TABLE {schema}.events DROP COLUMN u",
    "VACUUM FULL {schema}.events",
];

case! {
    async fn a_relay_keeps_working_through_every_rewrite_of_the_table(case) {
        let sink = EventTypesSink::new();
        let policy = Policy::default().lease(Duration::from_secs(3));
        let mail = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
        let relay = Relay::builder().outbox(Arc::new(case.store().await?), [mail]).spawn().await?;
        for round in 0..2 {
            for (number, rewrite) in REWRITES.into_iter().enumerate() {
                let event = format!("event.{round}.{number}");
                case.committed(&event).await?;
                sink.wait_for(&event).await;
                case.run(rewrite).await?;
            }
        }
        case.committed("end").await?;
        sink.wait_for("end").await;
        let halted: Option<String> = case.one("SELECT halted FROM {schema}.subscriptions").await?;
        assert_eq!(halted, None);
        relay.shutdown().await?;
    }
}

/// Waits until a session waits for a lock on the events.
async fn a_session_waits(case: &Case) {
    let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{schema}.events'::regclass";
    eventually("a session waits for the lock", async || {
        case.one::<i64>(sql).await.is_ok_and(|waits| waits > 0)
    })
    .await;
}

case! {
    /// The worst moment: the claim and the fetch have started, and wait while the table is rewritten.
    async fn a_reader_that_waited_for_the_rewrite_sees_every_event(case) {
        let store = Arc::new(case.store().await?);
        let position = postrider::Position::new(case.committed("one").await?);
        let mut claimer = store.claimer(&Default::default());
        let budget = Budget::new(10, 1 << 20);
        // The event is known from here on: if it were missing, the history would have changed.
        assert!(matches!(claimer.claim(budget).await?, Claimed::Page(page) if page.events.len() == 1));
        assert_eq!(store.fetch(vec![position], 1 << 20).await?.events.len(), 1);
        for number in 0..2 {
            let rewriter = case.another().await?;
            rewriter.batch_execute(&case.sql("BEGIN; LOCK TABLE {schema}.events")).await.map_err(failed)?;
            let claim = async { claimer.claim(budget).await };
            let fetch = async { store.fetch(vec![position], 1 << 20).await };
            let subscribe = async { store.subscribe(&format!("late.{number}"), Start::Time(Default::default())).await };
            let rewrite = async {
                a_session_waits(&case).await;
                let sql = format!("ALTER TABLE {{schema}}.events ADD COLUMN t{number} uuid DEFAULT gen_random_uuid(); COMMIT");
                rewriter.batch_execute(&case.sql(&sql)).await.map_err(failed)
            };
            let (claimed, fetched, subscribed, rewritten) = tokio::join!(claim, fetch, subscribe, rewrite);
            rewritten?;
            subscribed?;
            assert!(matches!(claimed?, Claimed::Page(_)), "the history did not change");
            let fetched = fetched?;
            assert_eq!((fetched.events.len(), fetched.gone.len()), (1, 0), "a parked event is not gone");
        }
        let floors: Vec<i64> = case.one("SELECT array_agg(floor) FROM {schema}.subscriptions").await?;
        assert_eq!(floors, [0, 0], "events from the beginning of time on were not skipped");
    }
}
