//! A database that contains a table of a layout and an outbox of the layout `postrider`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider::adopt::{AdoptSource, Adopted, Adoption, AdoptionRun, Counts};
use postrider::layout::{Ability, RowLayout};
use postrider::relay::{OutboxOptions, Policy, Relay, Retention, Subscription};
use postrider::sink::{Failure, Outcome};
use postrider::store::{Start, Store};
use postrider::{ActionContext, Event, Outbox, Result, Timestamp};
use postrider_testkit::eventually;
use uuid::Uuid;

use crate::recording_sink::RecordingSink;

/// Attempts before a row is given up.
pub(crate) const ATTEMPTS_MAX: u32 = 5;

/// The subscription of the table and of the outbox.
pub(crate) const NAME: &str = "mail";

/// Number of keys that the events have.
pub(crate) const KEYS: usize = 5;

#[allow(async_fn_in_trait, reason = "only tests call it")]
pub(crate) trait Stage: Sized {
    /// `None` without such a server.
    async fn new(layout: RowLayout) -> Result<Option<Self>>;

    fn layout(&self) -> RowLayout;

    /// The store of the table.
    async fn rows(&self) -> Result<Arc<dyn AdoptSource>>;

    /// The store of the outbox.
    async fn log(&self) -> Result<Arc<dyn AdoptSource>>;

    fn to_rows(&self) -> Outbox;

    fn to_log(&self) -> Outbox;

    /// Writes in one transaction.
    async fn write(&self, to: &Outbox, events: Vec<Event>) -> Result<()>;

    /// Runs SQL. `{t}` is the table, in layout `eventlog` `{log}` and `{notifications}`; `{events}` and `{parked}` are tables of the outbox, `{notes}` is the table with Postrider's
    /// notes about rows, and `{never}` is a time in the past.
    async fn run(&self, sql: &str) -> Result<()>;

    async fn one(&self, sql: &str) -> Result<i64>;

    /// Renames the events table of the outbox, or renames it back.
    async fn hide_log(&self, is_hidden: bool) -> Result<()>;

    /// Writes a row in a transaction that stays open, and returns the future that commits it.
    async fn write_late(&self, event: Event) -> Result<Late>;
}

/// Commits a transaction.
pub(crate) type Late = Pin<Box<dyn Future<Output = Result<()>>>>;

/// State values and columns of a layout.
pub(crate) struct Words {
    pub(crate) pending: &'static str,
    pub(crate) done: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) attempts: &'static str,
    /// The assignment that, together with the state, marks a row as given up.
    pub(crate) given_up: String,
}

pub(crate) fn words(layout: RowLayout) -> Words {
    let spec = layout.spec();
    let [pending, .., done, failed] = spec.states else { panic!("{} has too few states", spec.name) };
    let is_scheduled = layout.shapes()[0].columns.iter().any(|column| column.name == "next_attempt_at");
    let given_up = match is_scheduled {
        true => "next_attempt_at = '9999-12-31 00:00:00'".to_owned(),
        false => format!("{} = 100", spec.attempts),
    };
    Words { pending, done, failed, attempts: spec.attempts, given_up }
}

/// An event that the layout can store, with this key and number.
pub(crate) fn event(layout: RowLayout, key: usize, number: usize) -> Event {
    let payload = format!("{{\"n\": {number}}}");
    let event = Event::new("order.placed", payload);
    if layout == RowLayout::Eventlog {
        let at = Timestamp::from_micros(1_763_242_500_123_456);
        let action = ActionContext::new("PlaceOrder", "{}").with_times(at, at);
        return event.with_aggregate("Order", format!("key{key}")).with_namespace("shop").with_action(action);
    }
    if !layout.has(Ability::Uuids) {
        return event.with_aggregate("Order", format!("key{key}"));
    }
    event
        .with_aggregate("Order", Uuid::from_u128(key as u128).to_string())
        .with_topic("orders")
        .with_header("shop", "north")
        .with_key(format!("key{key}"))
}

/// Events of all keys, interleaved.
pub(crate) fn events(layout: RowLayout, rounds: std::ops::Range<usize>) -> Vec<Event> {
    rounds.flat_map(|number| (0..KEYS).map(move |key| event(layout, key, number))).collect()
}

