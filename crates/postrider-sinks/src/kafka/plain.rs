//! Publishing without transactions.
//!
//! A batch may contain many messages of a key. Records of a partition are written in sequence or not at all, because the
//! client is idempotent, a refused record is a fatal error of the client (`enable.gapless.guarantee`), and the client
//! itself gives no record up: it tries until the broker answers. The sink has its own deadline. Messages without a report
//! by then stay with the client, and the next attempt to publish them waits for the same report.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::Result;
use postrider::sink::{Failure, Message, Outcome};
use rdkafka::error::RDKafkaErrorCode as ErrorCode;
use rdkafka::producer::Producer as _;
use tokio::time::{Instant, sleep, sleep_until};

use super::alone::send_alone;
use super::attempt::Attempt;
use super::config::KafkaConfig;
use super::delivery::{Deliveries, Delivery};
use super::error::{self, Meaning, meaning, not_opened};
use super::message::{invalid_topic, record};
use super::metadata::partition_count;
use super::pending::{PendingMessage, PendingMessages};
use super::producer::{Kind, settings};
use super::renewable::{Generation, Renewable};
use super::unknown::UnknownOutcomes;

/// Clients that one call uses after fatal errors.
const CLIENTS_MAX: usize = 5;
/// Pause while the client has no room, or while it fails its messages after a fatal error.
const PAUSE: Duration = Duration::from_millis(10);
/// How long pending messages are kept, at least, without a call.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Topics whose limit is remembered.
const TOPICS_MAX: usize = 1_000;

/// A client that batches records, and one that sends a single record per request.
pub(super) struct Plain {
    shared: Arc<Shared>,
}

struct Shared {
    batched: Renewable,
    single: Renewable,
    delivery_timeout: Duration,
    pending: PendingMessages,
    calls: Mutex<Calls>,
    /// Messages with at least this many bytes were refused alone; by topic.
    oversized: Mutex<HashMap<String, usize>>,
}

struct Calls {
    running: usize,
    last: Instant,
    /// A task watches the pending messages.
    is_watched: bool,
}

/// Messages to send in a request each.
#[derive(Default)]
struct Alone {
    messages: Vec<usize>,
    /// The client whose batch was too large for a topic.
    too_large: Option<Arc<Generation>>,
}

/// What became of a message in a wave.
enum Report {
    Written {
        partition: i32,
        offset: i64,
    },
    Failed(ErrorCode),
    /// The client refused it: it was not sent.
    Refused(ErrorCode),
    NotSent,
    /// There was no report before the deadline.
    Missing,
}

impl Plain {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self> {
        let shared = Shared {
            batched: Renewable::new(settings(config, Kind::Plain)?),
            single: Renewable::new(settings(config, Kind::SingleRecord)?),
            delivery_timeout: config.delivery_timeout,
            pending: PendingMessages::default(),
            calls: Mutex::new(Calls { running: 0, last: Instant::now(), is_watched: false }),
            oversized: Mutex::default(),
        };
        // Created now, so that invalid settings are reported at startup.
        shared.batched.get().map_err(|error| not_opened(&config.brokers, &error))?;
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(super) async fn publish(&self, batch: &[Message], topic: Option<&str>) -> Vec<Outcome> {
        let _running = self.shared.enter();
        let mut attempt = Attempt::new(batch, topic);
        let mut alone = self.shared.refuse_before_sending(&mut attempt);
        self.shared.publish_batched(&mut attempt, &mut alone).await;
        self.shared.publish_alone(&mut attempt, alone, topic).await;
        if !self.shared.pending.is_empty() {
            Shared::watch_pending(&self.shared);
        }
        attempt.outcomes()
    }

    /// A new owner of the lease does not wait for messages of the previous one.
    pub(super) fn take_over(&self) {
        self.shared.give_up_pending();
    }

