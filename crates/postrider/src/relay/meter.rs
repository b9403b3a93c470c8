//! The numbers of one subscription in one relay, for the recorder of the program. Counted per batch, call or step, never
//! with a lock; without the feature `metrics` almost nothing remains.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::SubscriptionState;
use super::brain::{Report, Routed};
use super::health_log::Operation;
use crate::ledger::ParkedState;
use crate::sink::Outcome;
use crate::store::Page;
use crate::telemetry::{self, Value, add, observe_all, set};
use crate::{Code, Timestamp};

/// The value of the label `outbox` if the outbox has no name.
pub(super) const OUTBOX_UNNAMED: &str = "default";

/// How often gauges are set; a drain makes thousands of steps per second.
const GAUGES_INTERVAL: Duration = Duration::from_millis(250);

/// What a sink answered to a batch.
pub(super) struct BatchAnswer<'a> {
    pub(super) outcomes: &'a [Outcome],
    /// When all of it was known.
    pub(super) at: Timestamp,
    /// When some outcomes were known before, by their index.
    pub(super) early: &'a [(usize, Timestamp)],
}

/// Counts for one subscription.
#[derive(Debug)]
pub(super) struct Meter {
    outbox: Arc<str>,
    subscription: Arc<str>,
    sink: Arc<str>,
    undecided: AtomicU64,
    undecided_max: AtomicU64,
}

impl Meter {
    pub(super) fn new(outbox: Option<&str>, subscription: &str, sink: Option<&str>) -> Self {
        Self {
            outbox: outbox.unwrap_or(OUTBOX_UNNAMED).into(),
            subscription: subscription.into(),
            sink: sink.unwrap_or(subscription).into(),
            undecided: AtomicU64::new(0),
            undecided_max: AtomicU64::new(0),
        }
    }

    fn of_subscription(&self) -> [Value; 2] {
        [(&self.outbox).into(), (&self.subscription).into()]
    }

    fn of_sink(&self) -> [Value; 3] {
        [(&self.outbox).into(), (&self.subscription).into(), (&self.sink).into()]
    }

    fn with(&self, value: &'static str) -> [Value; 3] {
        [(&self.outbox).into(), (&self.subscription).into(), value.into()]
    }

    /// Positions that may still get an event, at the last claim.
    pub(super) fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// A page was read.
    pub(super) fn claimed(&self, page: &Page) {
        self.undecided.store(page.holes as u64, Ordering::Relaxed);
        self.undecided_max.store(page.holes_max as u64, Ordering::Relaxed);
        if !page.events.is_empty() {
            add(&telemetry::EVENTS_CLAIMED, self.of_subscription(), page.events.len() as u64);
        }
    }

    /// Events were skipped.
    pub(super) fn skipped(&self, events: u64) {
        if events > 0 {
            add(&telemetry::EVENTS_SKIPPED, self.of_subscription(), events);
        }
    }

    /// A call to the database has ended.
    pub(super) fn called(&self, operation: Operation, took: Duration, failed: Option<Code>) {
        if let Some(name) = operation.metric_name() {
            observe_all(&telemetry::STORE_DURATION, self.with(name), [took.as_secs_f64()]);
        }
        if let Some(code) = failed {
            let code: Arc<str> = code.to_string().into();
            let [outbox, subscription] = self.of_subscription();
            add(&telemetry::ERRORS, [outbox, subscription, (&code).into()], 1);
        }
    }

