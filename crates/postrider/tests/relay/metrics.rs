//! The metrics of the relay, as Prometheus reads them.
#![cfg(feature = "metrics")]

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use postrider::operate::{Operator, SubscriptionAction};
use postrider::relay::{OutboxOptions, Policy, Relay, Subscription};
use postrider::route::{Router, Rule};
use postrider::sink::{Failure, Message, Outcome};
use postrider::store::Start;
use postrider::telemetry::{self, FixedBuckets, Histograms, LabelValues, METRICS, MetricKind};
use postrider::{Event, Outbox};
use postrider_testkit::eventually;

use super::shop::{RecordingSink, Shop, acknowledged, number, order};

/// The recorder of this test program.
static RECORDER: LazyLock<(PrometheusHandle, Histograms)> = LazyLock::new(|| {
    let exporter = PrometheusBuilder::new().build_recorder();
    let others = exporter.handle();
    let (recorder, histograms) = FixedBuckets::new(exporter);
    metrics::set_global_recorder(recorder).unwrap();
    telemetry::describe();
    (others, histograms)
});

fn render() -> String {
    let (others, histograms) = &*RECORDER;
    others.render() + &histograms.render()
}

/// The exported lines of one outbox.
fn lines(outbox: &str) -> Vec<String> {
    let label = format!("outbox=\"{outbox}\"");
    render().lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
}

/// The series of one outbox: names and labels without values.
fn series(outbox: &str) -> BTreeSet<String> {
    lines(outbox).iter().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name.to_owned()).collect()
}

/// The value of the only series with this name whose labels contain this text; not a number if there is none yet.
fn value(outbox: &str, name: &str, label: &str) -> f64 {
    let start = format!("{name}{{");
    let found: Vec<String> =
        lines(outbox).into_iter().filter(|line| line.starts_with(&start) && line.contains(label)).collect();
    match found.as_slice() {
        [] => f64::NAN,
        [line] => line.rsplit_once(' ').unwrap().1.parse().unwrap(),
        _ => panic!("{name} {label}: {found:?}"),
    }
}

fn named(outbox: &str) -> OutboxOptions {
    OutboxOptions::default().metrics_name(outbox)
}

fn hasty() -> Policy {
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(20));
    Policy::default().backoff_min(short).backoff_max(long).probe_min(short).probe_max(long)
}