    /// Drops the clients; messages that they still hold are purged.
    pub(super) fn close(&self) {
        self.shared.give_up_pending();
        self.shared.batched.close();
        self.shared.single.close();
    }
}

/// The topic a message goes to.
pub(super) fn topic_of<'a>(message: &'a Message, fixed: Option<&'a str>) -> &'a str {
    fixed.unwrap_or(&message.destination)
}

impl Shared {
    /// Refuses messages that need no request. Returns those that must be sent alone: the topic has refused one of that
    /// size.
    fn refuse_before_sending(&self, attempt: &mut Attempt<'_>) -> Alone {
        let oversized = lock(&self.oversized).clone();
        let mut alone = Alone::default();
        let mut valid = None;
        for at in 0..attempt.batch.len() {
            let topic = attempt.topic_of(at);
            if valid != Some(topic) {
                if let Some(why) = invalid_topic(topic) {
                    attempt.stop(at, Outcome::Rejected(Failure::new(why)));
                    continue;
                }
                valid = Some(topic);
            }
            let limit = oversized.get(topic);
            if limit.is_some_and(|limit| attempt.batch[at].body.len() >= *limit) && !attempt.is_stopped(at) {
                // One that is not the first of its key is untried; it is the first of a later batch.
                if attempt.is_first(at) {
                    alone.messages.push(at);
                }
                attempt.stop(at, Outcome::Untried);
            }
        }
        alone
    }

    /// Publishes in waves, with another client after each fatal error. Adds the messages to `alone` that were refused
    /// because of others or themselves.
    async fn publish_batched(&self, attempt: &mut Attempt<'_>, alone: &mut Alone) {
        let deadline = Instant::now() + self.delivery_timeout;
        let mut fatal = String::new();
        for _ in 0..CLIENTS_MAX {
            let generation = match self.batched.get() {
                Ok(generation) => generation,
                Err(error) => {
                    attempt.fail_open(&Outcome::Down(Failure::new(error.to_string())));
                    return;
                }
            };
            attempt.client_changed();
            let Some(client) = generation.client() else { return };
            let error_count = client.context().error_count();
            while generation.is_usable() {
                let wave = attempt.next_wave(&generation.confirmed.view(Instant::now()));
                if wave.is_empty() || Instant::now() >= deadline {
                    return;
                }
                let reports = self.send_wave(&generation, attempt, &wave, deadline).await;
                self.confirm(&generation, attempt, &wave, &reports).await;
                let mut unknown =
                    UnknownOutcomes { producer: &generation.producer, error_count, topics: BTreeMap::new() };
                let mut has_room = true;
                for (at, report) in wave.into_iter().zip(reports) {
                    has_room &= !matches!(report, Report::NotSent);
                    if record_report(attempt, alone, at, report, &mut unknown).await {
                        alone.too_large = Some(generation.clone());
                    }
                }
                if !has_room && generation.is_usable() {
                    sleep(PAUSE).await;
                }
            }
            if let Some((code, reason)) = client.client().fatal_error() {
                fatal = reason;
                // This user may not write to any topic.
                if code == ErrorCode::ClusterAuthorizationFailed {
                    break;
                }
            }
        }
        attempt.fail_open(&Outcome::Down(Failure::new(fatal)));
    }

    /// Passes messages to the client and waits for their reports until the deadline.
    async fn send_wave(
        &self,
        generation: &Arc<Generation>,
        attempt: &Attempt<'_>,
        wave: &[usize],
        deadline: Instant,
    ) -> Vec<Report> {
        let Some(client) = generation.client() else { return Vec::new() };
        let deliveries = Deliveries::of(wave.len());
        let mut reports: Vec<Option<Report>> = Vec::new();
        reports.resize_with(wave.len(), || None);
        let mut guard = GiveUpOnDrop { shared: self, generation, joined: Vec::new(), is_armed: true };
        let mut held = HashSet::new();
        let has_pending = !self.pending.is_empty();
        let mut is_full = false;
        for (index, &at) in wave.iter().enumerate() {
            let (message, topic, key) = (&attempt.batch[at], attempt.topic_of(at), attempt.key_of(at));
            let slot = deliveries.slot(index);
            let not_sent = Delivery::Failed(ErrorCode::PurgeQueue);
            if has_pending && let Some(pending) = self.pending.take(message, topic) {
                // Another client may write it at any time: nothing may be written before it.
                if !Arc::ptr_eq(&pending.generation, generation) {
                    held.extend(key);
                }
                slot.fill(not_sent);
                guard.joined.push((index, pending));
            } else if is_full || key.is_some_and(|key| held.contains(&key)) {
                slot.fill(not_sent);
                reports[index] = Some(Report::NotSent);
            } else if let Err((error, record)) = client.send(record(topic, message, slot)) {
                let code = error.rdkafka_error_code().unwrap_or(ErrorCode::InvalidArgument);
                record.delivery_opaque.fill(Delivery::Failed(code));
                held.extend(key);
                is_full = matches!(code, ErrorCode::QueueFull | ErrorCode::Fatal);
                reports[index] = Some(if is_full { Report::NotSent } else { Report::Refused(code) });
            }
        }
        wait(generation, &deliveries, &guard.joined, deadline).await;
        for (index, pending) in std::mem::take(&mut guard.joined) {
            let at = wave[index];
            reports[index] = Some(match pending.delivery() {
                // Its outcome was ambiguous before.
                Some(Delivery::Failed(ErrorCode::PurgeQueue | ErrorCode::PurgeInflight)) => Report::NotSent,
                Some(delivery) => delivery.into(),
                None => {
                    self.pending.put_back(&attempt.batch[at], attempt.topic_of(at), pending);
                    Report::Missing
                }
            });
        }
        guard.is_armed = false;
        let mut complete = Vec::with_capacity(wave.len());
        for (index, (report, delivery)) in reports.into_iter().zip(deliveries.reported()).enumerate() {
            complete.push(report.or_else(|| delivery.map(Report::from)).unwrap_or_else(|| {
                let at = wave[index];
                let (message, topic) = (&attempt.batch[at], attempt.topic_of(at));
                self.pending.keep(message, topic, &deliveries, index, generation);
                Report::Missing
            }));
        }
        complete
    }

