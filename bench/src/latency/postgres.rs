//! On a PostgreSQL server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postrider::Event;
use postrider::relay::{Relay, Subscription};
use postrider::sink::Sink;
use postrider::store::Start;
use postrider::write::Outbox;
use postrider_sinks::Null;

use super::Latency;
use super::waits::{Arrivals, Clocked, medians, row};
use crate::postgres::Fixture;
use crate::workload::Workload;
use crate::{Error, Ratio, Report};

/// How the relay is notified of a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum News {
    Wake,
    Looking,
}

/// Runs it in new schemas of a server: with `wake()` after each commit, and with polling only.
///
/// # Errors
/// An error of the server or the relay.
pub async fn postgres(url: &str, latency: Latency, progress: impl Fn(&str)) -> Result<Report, Error> {
    let (mut woken, mut polling) = (Vec::new(), Vec::new());
    let (mut called, mut committed) = (Vec::new(), Vec::new());
    for run in 1..=latency.repetitions {
        progress(&format!("run {run} of {}", latency.repetitions));
        woken.push(run_once(url, &latency, News::Wake, Arc::new(Null::new())).await?);
        polling.push(run_once(url, &latency, News::Looking, Arc::new(Null::new())).await?);
        let (calls, commits) = run_handler(url, &latency).await?;
        called.push(calls);
        committed.push(commits);
    }
    let commits = medians(&committed).zip(medians(&called)).map(|(commit, call)| (call, commit));
    let ratio = Ratio::of("from commit to the call of a handler / the commit itself, p50", commits);
    Ok(Report {
        title: format!("commit to acknowledgement on PostgreSQL, {}", latency.describe()),
        rows: vec![
            row("wake() after the commit", &woken),
            row("polling alone (10..500 ms)", &polling),
            row("wake(), to the call of a handler", &called),
            row("the commit itself", &committed),
        ],
        ratios: vec![ratio],
    })
}

/// Runs it in new schemas of a server, to topics of a Kafka cluster.
///
/// # Errors
/// An error of the server, the cluster or the relay.
#[cfg(feature = "kafka")]
pub async fn postgres_to_kafka(
    url: &str,
    brokers: &str,
    latency: Latency,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    use postrider_sinks::kafka::{Kafka, KafkaConfig};

    let (mut woken, mut polling) = (Vec::new(), Vec::new());
    for run in 1..=latency.repetitions {
        progress(&format!("run {run} of {}", latency.repetitions));
        for (news, waits) in [(News::Wake, &mut woken), (News::Looking, &mut polling)] {
            let topic = crate::kafka::Topic::create(brokers, &format!("latency-{news:?}-{run}")).await?;
            let kafka = Kafka::open(&KafkaConfig::new(brokers).topic(&topic.name))?;
            waits.push(run_once(url, &latency, news, Arc::new(kafka)).await?);
            topic.delete().await?;
        }
    }
    Ok(Report {
        title: format!("commit to acknowledgement, PostgreSQL to Kafka, {}", latency.describe()),
        rows: vec![row("wake() after the commit", &woken), row("looking alone (10..500 ms)", &polling)],
        ratios: Vec::new(),
    })
}

/// Milliseconds from each commit to its acknowledgement, sorted.
async fn run_once(url: &str, latency: &Latency, news: News, sink: Arc<dyn Sink>) -> Result<Vec<f64>, Error> {
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "latency", &none).await?;
    let sink = Arc::new(Clocked::new(sink));
    let subscription =
        Subscription::new("latency", sink.clone()).encoder(postrider::encode::Plain).start(Start::Beginning);
    let relay = Relay::builder().outbox(fixture.store().await?, [subscription]).spawn().await?;
    let commits = write(&fixture, latency, || {
        if news == News::Wake {
            relay.wake();
        }
    })
    .await?;
    let waits = sink.waits(&commits).await?;
    relay.shutdown().await?;
    fixture.close().await?;
    Ok(waits)
}

/// Milliseconds from each commit to the call of a handler that does nothing, and of each commit itself, sorted.
async fn run_handler(url: &str, latency: &Latency) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "latency", &none).await?;
    let arrivals = Arrivals::default();
    let recorded = arrivals.clone();
    let subscription = Subscription::handler("latency", move |event: Arc<Event>, _| {
        recorded.record(std::str::from_utf8(&event.payload).ok().and_then(|text| text.parse().ok()));
        std::future::ready(Ok(()))
    });
    let relay = Relay::builder().outbox(fixture.store().await?, [subscription]).spawn().await?;
    let took = Mutex::new(Vec::new());
    let commits = timed_writes(&fixture, latency, |commit: Duration| {
        relay.wake();
        took.lock().unwrap_or_else(PoisonError::into_inner).push(commit.as_secs_f64() * 1e3);
    })
    .await?;
    let waits = arrivals.waits(&commits).await?;
    relay.shutdown().await?;
    fixture.close().await?;
    let mut took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
    took.sort_by(f64::total_cmp);
    Ok((waits, took))
}

/// As [`timed_writes`], without the time of each commit.
async fn write(fixture: &Fixture, latency: &Latency, committed: impl Fn()) -> Result<Vec<Instant>, Error> {
    timed_writes(fixture, latency, |_| committed()).await
}

/// One transaction per tick of a fixed clock: a slow commit delays the next ones and does not reduce their number.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn timed_writes(
    fixture: &Fixture,
    latency: &Latency,
    committed: impl Fn(Duration),
) -> Result<Vec<Instant>, Error> {
    let client = fixture.connect().await?;
    let (outbox, started) = (Outbox::new().schema(fixture.schema.clone()), tokio::time::Instant::now());
    let mut commits = Vec::new();
    for number in 0..latency.count() {
        tokio::time::sleep_until(started + latency.interval() * u32::try_from(number)?).await;
        let begun = Instant::now();
        outbox.write(&client, Event::new("tick", number.to_string())).await?;
        commits.push(Instant::now());
        committed(begun.elapsed());
    }
    Ok(commits)
}
