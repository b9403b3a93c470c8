//! Postrider's sessions depend on nothing that others can change: names, policies, time limits of the role.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::adopt::AdoptSource;
use postrider::ledger::{ParkedRow, ParkedState};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::postgres::{Pooler, PostgresConfig, PostgresNotifier, PostgresStore};
use postrider::store::{
    Acquired, Budget, Claimed, CountBy, Epoch, EventFilter, LeaseRequest, Purge, Settlement, Start, Store,
};
use postrider::{Code, Event, Position, Result};
use postrider_testkit::eventually;
use postrider_testkit::servers::{pgbouncer, postgres};

use super::case::{Case, case, failed};
use super::event_types_sink::EventTypesSink;

fn lease(name: &str) -> LeaseRequest {
    LeaseRequest { subscription: name.to_owned(), holder: "a".to_owned(), duration: Duration::from_secs(60) }
}

/// Runs every operation of the store, and every other query, as this user.
async fn every_verb(case: &Case, config: &PostgresConfig) -> Result<()> {
    PostgresStore::schema(config).await?;
    let store = PostgresStore::connect(config).await?;
    let name = format!("verbs{}", case.one::<i64>("SELECT count(*) FROM {schema}.subscriptions").await?);
    for (number, start) in
        [Start::Now, Start::Time(Default::default()), Start::Beginning].into_iter().enumerate()
    {
        store.subscribe(&if number == 2 { name.clone() } else { format!("{name}.{number}") }, start).await?;
    }
    let Acquired::Granted(loaded) = store.acquire(lease(&name)).await? else { panic!("the lease is free") };
    let mut claimer = store.claimer_of(&name, &loaded);
    // The hole is found, then watched, then declared empty: each with its own statements.
    let (mut seen, mut empty) = (BTreeSet::new(), 0);
    while empty == 0 {
        let Claimed::Page(page) = claimer.claim(Budget::new(10, 1 << 20)).await? else {
            panic!("the history did not change")
        };
        seen.extend(page.events.iter().map(|event| event.position));
        empty += page.empty_positions.len();
    }
    let last = *seen.last().unwrap();
    store.fetch(seen.into_iter().collect(), 1 << 20).await?;
    let parked = ParkedRow {
        position: last,
        key: None,
        destination: None,
        state: ParkedState::Retry,
        attempts: 1,
        next_attempt_at: None,
        last_error: Some("no".to_owned()),
        redelivery: None,
    };
    let settlement = Settlement {
        subscription: name.clone(),
        epoch: loaded.epoch,
        done: loaded.progress.done.clone(),
        highest: None,
        trial: None,
        park: vec![parked],
        unpark: vec![Position::new(1)],
    };
    store.settle(settlement).await?;
    store.renew(lease(&name), loaded.epoch).await?;
    store.pause(&name, Some("why")).await?;
    store.pause_as_owner(&name, loaded.epoch, "why").await?;
    store.overview(100).await?;
    store.counts(&name).await?;
    store.purge(Purge::new(Duration::from_secs(60), 10)).await?;
    store.release(&name, loaded.epoch, true).await?;
    store.halt(&name, Epoch(9), "why").await?;
    store.accept_history(&name, Start::Now).await?;
    let filter = EventFilter::default().events_max(10);
    assert!(!PostgresStore::list(config, &filter).await?.is_empty());
    PostgresStore::list_plan(config, &filter).await?;
    for by in [CountBy::Type, CountBy::Hour, CountBy::Producer] {
        PostgresStore::count_events(config, by, 10).await?;
    }
    store.close().await;
    Ok(())
}

/// A relay of this user that is woken delivers.
async fn whole_relay(case: &Case, config: &PostgresConfig, event: &str) -> Result<()> {
    let sink = EventTypesSink::new();
    let store = Arc::new(PostgresStore::connect(&config.clone().listen(true)).await?);
    let policy = Policy::default().lease(Duration::from_secs(1));
    let mail = Subscription::new(format!("of {event}").replace(' ', "."), sink.clone());
    let relay = Relay::builder().outbox(store, [mail.start(Start::Beginning).policy(policy)]).spawn().await?;
    case.committed(event).await?;
    PostgresNotifier::new(config).notify();
    sink.wait_for(event).await;
    relay.shutdown().await
}