    /// Notes which partitions have accepted records.
    async fn confirm(
        &self,
        generation: &Arc<Generation>,
        attempt: &Attempt<'_>,
        wave: &[usize],
        reports: &[Report],
    ) {
        let mut uncounted = HashSet::new();
        {
            let mut confirmed = generation.confirmed.view(Instant::now());
            let mut last = None;
            for (&at, report) in wave.iter().zip(reports) {
                let Report::Written { partition, .. } = report else { continue };
                let topic = attempt.topic_of(at);
                if last != Some((topic, *partition)) {
                    confirmed.accepted(topic, attempt.batch[at].key(), *partition);
                    last = Some((topic, *partition));
                    if confirmed.needs_count(topic) {
                        uncounted.insert(topic);
                    }
                }
            }
        }
        for topic in uncounted {
            if let Some(partitions) = partition_count(&generation.producer, topic).await {
                generation.confirmed.view(Instant::now()).set_count(topic, partitions);
            }
        }
    }

    /// Sends messages that were refused, each in its own request. They have different keys.
    async fn publish_alone(&self, attempt: &mut Attempt<'_>, alone: Alone, topic: Option<&str>) {
        if alone.messages.is_empty() {
            return;
        }
        let (mut is_any_written, mut is_any_oversized) = (false, false);
        let reported = send_alone(&self.single, attempt.batch, &alone.messages, topic).await;
        for (&at, reported) in alone.messages.iter().zip(reported) {
            let topic = attempt.topic_of(at);
            let outcome = reported.unwrap_or_else(|code| {
                if error::is_size(code) {
                    is_any_oversized = true;
                    self.remember_oversized(topic, attempt.batch[at].body.len());
                }
                error::outcome(topic, code)
            });
            is_any_written |= matches!(outcome, Outcome::Acknowledged(_));
            attempt.set(at, outcome);
        }
        // None is too large by itself: they were too large together.
        if let Some(generation) = alone.too_large.filter(|_| is_any_written && !is_any_oversized) {
            self.batched.halve_batches(&generation);
        }
    }

    /// The topic has refused a message of this size, alone.
    fn remember_oversized(&self, topic: &str, bytes: usize) {
        let mut oversized = lock(&self.oversized);
        if let Some(limit) = oversized.get_mut(topic) {
            *limit = bytes.min(*limit);
        } else if oversized.len() < TOPICS_MAX {
            oversized.insert(topic.to_owned(), bytes);
        }
    }

    fn enter(&self) -> Running<'_> {
        let mut calls = lock(&self.calls);
        calls.running += 1;
        Running(self)
    }

    /// Fails the pending messages after some time without a call: the relay has lost its lease, or was paused.
    fn watch_pending(shared: &Arc<Self>) {
        if std::mem::replace(&mut lock(&shared.calls).is_watched, true) {
            return;
        }
        let idle_max = IDLE_MAX.max(shared.delivery_timeout * 2);
        let shared = Arc::downgrade(shared);
        tokio::spawn(async move {
            loop {
                sleep(idle_max / 4).await;
                let Some(shared) = shared.upgrade() else { return };
                shared.pending.prune();
                let mut calls = lock(&shared.calls);
                let is_idle = calls.running == 0 && calls.last.elapsed() >= idle_max;
                if is_idle || shared.pending.is_empty() {
                    calls.is_watched = false;
                    drop(calls);
                    shared.give_up_pending();
                    return;
                }
            }
        });
    }