    /// A batch was answered.
    pub(super) fn published(&self, events: &[Routed], answer: &BatchAnswer<'_>, took: Duration) {
        let outcomes = answer.outcomes;
        let mut counts = [0_u64; OUTCOMES.len()];
        for outcome in outcomes {
            counts[index(outcome)] += 1;
        }
        // Outcomes that the sink did not return are ambiguous.
        counts[AMBIGUOUS] += events.len().saturating_sub(outcomes.len()) as u64;
        for (outcome, count) in OUTCOMES.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            let [outbox, subscription, sink] = self.of_sink();
            add(&telemetry::ATTEMPTS, [outbox, subscription, sink, outcome.into()], count);
        }
        observe_all(&telemetry::PUBLISH_DURATION, self.of_sink(), [took.as_secs_f64()]);
        // A batch has a few thousand events at most, which a float holds exactly.
        observe_all(&telemetry::BATCH_EVENTS, self.of_sink(), [events.len() as f64]);
        if counts[ACKNOWLEDGED] > 0 {
            let early: HashMap<usize, Timestamp> = answer.early.iter().copied().collect();
            let answered_at = |index| match early.is_empty() {
                true => answer.at,
                false => early.get(&index).copied().unwrap_or(answer.at),
            };
            let acknowledged = events
                .iter()
                .zip(outcomes)
                .enumerate()
                .filter(|(_, (_, outcome))| matches!(outcome, Outcome::Acknowledged(_)))
                .map(|(index, (routed, _))| routed.event.time.until(answered_at(index)).as_secs_f64());
            observe_all(&telemetry::DELIVERY_LATENCY, self.of_subscription(), acknowledged);
        }
    }

    /// What the brain reports.
    pub(super) fn reported(&self, report: &Report) {
        match report {
            Report::Leading { clean, .. } => {
                add(&telemetry::TAKEOVERS, self.with(if *clean { "true" } else { "false" }), 1);
            }
            Report::BreakerOpened { .. } => add(&telemetry::BREAKER_OPENED, self.of_sink(), 1),
            Report::Parked { state, details, .. } if state.is_final() => {
                let is_damaged =
                    details.as_ref().is_some_and(|details| details.event.is_none() && details.key.is_none());
                let reason = match state {
                    ParkedState::Expired => "expired",
                    _ if is_damaged => "damaged",
                    _ => "given_up",
                };
                add(&telemetry::EVENTS_DEAD, self.with(reason), 1);
            }
            _ => {}
        }
    }

    /// Counters that an alert compares with an earlier value exist from the start, with 0.
    pub(super) fn begin(&self) {
        for clean in ["true", "false"] {
            add(&telemetry::TAKEOVERS, self.with(clean), 0);
        }
        for reason in ["given_up", "expired", "damaged"] {
            add(&telemetry::EVENTS_DEAD, self.with(reason), 0);
        }
        for outcome in OUTCOMES {
            let [outbox, subscription, sink] = self.of_sink();
            add(&telemetry::ATTEMPTS, [outbox, subscription, sink, outcome.into()], 0);
        }
        add(&telemetry::BREAKER_OPENED, self.of_sink(), 0);
        add(&telemetry::EVENTS_CLAIMED, self.of_subscription(), 0);
        add(&telemetry::EVENTS_SKIPPED, self.of_subscription(), 0);
    }

    /// Sets the gauges.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(super) fn state(&self, state: &SubscriptionState, last_progress_at: Option<Timestamp>) {
        let gauge = |metric, number: f64| set(metric, self.of_subscription(), number);
        gauge(&telemetry::LEASE_HELD, f64::from(u8::from(state.leading.is_some())));
        gauge(&telemetry::LEASE_EPOCH, state.leading.map_or(0.0, |epoch| epoch.0 as f64));
        gauge(&telemetry::UNDECIDED_POSITIONS, self.undecided() as f64);
        gauge(&telemetry::UNDECIDED_LIMIT, self.undecided_max.load(Ordering::Relaxed) as f64);
        gauge(&telemetry::IN_FLIGHT_EVENTS, state.in_flight as f64);
        gauge(&telemetry::READ_AHEAD_EVENTS, state.events_in_memory as f64);
        gauge(&telemetry::READ_AHEAD_BYTES, state.bytes_in_memory as f64);
        if let Some(at) = last_progress_at {
            gauge(&telemetry::LAST_PROGRESS, at.as_micros() as f64 / 1_000_000.0);
        }
        set(&telemetry::BREAKER_OPEN, self.of_sink(), state.destinations_down as f64);
    }
}

/// When the gauges are set again: at most once per interval, and after every change that an operator sees.
#[derive(Debug, Default)]
pub(super) struct GaugePace {
    next: Duration,
    last: Option<(bool, usize)>,
}

impl GaugePace {
    pub(super) fn is_due(&mut self, elapsed: Duration, state: &SubscriptionState) -> bool {
        // An idle relay makes no further step, so its last values must be set at once.
        let is_idle = state.in_flight == 0 && state.events_in_memory == 0;
        let now = (state.leading.is_some(), state.destinations_down);
        if elapsed < self.next && self.last == Some(now) && !is_idle {
            return false;
        }
        self.next = elapsed.saturating_add(GAUGES_INTERVAL);
        self.last = Some(now);
        true
    }
}

const OUTCOMES: [&str; 8] =
    ["acknowledged", "retryable", "failed", "rejected", "ambiguous", "down", "untried", "fenced"];
const ACKNOWLEDGED: usize = 0;
const AMBIGUOUS: usize = 4;

/// The place of an outcome in [`OUTCOMES`].
fn index(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Acknowledged(_) => ACKNOWLEDGED,
        Outcome::Retryable(_) => 1,
        Outcome::Failed(_) => 2,
        Outcome::Rejected(_) => 3,
        Outcome::Ambiguous(_) => AMBIGUOUS,
        Outcome::Down(_) => 5,
        Outcome::Untried => 6,
        Outcome::Fenced => 7,
    }
}