/// Every tenth message is rejected.
fn picky() -> RecordingSink {
    RecordingSink::scripted(|message: &Message| match number(&message.event) % 10 {
        0 => Outcome::Rejected(Failure::new("no zero")),
        _ => acknowledged(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_types_keys_and_urls_add_no_series() {
    LazyLock::force(&RECORDER);
    let shop = Shop::open();
    let sink = picky();
    let router = Router::by_topic().first_match([Rule::to("https://{key}.example.org/{type}")]).unwrap();
    // Renewals begin before the first look.
    let policy = hasty().lease(Duration::from_millis(600));
    let subscription = Subscription::new("search", sink.clone()).router(router).policy(policy);
    let relay = Relay::builder()
        .outbox_with(shop.store.clone(), [subscription], named("series"))
        .spawn()
        .await
        .unwrap();
    Outbox::new().write_all(&shop.connect(), (0..20).map(|n| order(n).with_key("k"))).unwrap();
    relay.wake();
    sink.wait_for(18).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 2).await;
    relay.handle().refresh_metrics().await;
    eventually("the lease was renewed", async || {
        series("series").iter().any(|name| name.contains("operation=\"renew\""))
    })
    .await;
    let before = series("series");
    let many = (0..10_000).map(|n| {
        Event::new(format!("type.{n}"), format!("{{\"number\":{n}}}"))
            .with_key(format!("key-{n}"))
            .with_topic(format!("topic-{n}"))
    });
    Outbox::new().write_all(&shop.connect(), many).unwrap();
    relay.wake();
    sink.wait_for(18 + 9_000).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 1_002).await;
    relay.handle().refresh_metrics().await;
    // The codes of errors are a closed list; a slow machine may add one.
    let after: BTreeSet<String> =
        series("series").into_iter().filter(|name| !name.starts_with("postrider_errors_total")).collect();
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(before.len() > 50, "{before:?}");
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_is_what_the_relay_did() {
    LazyLock::force(&RECORDER);
    let shop = Shop::open();
    let sink = picky();
    let subscription = Subscription::new("search", sink.clone()).sink_name("warehouse").policy(hasty());
    Outbox::new().write_all(&shop.connect(), (0..50).map(|n| order(n).with_key(n.to_string()))).unwrap();
    let relay = Relay::builder()
        .outbox_with(shop.store.clone(), [subscription], named("numbers"))
        .spawn()
        .await
        .unwrap();
    sink.wait_for(45).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 5).await;
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 50).await;
    let is = |name: &str, label: &str| value("numbers", &format!("postrider_{name}"), label);
    eventually("all batches are counted", async || is("attempts_total", "acknowledged") == 45.0).await;
    assert_eq!(is("attempts_total", "outcome=\"rejected\""), 5.0);
    assert_eq!(is("attempts_total", "outcome=\"down\""), 0.0);
    assert_eq!(is("events_claimed_total", ""), 50.0);
    assert_eq!(is("events_dead_total", "given_up"), 5.0);
    assert_eq!(is("events_dead_total", "damaged"), 0.0);
    assert_eq!(is("delivery_latency_seconds_count", ""), 45.0);
    assert_eq!(is("batch_events_sum", "sink=\"warehouse\""), 50.0);
    assert_eq!(is("takeovers_total", "clean=\"true\""), 1.0);
    assert!(is("store_duration_seconds_count", "settle") >= 1.0);
    assert_eq!((is("lease_held", ""), is("lease_epoch", "")), (1.0, 1.0));
    eventually("nothing is in flight", async || is("in_flight_events", "") == 0.0).await;
    assert_eq!((is("read_ahead_events", ""), is("breaker_open", "warehouse")), (0.0, 0.0));
    assert!(is("last_progress_timestamp_seconds", "") > 1_700_000_000.0);

    relay.handle().refresh_metrics().await;
    assert_eq!((is("backlog_events", ""), is("backlog_bounded", "")), (0.0, 0.0));
    assert_eq!(is("oldest_undelivered_age_seconds", ""), 0.0, "nothing waits");
    assert_eq!((is("parked_events", "dead"), is("parked_events", "retry")), (5.0, 0.0));
    assert_eq!(is("parked_limit_events", ""), 100_000.0);
    assert_eq!((is("subscription_state", "leading"), is("subscription_state", "paused")), (1.0, 0.0));
    assert_eq!(is("retention_lag_seconds", ""), 0.0);
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_counted_and_ends() {
    LazyLock::force(&RECORDER);
    static IS_DOWN: AtomicBool = AtomicBool::new(true);
    let shop = Shop::open();
    let sink = RecordingSink::scripted(|_| match IS_DOWN.load(Ordering::SeqCst) {
        true => Outcome::Down(Failure::new("no route to host")),
        false => acknowledged(),
    });
    let subscription = Subscription::new("search", sink.clone()).policy(hasty());
    Outbox::new().write_all(&shop.connect(), (0..5).map(order)).unwrap();
    let relay = Relay::builder()
        .outbox_with(shop.store.clone(), [subscription], named("outage"))
        .spawn()
        .await
        .unwrap();
    let is = |name: &str, label: &str| value("outage", &format!("postrider_{name}"), label);
    eventually("the breaker is open", async || is("breaker_open", "") == 1.0).await;
    assert_eq!(is("breaker_opened_total", ""), 1.0);
    IS_DOWN.store(false, Ordering::SeqCst);
    sink.wait_for(5).await;
    eventually("the breaker is closed", async || is("breaker_open", "") == 0.0).await;
    assert!(is("attempts_total", "outcome=\"down\"") >= 1.0);
    assert_eq!(is("events_dead_total", "given_up"), 0.0);
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_is_in_the_list_of_metrics() {
    LazyLock::force(&RECORDER);
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let relay = Relay::builder()
        .outbox_with(shop.store.clone(), [Subscription::new("search", sink.clone())], named("listed"))
        .spawn()
        .await
        .unwrap();
    Outbox::new().write_all(&shop.connect(), [order(1)]).unwrap();
    relay.wake();
    sink.wait_for(1).await;
    relay.handle().refresh_metrics().await;
    eventually("the batch is counted", async || {
        value("listed", "postrider_attempts_total", "acknowledged") == 1.0
    })
    .await;
    for line in lines("listed") {
        let (name, labels) = line.split_once('{').unwrap();
        let metric = METRICS.iter().find(|metric| match metric.kind {
            MetricKind::Seconds(_) | MetricKind::Numbers(_) => {
                name.strip_prefix(metric.name).is_some_and(|end| matches!(end, "_bucket" | "_sum" | "_count"))
            }
            _ => metric.name == name,
        });
        let metric = metric.unwrap_or_else(|| panic!("{line} is not in the list"));
        let labels = labels.rsplit_once('}').unwrap().0;
        let given: Vec<(&str, &str)> = labels
            .split(',')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (name, value.trim_matches('"')))
            .filter(|(name, _)| *name != "le")
            .collect();
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, metric.labels.iter().map(|label| label.name).collect::<Vec<_>>(), "{line}");
        for (label, (_, value)) in metric.labels.iter().zip(&given) {
            if let LabelValues::Closed(list) = label.values {
                assert!(list.iter().any(|(known, _)| known == value), "{line}");
            }
        }
    }
    relay.shutdown().await.unwrap();
}

/// Each command of an operator is counted once, with its result.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_an_operator_is_counted() {
    LazyLock::force(&RECORDER);
    let shop = Shop::open();
    let operator = Operator::new(shop.store.clone(), "alice@shop");
    let counted = |action: &str, result: &str| {
        let start = format!("postrider_operator_actions_total{{action=\"{action}\",result=\"{result}\"}} ");
        let rendered = render();
        rendered.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok()).unwrap_or_default()
    };
    let change = async |action| operator.change_subscription("counted", action, None).await;
    let actions = ["pause", "resume", "subscribe", "move", "remove", "accept-history"];
    let before: Vec<u64> = actions.iter().map(|action| counted(action, "done")).collect();
    let failed = counted("pause", "failed");
    assert!(operator.pause("counted", "it does not exist").await.is_err());
    change(SubscriptionAction::Add(Start::Beginning)).await.unwrap();
    operator.pause("counted", "tea").await.unwrap();
    operator.resume("counted").await.unwrap();
    change(SubscriptionAction::Move(Start::Now)).await.unwrap();
    change(SubscriptionAction::AcceptHistory(Start::Beginning)).await.unwrap();
    change(SubscriptionAction::Remove).await.unwrap();
    let after: Vec<u64> = actions.iter().map(|action| counted(action, "done")).collect();
    assert_eq!(after, before.iter().map(|count| count + 1).collect::<Vec<_>>(), "{actions:?}");
    assert_eq!(counted("pause", "failed"), failed + 1);
}
