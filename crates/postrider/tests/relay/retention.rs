//! A delivered outbox shrinks while a relay runs.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::relay::{OutboxOptions, Relay, Retention, Subscription};
use postrider::sink::{Failure, Outcome};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider::{Event, Position, Timestamp};
use postrider_testkit::eventually;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::shop::{RecordingSink, Shop, acknowledged};

const COUNT: &str = "SELECT count(*) FROM postrider_events";

fn soon() -> Retention {
    Retention::keep_for(Duration::from_secs(60)).interval(Duration::from_millis(20)).batch_events_max(100)
}

/// Acknowledges every event except those named bad.
fn particular() -> RecordingSink {
    RecordingSink::scripted(|message| match message.event.event_type.as_str() {
        "bad" => Outcome::Rejected(Failure::new("bad")),
        _ => acknowledged(),
    })
}

fn write_old(shop: &Shop) {
    let event = |n| Event::new(if n == 7 { "bad" } else { "good" }, "").with_time(Timestamp::from_micros(1));
    Outbox::new().write_all(&shop.connect(), (1..=500).map(event).collect::<Vec<_>>()).unwrap();
}

/// A relay with one subscription, on which one event is dead.
async fn relay(shop: &Shop, retention: Retention) -> Relay {
    let subscription = Subscription::new("audit", particular()).start(Start::Beginning);
    let options = OutboxOptions::default().retention(retention);
    Relay::builder().outbox_with(shop.store.clone(), [subscription], options).spawn().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_outbox_shrinks_to_its_dead_events_and_the_last_event_seen() {
    let shop = Shop::open();
    write_old(&shop);
    let relay = relay(&shop, soon()).await;
    shop.wait_until(COUNT, 2).await;
    relay.shutdown().await.unwrap();
    shop.wait_until("SELECT min(position) * 1000 + max(position) FROM postrider_events", 7_500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_subscription_holds_retention_back_and_is_named() {
    let shop = Shop::open();
    write_old(&shop);
    shop.store.subscribe("slow", Start::Position(Position::new(101))).await.unwrap();
    let relay = relay(&shop, soon()).await;
    // 1 to 100 except the dead one, and the mark of the slow one.
    shop.wait_until(COUNT, 402).await;
    let overview = shop.store.overview(0).await.unwrap();
    let held = overview.held_back(Duration::from_secs(60)).unwrap();
    assert_eq!((held.subscription.as_str(), held.floor.get()), ("slow", 100));
    shop.store.accept_history("slow", Start::Now).await.unwrap();
    shop.wait_until(COUNT, 2).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_without_a_retention_are_kept() {
    let shop = Shop::open();
    write_old(&shop);
    let relay = relay(&shop, Retention::FOREVER.interval(Duration::from_millis(1))).await;
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 500).await;
    relay.shutdown().await.unwrap();
    shop.wait_until(COUNT, 500).await;
}

/// Records the log lines of level info.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::INFO {
            let mut line = String::new();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                _ = write!(line, "{field}={value:?} ");
            });
            self.0.lock().unwrap().push_str(&(line + "\n"));
        }
    }
}

/// The subscriber belongs to the thread, so the runtime has one thread.
#[test]
fn planned_and_completed_deletions_are_logged_with_counts() {
    let lines = Lines::default();
    // With only one subscriber, tracing decides whether a log line is enabled by the thread that reaches it first, which may
    // be the thread of another test. With two, it checks all of them.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let shop = Shop::open();
        write_old(&shop);
        // Another test may have reached a log line before the subscribers were set.
        tracing::callsite::rebuild_interest_cache();
        let subscription = Subscription::new("audit", particular()).start(Start::Beginning);
        let relay = Relay::builder().outbox_with(
            shop.store.clone(),
            [subscription],
            OutboxOptions::default().retention(soon()),
        );
        let relay = relay.spawn().await.unwrap();
        let logged = || lines.0.lock().unwrap().clone();
        assert!(
            logged().contains("events that every subscription has finished are deleted 1m after"),
            "{}",
            logged()
        );
        // In one log line or in several.
        let deleted = || {
            let count = |line: &str| line.split("deleted=").nth(1)?.split(' ').next()?.parse::<u64>().ok();
            let all = logged();
            all.lines()
                .filter(|line| line.contains("deleted delivered events older than the retention"))
                .filter_map(count)
                .sum::<u64>()
        };
        shop.wait_until(COUNT, 2).await;
        // Rows are deleted shortly before the relay logs it.
        eventually("the last batch is logged", async || deleted() >= 498).await;
        relay.shutdown().await.unwrap();
        assert_eq!(deleted(), 498, "{}", logged());
    });
}
