//! Changes: count, reason, confirmation, result; the same as those of the command line.

use postrider::ledger::ParkedState;
use postrider::operate::{AuditQuery, ChangeOptions, Operator, ParkedAction, ParkedFilter};
use postrider_dashboard::Role;

use crate::client::{Client, serve};
use crate::outbox::{TestOutbox, dead, order};

/// Counts, confirms, waits for the end, and returns the page with the result.
pub(crate) async fn change(client: &Client, path: &str, form: &[(&str, &str)], reason: &str) -> String {
    let counted = client.post(path, form).await;
    assert_eq!(counted.status, 303, "{}", counted.body);
    let plan = counted.location().to_owned();
    let page = client.page(&plan).await;
    assert!(page.contains("name=\"reason\""), "{page}");
    let confirmed = client.post(&plan, &[("reason", reason)]).await;
    assert_eq!((confirmed.status, confirmed.location()), (303, plan.as_str()));
    loop {
        let answer = client.get(&plan).await;
        assert_eq!(answer.status, 200);
        if answer.header("refresh").is_none() {
            return answer.body;
        }
    }
}

async fn states(outbox: &TestOutbox) -> Vec<(String, String)> {
    let store = outbox.store().await;
    let operator = Operator::new(store.clone(), "test");
    let found = operator.list(&["mail".to_owned()], &ParkedFilter::default(), 1_000).await.unwrap();
    store.close().await;
    found.into_iter().map(|item| (item.row, item.state)).collect()
}