    fn give_up_pending(&self) {
        self.pending.give_up().iter().for_each(|generation| self.batched.forget(generation));
    }
}

/// Counts a call as running.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.0.calls);
        calls.running -= 1;
        calls.last = Instant::now();
    }
}

/// The relay does not wait for the reports any more: it has lost its lease. Nothing is written later on its behalf, as far
/// as that can be prevented.
struct GiveUpOnDrop<'a> {
    shared: &'a Shared,
    generation: &'a Arc<Generation>,
    joined: Vec<(usize, PendingMessage)>,
    is_armed: bool,
}

impl Drop for GiveUpOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let joined = self.joined.iter().map(|(_, pending)| &pending.generation);
        for generation in joined.chain([self.generation]) {
            generation.purge();
            self.shared.batched.forget(generation);
        }
    }
}

/// Waits for all reports, until the deadline.
async fn wait(
    generation: &Generation,
    deliveries: &Deliveries,
    joined: &[(usize, PendingMessage)],
    deadline: Instant,
) {
    let deadline = sleep_until(deadline);
    let complete = deliveries.complete();
    tokio::pin!(deadline, complete);
    let mut is_complete = false;
    while !is_complete || joined.iter().any(|(_, pending)| pending.delivery().is_none()) {
        tokio::select! {
            biased;
            _ = &mut complete, if !is_complete => is_complete = true,
            () = &mut deadline => return,
            // After a fatal error, the client does not send what is in its queue, and puts messages back into it. It does
            // not report every such error.
            () = sleep(PAUSE) => {
                let joined = joined.iter().map(|(_, pending)| &*pending.generation);
                joined.chain([generation]).filter(|one| one.producer.is_broken()).for_each(Generation::purge_queue);
            }
        }
    }
}

/// Turns a report into an outcome. Returns whether a batch was too large for the topic.
async fn record_report(
    attempt: &mut Attempt<'_>,
    alone: &mut Alone,
    at: usize,
    report: Report,
    unknown: &mut UnknownOutcomes<'_>,
) -> bool {
    let topic = attempt.topic_of(at);
    let is_behind = attempt.is_behind(at);
    match report {
        Report::Written { partition, offset } if !is_behind => {
            attempt.acknowledge(at, error::acknowledged(partition, offset));
        }
        Report::Written { .. } => {
            let why = "it was written although an earlier message of its key was not";
            attempt.set(at, Outcome::Ambiguous(Failure::new(why)));
        }
        Report::NotSent => attempt.hold(at),
        Report::Refused(code) if meaning(code) != Meaning::NotAllowedYet => {
            attempt.stop(at, Outcome::Rejected(Failure::new(format!("topic {topic:?}: {code}"))));
        }
        Report::Failed(code) | Report::Refused(code) => match meaning(code) {
            Meaning::NotSent if !unknown.may_have_been_sent() => attempt.hold(at),
            Meaning::NotSent | Meaning::Unknown if is_behind => {
                attempt.set(at, Outcome::Ambiguous(Failure::new(format!("topic {topic:?}: {code}"))));
            }
            Meaning::NotSent => {
                let why = "the connection was lost, and the client was replaced";
                attempt.stop(at, Outcome::Ambiguous(Failure::new(why).while_down()));
            }
            // The request was refused, so it was not written.
            _ if is_behind => {}
            Meaning::RefusedTogether => {
                alone.messages.push(at);
                attempt.stop(at, Outcome::Untried);
                return error::is_size(code);
            }
            Meaning::Unknown | Meaning::NotAllowedYet => {
                let outcome = unknown.outcome(topic, code).await;
                attempt.stop(at, outcome);
            }
            Meaning::Refused | Meaning::Fenced => attempt.stop(at, error::outcome(topic, code)),
        },
        Report::Missing if is_behind => {
            let why = format!("topic {topic:?}: {}", ErrorCode::MessageTimedOut);
            attempt.set(at, Outcome::Ambiguous(Failure::new(why)));
        }
        Report::Missing => {
            let outcome = unknown.outcome(topic, ErrorCode::MessageTimedOut).await;
            attempt.stop(at, outcome);
        }
    }
    false
}

impl From<Delivery> for Report {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Written { partition, offset } => Self::Written { partition, offset },
            Delivery::Failed(code) => Self::Failed(code),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
