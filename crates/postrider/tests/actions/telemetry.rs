//! What an execution reports: its spans, as an OpenTelemetry exporter receives them, and its numbers, as Prometheus reads
//! them.
#![cfg(all(feature = "metrics", feature = "otel"))]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use opentelemetry::trace::{SpanId, Status, TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use postrider::action::{Action, Database, EventPersister, Executor, Performed, Plan, Retry, RetryOn};
use postrider::inbox::Inbox;
use postrider::telemetry::{EXECUTE, LabelValues, METRICS, MetricKind, PERFORM, PERSIST, current_trace};
use postrider::{BoxFuture, Code, Error, Outbox, Result};
use postrider_testkit::{ManualClock, within};
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxSqlite};
use crate::place::Place;
use crate::wallet::{Amount, MoneyDeposited, Open, Wallet, Wallets};

const PERFORMED: Duration = Duration::from_millis(30);
const PERSISTED: Duration = Duration::from_millis(7);

/// Deposits. Reading takes 30 ms of the test's clock.
#[derive(Action)]
struct Deposit {
    wallets: Wallets,
    clock: ManualClock,
}

impl Action for Deposit {
    type Params = Amount;
    type Output = Uuid;
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<Uuid> {
        self.clock.advance(PERFORMED);
        let mut wallet = self.wallets.find(params.wallet).await?;
        wallet.balance += params.amount;
        plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
        plan.add(Wallet { id: Uuid::now_v7(), balance: 0, version: 1 })?;
        Ok(plan.action_id())
    }
}

/// Never ends, or panics.
#[derive(Action)]
struct Endless;

impl Action for Endless {
    type Params = bool;
    type Output = ();
    type Error = Error;

    async fn perform(&self, _: &mut Plan, panics: &bool) -> Result<()> {
        assert!(!panics, "the test wants it");
        std::future::pending().await
    }
}

/// Writes the events in 7 ms of the test's clock, and then fails as the test wants.
struct Scripted {
    outbox: Outbox,
    clock: ManualClock,
    failures: Arc<Mutex<VecDeque<Code>>>,
}

impl<D: Database> EventPersister<D> for Scripted {
    fn persist<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        performed: &'a Performed,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            EventPersister::<D>::persist(&self.outbox, tx, performed).await?;
            self.clock.advance(PERSISTED);
            match self.failures.lock().unwrap().pop_front() {
                Some(code) => Err(Error::new(code, "the test refuses")),
                None => Ok(()),
            }
        })
    }
}

/// A service with one wallet.
struct Shop {
    case: Case<SqlxSqlite>,
    executor: Executor<<SqlxSqlite as Driver>::Database>,
    failures: Arc<Mutex<VecDeque<Code>>>,
    wallet: Uuid,
}

impl Shop {
    async fn open() -> Self {
        let case = Case::<SqlxSqlite>::new(None).await.unwrap();
        let (clock, failures) = (ManualClock::default(), Arc::default());
        let outbox = case.place.outbox().trace(current_trace);
        let scripted = Scripted { outbox, clock: clock.clone(), failures: Arc::clone(&failures) };
        let at_once = Retry::times(1).delay(Duration::ZERO);
        let executor = case
            .driver
            .register(Executor::builder(case.driver.database()).namespace("shop"))
            .persister(scripted)
            .clock(clock.clone())
            .retry(RetryOn::Stale, at_once)
            .retry(RetryOn::Busy, at_once)
            .action(Open)
            .action(Deposit { wallets: case.driver.wallets(), clock })
            .action(Endless)
            .build()
            .unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
        Self { case, executor, failures, wallet }
    }

    /// Deposits once. The transactions of its attempts fail in this way, and then not any more.
    async fn deposit(&self, failures: &[Code]) -> Result<Uuid> {
        self.failures.lock().unwrap().extend(failures);
        self.executor.execute::<Deposit>(Amount { wallet: self.wallet, amount: 1 }).await
    }
}

/// Receives the spans that are created on the threads of the tests of this module.
///
/// It belongs to the process: a span that ends on the thread of a SQLite connection ends its parent with the subscriber of
/// that thread.
static SPANS: LazyLock<InMemorySpanExporter> = LazyLock::new(|| {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let layer = layer.with_filter(dynamic_filter_fn(|_, _| {
        thread::current().name().is_some_and(|name| name.starts_with("telemetry::"))
    }));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    exporter
});

/// Runs a test with this many executions in a span `request`, and returns its result, the spans of its trace, and the page
/// that Prometheus reads.
///
/// The recorder belongs to the thread, so the runtime has one thread: other tests of this process report nothing.
fn observed<T>(executions: usize, test: impl AsyncFnOnce() -> T) -> (T, Vec<SpanData>, String) {
    let exporter = &*SPANS;
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let MetricKind::Seconds(buckets) = metric.kind {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets).unwrap();
        }
    }
    let recorder = builder.build_recorder();
    let page = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    postrider::telemetry::describe();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = tracing::info_span!("request");
    let trace = request.context().span().span_context().trace_id();
    let result = runtime.block_on(test().instrument(request));
    drop(runtime);
    // The thread of a SQLite connection may still refer to a span.
    let all_ended = || {
        let mut spans = exporter.get_finished_spans().unwrap();
        spans.retain(|span| span.span_context.trace_id() == trace);
        let has_all = named(&spans, "execute").len() == executions && named(&spans, "request").len() == 1;
        has_all.then_some(spans)
    };
    let spans = within(Duration::from_secs(20), all_ended).expect("all spans have ended");
    (result, spans, page.render())
}