#[tokio::test]
async fn functions_operators_and_tables_planted_on_the_search_path_are_never_used() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables().await?;
    case.run(postgres::TRAPS).await?;
    for (role, rights) in [("boss", "SUPERUSER"), ("hand", ""), ("clerk", "")] {
        case.run(&format!(
            "CREATE ROLE {{schema}}_{role} LOGIN {rights};
             ALTER ROLE {{schema}}_{role} SET search_path = trap, public, pg_catalog"
        ))
        .await?;
    }
    let as_role = |role: &str| case.config_as(&case.sql(&format!("{{schema}}_{role}")));
    let trapped = as_role("boss")?.client().await?.batch_execute("SELECT 2::numeric * 2").await;
    let said = trapped.unwrap_err().as_db_error().map(|answer| answer.message().to_owned());
    assert_eq!(said.as_deref(), Some("trapped"), "else this test shows nothing");

    PostgresStore::migrate(&as_role("boss")?).await?;
    PostgresStore::create_views(&as_role("boss")?).await?;
    let boss = as_role("boss")?.client().await?;
    boss.batch_execute(&PostgresStore::roles(&case.schema)?).await.map_err(failed)?;
    case.make_roles().await?;
    case.run(
        "GRANT {schema}_relay, pg_read_all_stats TO {schema}_hand; GRANT {schema}_writer TO {schema}_clerk",
    )
    .await?;
    // A writer of the application, whose session Postrider does not control.
    let clerk = as_role("clerk")?.client().await?;
    case.outbox().write(&clerk, Event::new("one", "")).await?;
    case.outbox().write_all(&clerk, vec![Event::new("two", ""), Event::new("three", "")]).await?;
    clerk
        .batch_execute(&case.sql("INSERT INTO {schema}.events (type, payload) VALUES ('sql', '\\x00')"))
        .await
        .map_err(failed)?;
    case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
    case.committed("last").await?;
    // Names in the views were resolved when the views were created.
    for view in [
        "events_json",
        "vw_outbox",
        "vw_outbox_due",
        "vw_outbox_metrics",
        "vw_outbox_throughput_hourly",
        "vw_outbox_backlog",
    ] {
        boss.batch_execute(&case.sql(&format!("TABLE {{schema}}.{view}"))).await.map_err(failed)?;
    }

    for config in [as_role("boss")?, as_role("hand")?, as_role("hand")?.pooler(Pooler::Transaction)] {
        every_verb(&case, &config).await?;
        whole_relay(
            &case,
            &config,
            &format!("event {}", case.one::<i64>("SELECT max(position) FROM {schema}.events").await?),
        )
        .await?;
    }
    if let Some(pooler) = pgbouncer::url() {
        let hand = case.config_at(&pooler.replace("postgres@", &case.sql("{schema}_hand@")))?;
        every_verb(&case, &hand).await?;
        whole_relay(&case, &hand, "pooled").await?;
    }
    Ok(())
}

case! {
    /// Rows that a policy hides cannot be distinguished from rolled back ones.
    async fn a_relay_from_which_a_policy_hides_events_is_refused_at_start_and_stopped_later(case) {
        let sink = EventTypesSink::new();
        let policy = Policy::default().lease(Duration::from_secs(1));
        let mail = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
        let relay = Relay::builder().outbox(Arc::new(case.store().await?), [mail]).spawn().await?;
        case.committed("before").await?;
        sink.wait_for("before").await;
        case.run(
            "ALTER TABLE {schema}.events ENABLE ROW LEVEL SECURITY;
             CREATE POLICY writes ON {schema}.events FOR INSERT WITH CHECK (true);
             CREATE POLICY shown ON {schema}.events FOR SELECT USING (type <> 'hidden')",
        )
        .await?;
        case.run("INSERT INTO {schema}.events (type, payload) VALUES ('hidden', '')").await?;
        case.committed("shown").await?;
        let trouble = async || relay.status()[0].error.clone().is_some_and(|said| said.contains("row-level security"));
        eventually("the relay says that rows are hidden", trouble).await;
        let floor: i64 = case.one("SELECT floor FROM {schema}.subscriptions").await?;
        assert!(floor <= 1, "nothing hidden is taken for done: {floor}");
        let refused = case.store().await.unwrap_err();
        assert_eq!(refused.code(), Code::RowsHidden, "{refused}");
        assert!(refused.message().contains("events"), "{refused}");
        case.run("ALTER TABLE {schema}.events DISABLE ROW LEVEL SECURITY").await?;
        for event in ["hidden", "shown"] {
            sink.wait_for(event).await;
        }
        relay.shutdown().await?;
    }
}

case! {
    /// Limits that an administrator sets for all roles, because of applications.
    async fn time_limits_of_the_role_do_not_cut_the_connections_of_a_relay(case) {
        case.run(
            "CREATE ROLE {schema}_hurried LOGIN IN ROLE {schema}_relay;
             ALTER ROLE {schema}_hurried SET statement_timeout = '1ms';
             ALTER ROLE {schema}_hurried SET idle_session_timeout = '1ms';
             ALTER ROLE {schema}_hurried SET idle_in_transaction_session_timeout = '1ms'",
        )
        .await?;
        let config = case.config_as(&case.sql("{schema}_hurried"))?;
        let sink = EventTypesSink::new();
        let store = PostgresStore::connect(&config).await?;
        let mail = Subscription::new("mail", sink.clone()).start(Start::Beginning);
        let relay = Relay::builder().outbox(Arc::new(store), [mail]).spawn().await?;
        let processes = "SELECT coalesce(array_agg(pid ORDER BY pid), '{}') FROM pg_stat_activity
                         WHERE usename = '{schema}_hurried'";
        case.committed("first").await?;
        sink.wait_for("first").await;
        let before: Vec<i32> = case.one(processes).await?;
        for event in ["second", "third", "fourth"] {
            case.committed(event).await?;
            sink.wait_for(event).await;
        }
        let after: Vec<i32> = case.one(processes).await?;
        assert!(!before.is_empty() && before.iter().all(|pid| after.contains(pid)), "{before:?} {after:?}");
        assert_eq!(relay.status()[0].error, None);
        relay.shutdown().await?;
    }
}
