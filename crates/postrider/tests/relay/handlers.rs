//! In-process handlers on a real SQLite file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::event::TypedEvent;
use postrider::handler::{Context, HandlerError, Handlers, Result};
use postrider::inbox::{Inbox, Once};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::write::Outbox;
use postrider::{BoxFuture, Code, Event};
use postrider_testkit::eventually;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::shop::{RecordingSink, Shop};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Placed {
    number: usize,
    customer: usize,
}

impl TypedEvent for Placed {
    const TYPE: &'static str = "order.placed";
    const AGGREGATE: Option<&'static str> = Some("Customer");

    fn aggregate_id(&self) -> Option<String> {
        Some(self.customer.to_string())
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Cancelled {
    number: usize,
}

impl TypedEvent for Cancelled {
    const TYPE: &'static str = "order.cancelled";
}

/// Orders of `customers` customers, in turn.
fn placed(numbers: std::ops::Range<usize>, customers: usize) -> Vec<Event> {
    use postrider::IntoEvent as _;
    numbers.map(|number| (&Placed { number, customer: number % customers }).into_event().unwrap()).collect()
}

/// Short backoff, so that tests do not wait.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.max_attempts = 3;
    policy.backoff_min = Duration::from_millis(5);
    policy.backoff_max = Duration::from_millis(20);
    policy.lease = Duration::from_secs(2);
    policy
}

/// The calls of handlers, in order.
#[derive(Debug, Clone)]
struct Calls {
    calls: Arc<Mutex<Vec<(Placed, u32)>>>,
    count: watch::Sender<usize>,
}

impl Calls {
    fn new() -> Self {
        Self { calls: Arc::default(), count: watch::channel(0).0 }
    }

    fn add(&self, placed: &Placed, cx: &Context) {
        self.calls.lock().unwrap().push((placed.clone(), cx.attempt()));
        self.count.send_modify(|count| *count += 1);
    }

    /// A handler that records its calls and returns a result.
    fn handler(
        &self,
        result: impl Fn(&Placed, &Context) -> Result + Send + Sync + 'static,
    ) -> impl Fn(Placed, Context) -> BoxFuture<'static, Result> + Send + Sync + 'static {
        let (calls, result) = (self.clone(), Arc::new(result));
        move |placed, cx| {
            let (calls, result) = (calls.clone(), result.clone());
            Box::pin(async move {
                calls.add(&placed, &cx);
                result(&placed, &cx)
            })
        }
    }

    async fn wait_for(&self, count: usize) {
        let mut seen = self.count.subscribe();
        let enough = seen.wait_for(|seen| *seen >= count);
        tokio::time::timeout(Duration::from_secs(60), enough).await.expect("not all calls came").unwrap();
    }

    fn attempts_of(&self, number: usize) -> Vec<u32> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(placed, _)| placed.number == number).map(|(_, attempt)| *attempt).collect()
    }

    /// The numbers that each customer's calls had, in order.
    fn by_customer(&self) -> HashMap<usize, Vec<usize>> {
        let mut all: HashMap<usize, Vec<usize>> = HashMap::new();
        for (placed, _) in self.calls.lock().unwrap().iter() {
            all.entry(placed.customer).or_default().push(placed.number);
        }
        all
    }
}

async fn start(shop: &Shop, subscriptions: impl IntoIterator<Item = Subscription>) -> Relay {
    let subscriptions = subscriptions.into_iter().map(|of| of.policy(policy()));
    Relay::builder().outbox(shop.store.clone(), subscriptions.collect::<Vec<_>>()).spawn().await.unwrap()
}

fn write(shop: &Shop, events: Vec<Event>) {
    Outbox::new().write_all(&shop.connect(), events).unwrap();
}