/// In the order in which they started.
fn named<'a>(spans: &'a [SpanData], name: &str) -> Vec<&'a SpanData> {
    let mut named: Vec<&SpanData> = spans.iter().filter(|span| span.name == name).collect();
    named.sort_by_key(|span| span.start_time);
    named
}

/// Attributes, without those that `tracing-opentelemetry` adds.
fn attributes(span: &SpanData) -> BTreeMap<&str, String> {
    let is_own = |name: &str| {
        !["code.", "thread.", "busy_ns", "idle_ns", "target"].iter().any(|other| name.starts_with(other))
    };
    let all = span.attributes.iter().map(|found| (found.key.as_str(), found.value.to_string()));
    all.filter(|(name, _)| is_own(name)).collect()
}

/// The value of a series, for example `name_total{action="Deposit"}`.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[test]
fn an_execution_is_a_span_with_an_attempt_for_each_try_and_its_events_carry_it() {
    let request = async || {
        let shop = Shop::open().await;
        let id = shop.deposit(&[Code::ActionStale]).await.unwrap();
        (id, shop.case.place.one("SELECT headers FROM {events}").await)
    };
    let ((id, headers), spans, _) = observed(2, request);

    let [request] = named(&spans, "request")[..] else { panic!("{spans:?}") };
    let [execute] = named(&spans, "execute")[1..] else {
        panic!("the first one opened the wallet: {spans:?}")
    };
    let own = attributes(execute);
    assert_eq!((&*own["action"], &*own["action_id"]), ("Deposit", &*id.to_string()));
    assert_eq!((&*own["attempts"], &*own["outcome"]), ("2", "committed"));
    assert_eq!((execute.parent_span_id, &execute.status), (request.span_context.span_id(), &Status::Unset));

    let attempts = |name| -> Vec<&SpanData> {
        let is_deposit = |span: &&SpanData| attributes(span)["action"] == "Deposit";
        named(&spans, name).into_iter().filter(is_deposit).collect()
    };
    let (performed, persisted) = (attempts("perform"), attempts("persist"));
    assert_eq!((performed.len(), persisted.len()), (2, 2));
    for (number, span) in performed.iter().enumerate().chain(persisted.iter().enumerate()) {
        assert_eq!(span.parent_span_id, execute.span_context.span_id(), "{span:?}");
        assert_eq!(attributes(span)["attempt"], (number + 1).to_string(), "{span:?}");
    }
    let [first, second] = persisted[..] else { unreachable!() };
    assert_eq!(first.status, Status::error("[PR-0380] the test refuses"));
    assert_eq!(second.status, Status::Unset);
    assert_eq!((&*attributes(second)["rows"], &*attributes(second)["events"]), ("2", "1"));

    let written = format!("{}-{}", request.span_context.trace_id(), second.span_context.span_id());
    assert!(headers.contains(&written), "{headers} is not of {written}");
    assert_ne!(second.span_context.span_id(), SpanId::INVALID);
}

#[test]
fn a_failed_execution_is_an_error_with_its_code_and_without_the_text_of_the_application() {
    let failing = async || {
        let shop = Shop::open().await;
        shop.deposit(&[Code::StoreFailed]).await.unwrap_err();
        let missing = Amount { wallet: Uuid::now_v7(), amount: 1 };
        shop.executor.execute::<Deposit>(missing).await.unwrap_err();
    };
    let ((), spans, _) = observed(3, failing);
    let [failed, refused] = named(&spans, "execute")[1..] else { panic!("{spans:?}") };
    assert_eq!(failed.status, Status::error("[PR-0302] the test refuses"));
    assert_eq!(refused.status, Status::error("the action returned an error"));
    assert_eq!([failed, refused].map(|span| attributes(span)["outcome"].clone()), ["failed", "refused"]);
}