async fn ticked_events_and_all_that_match(outbox: TestOutbox) {
    outbox.park("mail", dead(10)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let ticked =
        [("kind", "dead"), ("action", "retry"), ("scope", "ticked"), ("row", "2/mail"), ("row", "3/mail")];
    let page = change(&client, "/o/shop/changes", &ticked, "the consumer is fixed").await;
    assert!(page.contains("<strong>2</strong> retried, 2 counted"), "{page}");
    let by_key = [("kind", "dead"), ("action", "discard"), ("scope", "all"), ("key", "Order/9")];
    let page = change(&client, "/o/shop/changes", &by_key, "test data").await;
    assert!(page.contains("<strong>1</strong> discarded, 1 counted"), "{page}");
    let rest = [("kind", "dead"), ("action", "retry"), ("scope", "all"), ("subscription", "mail")];
    let page = change(&client, "/o/shop/changes", &rest, "all again").await;
    assert!(page.contains("<strong>7</strong> retried, 7 counted"), "{page}");
    let states = states(&outbox).await;
    assert_eq!(states.len(), 9);
    assert!(states.iter().all(|(_, state)| state == "retry"), "{states:?}");
    let audit = client.page("/o/shop/audit").await;
    for text in ["otto (dashboard)", "the consumer is fixed", "test data", "discard", "key &#34;Order/9&#34;"]
    {
        assert!(audit.contains(text), "{text}: {audit}");
    }
    let event = client.page("/o/shop/events/2").await;
    assert!(
        event.contains("retry by otto (dashboard)") && event.contains("the consumer is fixed"),
        "{event}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ticked_events_and_all_that_match_are_changed_on_sqlite() {
    ticked_events_and_all_that_match(TestOutbox::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticked_events_and_all_that_match_are_changed_on_postgres() {
    let Some(outbox) = TestOutbox::postgres("dashboard_changes").await else { return };
    ticked_events_and_all_that_match(outbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_before_it_is_confirmed_with_a_reason_and_then_only_once() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(2)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let form = [("kind", "dead"), ("action", "discard"), ("scope", "ticked"), ("row", "1/mail")];
    let plan = client.post("/o/shop/changes", &form).await.location().to_owned();
    client.page(&plan).await;
    assert_eq!(client.post(&plan, &[]).await.status, 400, "without a reason");
    assert_eq!(states(&outbox).await.len(), 2);
    // Another person does not find it.
    let other = Client::of(&served, Role::Reader).await;
    assert_eq!(other.get(&plan).await.status, 403);
    for _ in 0..3 {
        assert_eq!(client.post(&plan, &[("reason", "clicked three times")]).await.status, 303);
    }
    while client.get(&plan).await.header("refresh").is_some() {}
    assert_eq!(states(&outbox).await.len(), 1);
    let store = outbox.store().await;
    assert_eq!(store.list_audit(AuditQuery::default().commands_max(10)).await.unwrap().len(), 1);
    assert_eq!(client.post("/o/shop/changes", &[("kind", "dead"), ("action", "retry")]).await.status, 400);
    assert_eq!(
        client
            .post("/o/shop/changes", &[("kind", "dead"), ("action", "drop"), ("scope", "all")])
            .await
            .status,
        400
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_since_the_count_is_reported() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(5)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let form = [("kind", "dead"), ("action", "retry"), ("scope", "all")];
    let plan = client.post("/o/shop/changes", &form).await.location().to_owned();
    let store = outbox.store().await;
    let filter = ParkedFilter::default().events(vec!["1".to_owned(), "2".to_owned()]);
    let other = Operator::new(store.clone(), "another");
    other
        .change("mail", ParkedAction::Discard, &filter, ChangeOptions::default(), &mut |_| {})
        .await
        .unwrap();
    client.post(&plan, &[("reason", "again")]).await;
    let page = loop {
        let answer = client.get(&plan).await;
        if answer.header("refresh").is_none() {
            break answer.body;
        }
    };
    assert!(page.contains("<strong>3</strong> retried, 5 counted"), "{page}");
    assert!(page.contains("5 were counted before; 3 still matched"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_needs_a_reason_and_is_shown() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(1)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    assert_eq!(client.post("/o/shop/subscriptions/mail/pause", &[]).await.status, 400);
    let paused = client.post("/o/shop/subscriptions/mail/pause", &[("reason", "the broker moves")]).await;
    assert_eq!(paused.status, 303);
    let page = client.page(paused.location()).await;
    assert!(
        page.contains("Paused") && page.contains("Reason: the broker moves") && page.contains("Resume"),
        "{page}"
    );
    let resumed = client.post("/o/shop/subscriptions/mail/resume", &[]).await;
    assert!(!client.page(resumed.location()).await.contains("Reason: the broker moves"));
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_events_are_replayed_after_a_count() {
    let outbox = TestOutbox::sqlite().await;
    // Everything up to the last one is past; the discarded one can be replayed.
    outbox.park("mail", dead(3)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let form = [("kind", "dead"), ("action", "discard"), ("scope", "all")];
    change(&client, "/o/shop/changes", &form, "by mistake").await;
    assert_eq!(client.post("/o/shop/subscriptions/mail/replay", &[]).await.status, 400, "nothing selected");
    let page =
        change(&client, "/o/shop/subscriptions/mail/replay", &[("key", "Order/1")], "it was a mistake").await;
    assert!(page.contains("<strong>1</strong> replayed, 1 counted"), "{page}");
    assert_eq!(states(&outbox).await, [("2".to_owned(), "retry".to_owned())]);
}

/// The same change by the operations of the command line and over HTTP leaves the same rows, and the same audit rows except
/// for the name and the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_over_http_is_the_change_of_the_command_line() {
    let events = || {
        vec![
            (order(1), ParkedState::Dead),
            (order(2), ParkedState::Retry),
            (order(3), ParkedState::Behind),
            (order(4), ParkedState::Expired),
            (order(5), ParkedState::Held),
            (order(6), ParkedState::Unrouted),
        ]
    };
    let actions = [
        (ParkedAction::Retry, "dead"),
        (ParkedAction::Discard, "dead"),
        (ParkedAction::Retry, "waiting"),
        (ParkedAction::Skip, "waiting"),
        (ParkedAction::Kill, "waiting"),
    ];
    for (action, kind) in actions {
        let (by_hand, by_http) = (TestOutbox::sqlite().await, TestOutbox::sqlite().await);
        by_hand.park("mail", events()).await;
        by_http.park("mail", events()).await;
        let given_up: &[ParkedState] = &[ParkedState::Dead, ParkedState::Expired];
        let waiting: &[ParkedState] =
            &[ParkedState::Retry, ParkedState::Behind, ParkedState::Held, ParkedState::Unrouted];
        let states_of = if kind == "dead" { given_up } else { waiting };
        let store = by_hand.store().await;
        let operator = Operator::new(store.clone(), "alice@host");
        let options = ChangeOptions::default().reason(Some("why".to_owned()));
        let filter = ParkedFilter::default().states(states_of.to_vec());
        operator.change("mail", action, &filter, options, &mut |_| {}).await.unwrap();
        let served = serve(by_http.source()).await;
        let client = Client::of(&served, Role::Operator).await;
        let form = [("kind", kind), ("action", action.as_str()), ("scope", "all"), ("subscription", "mail")];
        change(&client, "/o/shop/changes", &form, "why").await;
        assert_eq!(states(&by_hand).await, states(&by_http).await, "{action:?} {kind}");
        let mut audits = Vec::new();
        for outbox in [&by_hand, &by_http] {
            let found =
                outbox.store().await.list_audit(AuditQuery::default().commands_max(10)).await.unwrap();
            let parts = found
                .into_iter()
                .map(|of| (of.action, of.subscription, of.selection, of.events, of.targets, of.reason));
            audits.push(parts.collect::<Vec<_>>());
        }
        assert_eq!(audits[0], audits[1], "{action:?} {kind}");
    }
}