/// Writes each event in its own transaction.
pub(crate) async fn write_each(stage: &impl Stage, to: &Outbox, events: Vec<Event>) -> Result<()> {
    for event in events {
        stage.write(to, vec![event]).await?;
    }
    Ok(())
}

/// An adoption of every event, in batches of seven.
pub(crate) fn all() -> Adoption {
    Adoption { batch_events_max: 7, ..Adoption::of(NAME) }.start(Start::Beginning)
}

/// Counts, copies to the end and counts again.
pub(crate) async fn adopt(
    source: &dyn AdoptSource,
    to: Outbox,
    adoption: Adoption,
) -> Result<(Counts, Adopted)> {
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(source, to, adoption, &counts).await?;
    while copying.next_batch().await?.is_some() {}
    Ok((counts, copying.finish().await?))
}

/// A relay that reads a store from the beginning.
pub(crate) async fn relay(store: Arc<dyn AdoptSource>, sink: &RecordingSink) -> Result<Relay> {
    let policy = Policy::default()
        .lease(Duration::from_secs(1))
        .backoff_min(Duration::from_millis(5))
        .backoff_max(Duration::from_millis(20));
    let store: Arc<dyn Store> = store;
    let subscription = Subscription::new(NAME, sink.clone()).start(Start::Beginning).policy(policy);
    Relay::builder()
        .outbox_with(store, [subscription], OutboxOptions::default().retention(Retention::FOREVER))
        .spawn()
        .await
}

/// A relay delivers three events of each key, except those of `key1`: the first fails and is retried in an hour, and the two
/// behind it wait.
pub(crate) async fn fail_one_key(
    stage: &impl Stage,
    store: Arc<dyn AdoptSource>,
    to: &Outbox,
    parked: &str,
) -> Result<()> {
    stage.write(to, events(stage.layout(), 0..3)).await?;
    let sink = RecordingSink::new(|key, _| {
        key.ends_with("key1").then(|| Outcome::Failed(Failure::new("not today")))
    });
    let policy =
        Policy::default().backoff_min(Duration::from_secs(3_600)).backoff_max(Duration::from_secs(3_600));
    let store: Arc<dyn Store> = store;
    let subscription = Subscription::new(NAME, sink.clone()).start(Start::Beginning).policy(policy);
    let relay = Relay::builder()
        .outbox_with(store, [subscription], OutboxOptions::default().retention(Retention::FOREVER))
        .spawn()
        .await?;
    sink.wait_for(3 * (KEYS - 1)).await;
    let waits = format!("SELECT count(*) FROM {parked} WHERE state = 'retry' AND attempts = 1");
    eventually("the event is parked", async || Ok(stage.one(&waits).await? > 0)).await?;
    relay.shutdown().await.map(|_| ())
}

/// The messages that a relay delivers from a store, which must be this many.
pub(crate) async fn delivered(store: Arc<dyn AdoptSource>, messages: usize) -> Result<RecordingSink> {
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(store, &sink).await?;
    sink.wait_for(messages).await;
    relay.shutdown().await?;
    assert_eq!(sink.accepted().len(), messages, "each event arrives once");
    Ok(sink)
}

/// Asserts that every key received these numbers in this order.
pub(crate) fn in_order(sink: &RecordingSink, numbers: std::ops::Range<u64>) {
    let expected: Vec<u64> = numbers.collect();
    for key in 0..KEYS {
        assert_eq!(sink.of_key(&format!("key{key}")), expected, "key{key}");
    }
}

/// The numbers of undelivered and of delivered rows in the table.
pub(crate) async fn states(stage: &impl Stage) -> Result<(i64, i64)> {
    let done = words(stage.layout()).done;
    let open = stage.one(&format!("SELECT count(*) FROM {{t}} WHERE status <> '{done}'")).await?;
    let done = stage.one(&format!("SELECT count(*) FROM {{t}} WHERE status = '{done}'")).await?;
    Ok((open, done))
}

pub(crate) async fn in_log(stage: &impl Stage) -> Result<i64> {
    stage.one("SELECT count(*) FROM {events}").await
}