#[test]
fn executions_are_counted_once_by_their_outcome() {
    let all = async || {
        let shop = Shop::open().await;
        shop.deposit(&[]).await.unwrap();
        shop.deposit(&[Code::StoreBusy]).await.unwrap();
        shop.deposit(&[Code::ActionStale, Code::StoreBusy]).await.unwrap();
        shop.deposit(&[Code::ActionStale, Code::ActionStale]).await.unwrap_err();
        shop.deposit(&[Code::StoreFailed]).await.unwrap_err();
        shop.deposit(&[Code::ActionOutcomeUnknown]).await.unwrap_err();
        shop.deposit(&[Code::ShardsDiverged]).await.unwrap_err();
        let missing = Amount { wallet: Uuid::now_v7(), amount: 1 };
        shop.executor.execute::<Deposit>(missing).await.unwrap_err();
        for expected in [false, true] {
            let call = shop.executor.call::<Deposit>(Amount { wallet: shop.wallet, amount: 1 });
            let once = call.execute_once(&Inbox::new(), "http", shop.wallet).await.unwrap();
            assert_eq!(once.is_duplicate(), expected);
        }
        let endless = shop.executor.execute::<Endless>(false);
        tokio::select! { biased; _ = endless => {}, () = tokio::task::yield_now() => {} }
        let executor = shop.executor.clone();
        let panicking = async move { executor.execute::<Endless>(true).await };
        tokio::spawn(panicking.in_current_span()).await.unwrap_err();
    };
    let ((), _, page) = observed(13, all);
    let executions = |action: &str, outcome: &str| {
        let labels = format!("action=\"{action}\",outcome=\"{outcome}\"");
        value(&page, &format!("postrider_action_executions_total{{{labels}}}")).unwrap_or_default()
    };
    let outcomes = ["committed", "duplicate", "stale", "failed", "unknown", "diverged", "refused", "dropped"];
    assert_eq!(
        outcomes.map(|outcome| executions("Deposit", outcome)),
        [4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        "{page}"
    );
    assert_eq!(
        outcomes.map(|outcome| executions("Endless", outcome)),
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        "{page}"
    );
    let retries = |reason: &str| {
        let labels = format!("action=\"Deposit\",reason=\"{reason}\"");
        value(&page, &format!("postrider_action_retries_total{{{labels}}}"))
    };
    assert_eq!(["stale", "busy"].map(retries), [Some(2.0), Some(2.0)], "{page}");
}

#[test]
fn durations_are_those_of_the_executors_clock() {
    let ((), _, page) =
        observed(2, async || _ = Shop::open().await.deposit(&[Code::StoreBusy]).await.unwrap());
    for (step, count, seconds) in [("execute", 1.0, 0.074), ("perform", 2.0, 0.06), ("persist", 2.0, 0.014)] {
        let series =
            |part: &str| format!("postrider_action_{step}_duration_seconds_{part}{{action=\"Deposit\"}}");
        assert_eq!(value(&page, &series("count")), Some(count), "{page}");
        let sum = value(&page, &series("sum")).unwrap();
        assert!((sum - seconds).abs() < 1e-9, "{step}: {sum} instead of {seconds}");
    }
    // 30 ms twice: not in the bucket of 25 ms, and in that of 50 ms.
    let below = |limit: &str| {
        let labels = format!("action=\"Deposit\",le=\"{limit}\"");
        value(&page, &format!("postrider_action_perform_duration_seconds_bucket{{{labels}}}"))
    };
    assert_eq!((below("0.025"), below("0.05")), (Some(0.0), Some(2.0)), "{page}");
}

#[test]
fn every_series_and_every_field_is_in_the_list_of_names() {
    let all = async || {
        let shop = Shop::open().await;
        shop.deposit(&[Code::StoreBusy]).await.unwrap();
        shop.deposit(&[Code::StoreFailed]).await.unwrap_err();
        let call = shop.executor.call::<Deposit>(Amount { wallet: shop.wallet, amount: 1 });
        call.principal("ann").execute().await.unwrap();
    };
    let ((), spans, page) = observed(4, all);
    let mut seen = BTreeSet::new();
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap();
        let metric = METRICS.iter().find(|metric| match metric.kind {
            MetricKind::Seconds(_) => {
                ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(metric.name))
            }
            _ => name == metric.name,
        });
        let metric = metric.unwrap_or_else(|| panic!("{line}"));
        seen.insert(metric.name);
        let labels = labels.split_once('}').unwrap().0.split(',').map(|label| label.split_once('=').unwrap());
        let labels: Vec<(&str, &str)> = labels.filter(|(name, _)| *name != "le").collect();
        assert!(
            labels.iter().map(|(name, _)| *name).eq(metric.labels.iter().map(|label| label.name)),
            "{line}"
        );
        for ((_, value), label) in labels.iter().zip(metric.labels) {
            if let LabelValues::Closed(list) = label.values {
                assert!(list.iter().any(|(known, _)| format!("\"{known}\"") == *value), "{line}");
            }
        }
        assert!(page.contains(&format!("# HELP {} {}", metric.name, metric.help)), "{page}");
    }
    let of_actions = METRICS.iter().filter(|metric| metric.name.starts_with("postrider_action_")).count();
    assert_eq!(seen.len(), of_actions, "{page}");

    for declared in [EXECUTE, PERFORM, PERSIST] {
        let mut found = BTreeSet::new();
        for span in named(&spans, declared.name) {
            found.extend(attributes(span).into_keys());
        }
        // `tracing-opentelemetry` makes the status of the span of these.
        let fields = declared.fields.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("otel."));
        assert_eq!(found, fields.collect(), "{}", declared.name);
    }
}