const DEAD: &str = "SELECT count(*) FROM postrider_parked WHERE state = 'dead'";

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_gets_the_events_of_its_types_in_order_per_key() {
    let shop = Shop::open();
    let calls = Calls::new();
    let cancelled = Arc::new(AtomicUsize::new(0));
    let handlers = Handlers::new().on(calls.handler(|_, _| Ok(()))).on({
        let cancelled = cancelled.clone();
        move |of: Cancelled, _| {
            cancelled.fetch_add(of.number, Ordering::SeqCst);
            async { Ok(()) }
        }
    });
    let mut events = placed(0..300, 7);
    events.push(Event::new("order.cancelled", r#"{"number": 5}"#));
    events.push(Event::new("user.created", "{}"));
    write(&shop, events);
    let relay = start(&shop, [Subscription::handlers("mail", handlers)]).await;
    calls.wait_for(300).await;
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 302).await;
    relay.shutdown().await.unwrap();
    assert_eq!(cancelled.load(Ordering::SeqCst), 5);
    for (customer, numbers) in calls.by_customer() {
        let expected: Vec<usize> = (0..300).filter(|number| number % 7 == customer).collect();
        assert_eq!(numbers, expected, "customer {customer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_for_any_event_gets_those_that_no_other_function_takes() {
    let shop = Shop::open();
    let others = Arc::new(Mutex::new(Vec::new()));
    let seen = others.clone();
    let handlers = Handlers::new().on(|_: Placed, _| async { Ok(()) }).on(move |event: Arc<Event>, cx| {
        seen.lock().unwrap().push((event.event_type.clone(), cx.event_id() == event.id));
        async { Ok(()) }
    });
    let mut events = placed(0..10, 3);
    events.push(Event::new("user.created", "not json").with_topic("users"));
    write(&shop, events);
    let relay = start(&shop, [Subscription::handlers("audit", handlers)]).await;
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 11).await;
    relay.shutdown().await.unwrap();
    assert_eq!(*others.lock().unwrap(), [("user.created".to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_call_delays_only_the_events_of_its_key() {
    let shop = Shop::open();
    let (calls, release) = (Calls::new(), Arc::new(Notify::new()));
    let handler = {
        let (calls, release) = (calls.clone(), release.clone());
        move |placed: Placed, cx: Context| {
            let (calls, release) = (calls.clone(), release.clone());
            async move {
                if placed.number == 0 {
                    release.notified().await;
                }
                calls.add(&placed, &cx);
                Ok(())
            }
        }
    };
    write(&shop, placed(0..200, 5));
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    // All of the other four customers, while the first order of customer 0 is still being handled.
    calls.wait_for(160).await;
    assert!(!calls.by_customer().contains_key(&0));
    release.notify_one();
    calls.wait_for(200).await;
    assert_eq!(calls.by_customer()[&0], (0..40).map(|n| n * 5).collect::<Vec<_>>());
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_calls_run_at_once_as_the_concurrency_allows_and_no_more() {
    let shop = Shop::open();
    let (running, most, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Calls::new());
    let three = Arc::new(tokio::sync::Barrier::new(3));
    let handler = {
        let (running, most, done) = (running.clone(), most.clone(), done.clone());
        move |placed: Placed, cx: Context| {
            let (running, most, done, three) = (running.clone(), most.clone(), done.clone(), three.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Passes only if three calls run at the same time.
                three.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
                done.add(&placed, &cx);
                Ok(())
            }
        }
    };
    write(&shop, placed(0..60, 60));
    let relay =
        start(&shop, [Subscription::handlers("mail", Handlers::new().on(handler).concurrency(3))]).await;
    done.wait_for(60).await;
    relay.shutdown().await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_panics_are_retried_and_then_dead_and_no_other_key_waits() {
    let shop = Shop::open();
    let calls = Calls::new();
    let handler = calls.handler(|placed, cx| match placed.number {
        1 => Err("the mail server said no")?,
        2 => panic!("a bug"),
        3 if cx.attempt() < 3 => Err(std::io::Error::other("busy"))?,
        _ => Ok(()),
    });
    write(&shop, placed(0..40, 10));
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE last_error = 'the mail server said no' AND state = 'dead'", 1).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE last_error = 'the handler panicked: a bug' AND state = 'dead'", 1).await;
    // 38 events once, three more attempts of 1 and 2, two more of 3.
    calls.wait_for(40 + 2 + 2 + 2).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 2).await;
    relay.shutdown().await.unwrap();
    for number in [1, 2, 3] {
        assert_eq!(calls.attempts_of(number), [1, 2, 3], "event {number}");
    }
    assert_eq!(calls.by_customer()[&3], [3, 3, 3, 13, 23, 33], "later events waited for the retries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_can_skip_an_event_or_make_it_dead_at_once() {
    let shop = Shop::open();
    let calls = Calls::new();
    let handler = calls.handler(|placed, _| match placed.number {
        0 => Err(HandlerError::skip("not for us")),
        1 => Err(HandlerError::dead("no such customer")),
        _ => Ok(()),
    });
    write(&shop, placed(0..4, 4));
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    shop.wait_until(
        "SELECT count(*) FROM postrider_parked WHERE last_error = 'no such customer' AND attempts = 1",
        1,
    )
    .await;
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 4).await;
    relay.shutdown().await.unwrap();
    assert_eq!(calls.calls.lock().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_handler_distinguishes_dead_events_from_those_that_are_retried() {
    let shop = Shop::open();
    let calls = Calls::new();
    let handler = || {
        calls.handler(|placed, _| match placed.number {
            0 => Err(HandlerError::dead("no such customer")),
            1 => Err(HandlerError::from("the mail server is down")),
            _ => Ok(()),
        })
    };
    // Nothing is retried while the test runs.
    let minute = Duration::from_secs(60);
    let policy = || Policy::default().backoff_min(minute).backoff_max(minute);
    write(&shop, placed(0..4, 4));
    let start = async || {
        let subscription = Subscription::handler("mail", handler()).policy(policy());
        Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap()
    };
    let relay = start().await;
    let parked = |relay: &Relay| {
        let state = relay.handle().status().remove(0).state;
        (state.parked, state.dead)
    };
    eventually("both failures are parked", async || parked(&relay) == (2, 1)).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 2).await;
    relay.shutdown().await.unwrap();
    // The next relay loads them.
    let relay = start().await;
    eventually("both are loaded", async || parked(&relay) == (2, 1)).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_is_dropped_and_counts_as_an_attempt() {
    let shop = Shop::open();
    let calls = Calls::new();
    let seen = calls.clone();
    let handler = move |placed: Placed, cx: Context| {
        seen.add(&placed, &cx);
        std::future::pending::<Result>()
    };
    write(&shop, placed(0..1, 1));
    let handlers = Handlers::new().on(handler).timeout(Duration::from_millis(20));
    let relay = start(&shop, [Subscription::handlers("mail", handlers)]).await;
    shop.wait_until(&format!("{DEAD} AND last_error LIKE 'the handler did not finish within%'"), 1).await;
    relay.shutdown().await.unwrap();
    assert_eq!(calls.attempts_of(0), [1, 2, 3]);
}

/// An error whose `Display` fails.
#[derive(Debug)]
struct Unprintable;

impl std::fmt::Display for Unprintable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no text")
    }
}

impl std::error::Error for Unprintable {}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_panics_when_it_is_printed_affects_no_other_event() {
    let shop = Shop::open();
    let calls = Calls::new();
    let seen = calls.clone();
    let handler = move |placed: Placed, cx: Context| {
        seen.add(&placed, &cx);
        async move { if placed.number == 3 { Err(Unprintable)? } else { Ok(()) } }
    };
    write(&shop, placed(0..20, 20));
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    shop.wait_until(&format!("{DEAD} AND last_error = 'the handler panicked: no text'"), 1).await;
    relay.shutdown().await.unwrap();
    assert_eq!(calls.attempts_of(3), [1, 2, 3]);
    assert_eq!(calls.calls.lock().unwrap().len(), 22, "the others were called once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_a_call_in_progress_up_to_the_handlers_timeout() {
    let shop = Shop::open();
    let (begun, finish, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Calls::new());
    let handler = {
        let (begun, finish, done) = (begun.clone(), finish.clone(), done.clone());
        move |placed: Placed, cx: Context| {
            let (begun, finish, done) = (begun.clone(), finish.clone(), done.clone());
            async move {
                begun.notify_one();
                finish.notified().await;
                done.add(&placed, &cx);
                Ok(())
            }
        }
    };
    write(&shop, placed(0..1, 1));
    let hasty = policy().drain_timeout(Duration::from_millis(1));
    let subscription = Subscription::handler("mail", handler).policy(hasty);
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    begun.notified().await;
    let mut stopping = tokio::spawn(relay.shutdown());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut stopping).await;
    assert!(early.is_err(), "it waits longer than the policy asks for");
    finish.notify_one();
    stopping.await.unwrap().unwrap();
    assert_eq!(done.attempts_of(0), [1]);
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_not_of_the_type_is_dead_after_its_attempts_and_names_the_type() {
    let shop = Shop::open();
    let calls = Calls::new();
    let seen = calls.clone();
    let handler = move |placed: Placed, cx: Context| {
        seen.add(&placed, &cx);
        async { Ok(()) }
    };
    let mut events =
        vec![Event::new("order.placed", r#"{"number": "seven"}"#).with_aggregate("Customer", "0")];
    events.extend(placed(0..3, 1));
    write(&shop, events);
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    shop.wait_until(&format!("{DEAD} AND last_error LIKE 'the payload is not a %Placed: %'"), 1).await;
    calls.wait_for(3).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_handler_of_a_type_has_its_own_progress_and_dead_letters() {
    let shop = Shop::open();
    let (mail, stock) = (Calls::new(), Calls::new());
    let one = {
        let mail = mail.clone();
        move |placed: Placed, cx: Context| {
            mail.add(&placed, &cx);
            async { Err(HandlerError::dead("closed")) }
        }
    };
    let other = {
        let stock = stock.clone();
        move |placed: Placed, cx: Context| {
            stock.add(&placed, &cx);
            async { Ok(()) }
        }
    };
    write(&shop, placed(0..20, 20));
    let relay =
        start(&shop, [Subscription::handler("mail", one), Subscription::handler("stock", other)]).await;
    mail.wait_for(20).await;
    stock.wait_for(20).await;
    shop.wait_until(&format!("{DEAD} AND subscription = 'mail'"), 20).await;
    relay.shutdown().await.unwrap();
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE subscription = 'stock'", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_handling_was_cut_off_is_handled_again() {
    let shop = Shop::open();
    let begun = Arc::new(AtomicUsize::new(0));
    write(&shop, placed(0..1, 1));
    let seen = begun.clone();
    let stuck = move |_: Placed, _| {
        seen.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result>()
    };
    let relay = start(&shop, [Subscription::handler("mail", stuck)]).await;
    eventually("the handler was called", async || begun.load(Ordering::SeqCst) == 1).await;
    drop(relay);
    let calls = Calls::new();
    let seen = calls.clone();
    let handler = move |placed: Placed, cx: Context| {
        seen.add(&placed, &cx);
        async { Ok(()) }
    };
    let relay = start(&shop, [Subscription::handler("mail", handler)]).await;
    calls.wait_for(1).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_with_an_inbox_has_its_effect_once_though_it_is_called_again() {
    let shop = Shop::open();
    shop.connect().execute("CREATE TABLE mails (number INTEGER)", []).unwrap();
    write(&shop, placed(0..1, 1));
    let (calls, duplicates) = (Calls::new(), Arc::new(AtomicUsize::new(0)));
    let handler = |dies: bool| {
        let (calls, duplicates) = (calls.clone(), duplicates.clone());
        let path = shop.path().to_owned();
        move |placed: Placed, cx: Context| {
            let (calls, duplicates, path) = (calls.clone(), duplicates.clone(), path.clone());
            async move {
                let once = tokio::task::spawn_blocking({
                    let (cx, number) = (cx.clone(), placed.number);
                    move || send_once(&path, &cx, number as i64)
                });
                duplicates.fetch_add(usize::from(once.await??.is_duplicate()), Ordering::SeqCst);
                calls.add(&placed, &cx);
                // The effect is committed; the relay dies before it can record that.
                if dies { std::future::pending().await } else { Ok(()) }
            }
        }
    };
    let relay = start(&shop, [Subscription::handler("mail", handler(true))]).await;
    calls.wait_for(1).await;
    drop(relay);
    let relay = start(&shop, [Subscription::handler("mail", handler(false))]).await;
    calls.wait_for(2).await;
    relay.shutdown().await.unwrap();
    assert_eq!(duplicates.load(Ordering::SeqCst), 1);
    shop.wait_until("SELECT count(*) FROM mails", 1).await;
}

/// The effect of a handler, and the inbox row, in one transaction.
fn send_once(
    path: &std::path::Path,
    cx: &Context,
    number: i64,
) -> std::result::Result<Once<()>, Box<dyn std::error::Error + Send + Sync>> {
    let mut database = rusqlite::Connection::open(path)?;
    database.busy_timeout(Duration::from_secs(30))?;
    let tx = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let once = Inbox::new().once_blocking(&tx, cx.subscription(), cx.event_id(), |tx| {
        tx.execute("INSERT INTO mails (number) VALUES (?)", [number])?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    tx.commit()?;
    Ok(once)
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_contradict_each_other_start_nothing() {
    let shop = Shop::open();
    let once = || Handlers::new().on(|_: Placed, _| async { Ok(()) });
    let wrong = [
        (once().on(|_: Placed, _| async { Ok(()) }), "two functions take events of type \"order.placed\""),
        (Handlers::new(), "it has no function"),
        (once().concurrency(0), "the concurrency is 0"),
        (once().timeout(Duration::ZERO), "the timeout is 0"),
        (once().timeout(Duration::MAX), "the timeout is longer than 86400s"),
    ];
    for (handlers, reason) in wrong {
        let subscriptions = [Subscription::handlers("mail", handlers)];
        let error = Relay::builder().outbox(shop.store.clone(), subscriptions).spawn().await.unwrap_err();
        assert_eq!(error.code(), Code::HandlerInvalid);
        assert_eq!(error.message(), format!("\"mail\": {reason}"));
    }
    shop.wait_until("SELECT count(*) FROM postrider_subscriptions", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_with_the_name_of_a_handler_is_refused_and_takes_no_event() {
    let shop = Shop::open();
    let calls = Calls::new();
    let handler = || Subscription::handler("mail", calls.handler(|_, _| Ok(()))).policy(policy());
    let program =
        Relay::builder().name("shop").outbox(shop.store.clone(), [handler()]).spawn().await.unwrap();
    // While the program runs, and when it is stopped.
    let sink = RecordingSink::new();
    let relay = async |subscription: Subscription| {
        Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await
    };
    let refused = relay(Subscription::new("mail", sink.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::SubscriptionIsHandler);
    assert!(
        refused.message().contains("subscription \"mail\" is a handler of a program: shop#"),
        "{refused}"
    );
    program.shutdown().await.unwrap();
    Outbox::new().write_all(&shop.connect(), placed(0..10, 3)).unwrap();
    relay(Subscription::new("mail", sink.clone())).await.unwrap_err();
    // Another name is another subscription, and the handler still gets its events.
    relay(Subscription::new("other", sink.clone())).await.unwrap().shutdown().await.unwrap();
    let program = relay(handler()).await.unwrap();
    calls.wait_for(10).await;
    program.shutdown().await.unwrap();
    let registrations = "SELECT COUNT(*) FROM postrider_audit WHERE subscription = 'handler:mail'";
    shop.wait_until(registrations, 1).await;

    let replacing = Subscription::new("mail", sink.clone()).replaces_handler();
    let relay = relay(replacing).await.unwrap();
    Outbox::new().write_all(&shop.connect(), placed(10..20, 3)).unwrap();
    relay.wake();
    sink.wait_for(10).await;
    relay.shutdown().await.unwrap();
}
