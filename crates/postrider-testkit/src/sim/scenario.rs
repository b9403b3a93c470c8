//! The configuration of a simulation, chosen by the seed: sizes, limits, delays and possible faults.

use std::time::Duration;

use postrider::relay::{OnDead, Order, Policy};

use super::rng::{Rng, Span};
use crate::sink::Outage;

/// The purpose of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No faults: no duplicate is allowed.
    Calm,
    /// Poisoned events, one failed destination and one long transaction; everything else must be delivered without
    /// delay.
    Isolation,
    /// Any fault.
    Storm,
}

/// A fault that can occur at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    Freeze,
    LoseLease,
    JumpWallClock,
    Outage(Outage),
    Backup,
    Restore,
    RestoreEvents,
    Pause,
    /// An operator changes parked rows.
    Operate,
    /// An operator replays finished events.
    Replay,
    Shutdown,
    StallSettle,
}

/// Where a subscription sends the events of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicRoute {
    /// To the destination with this number.
    To(usize),
    Filtered,
    Unrouted,
}

#[derive(Debug)]
pub(crate) struct SubscriptionPlan {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) prefix_safe: bool,
    /// The maximum number of messages that the sink processes concurrently, if it has one; such a sink reports outcomes
    /// early.
    pub(crate) in_flight_max: Option<usize>,
    /// By topic.
    pub(crate) routes: Vec<TopicRoute>,
    /// Its destinations.
    pub(crate) destinations: Vec<usize>,
}

/// Everything that is chosen before the simulation starts.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) subscriptions: Vec<SubscriptionPlan>,
    pub(crate) relays: usize,
    pub(crate) writers: usize,
    pub(crate) keys: u32,
    pub(crate) events_max: usize,
    pub(crate) busy: Duration,
    pub(crate) database_delay: Span,
    pub(crate) sink_delay: Span,
    pub(crate) write_gap: Span,
    /// How many delays are much longer than usual.
    pub(crate) slow_permille: u32,
    pub(crate) store_error_permille: u32,
    pub(crate) sink_fault_permille: u32,
    pub(crate) rollback_permille: u32,
    pub(crate) late_commit_permille: u32,
    pub(crate) poison_permille: u32,
    pub(crate) deadly_permille: u32,
    pub(crate) expiry_permille: u32,
    pub(crate) faults: Vec<Fault>,
    pub(crate) fault_gap: Span,
}

/// The number of topics. A subscription may filter out the last one, or have no route for it.
const TOPICS: usize = 6;

impl Scenario {
    /// An operator changes parked rows in some storms, and replays events in some.
    pub(crate) fn with_operator(mut self, rng: &mut Rng) -> Self {
        if self.kind == Kind::Storm && rng.permille(350) {
            self.faults.push(Fault::Operate);
        }
        if self.kind == Kind::Storm && rng.permille(350) {
            self.faults.push(Fault::Replay);
        }
        self
    }

    pub(crate) fn new(rng: &mut Rng) -> Self {
        let kind = match rng.between(0, 9) {
            0 => Kind::Calm,
            1 => Kind::Isolation,
            _ => Kind::Storm,
        };
        let mut destinations = 0;
        let subscriptions =
            (0..rng.size(1, 2)).map(|number| plan(rng, kind, number, &mut destinations)).collect();
        let storm = kind == Kind::Storm;
        // Zero in half of the storms, so that each fault also occurs alone.
        let mut rate = |max: u64| if storm && rng.coin() { rng.between(1, max) as u32 } else { 0 };
        let (slow_permille, store_error_permille) = (rate(60), rate(60));
        let (sink_fault_permille, deadly_permille) = (rate(150), rate(25));
        let (poison_permille, expiry_permille) = (rate(80), rate(100));
        Self {
            kind,
            subscriptions,
            relays: rng.size(1, 3),
            writers: rng.size(1, 4),
            keys: rng.between(1, 12) as u32 + if kind == Kind::Isolation { 8 } else { 0 },
            events_max: rng.size(20, 140),
            busy: rng.time(Span::ms(500, 6000)) * if kind == Kind::Isolation { 5 } else { 1 },
            database_delay: if storm { Span::us(50, rng.between(100, 6000)) } else { Span::us(50, 1000) },
            sink_delay: if storm { Span::us(100, rng.between(200, 20_000)) } else { Span::us(100, 3000) },
            write_gap: if kind == Kind::Isolation { Span::ms(1, 400) } else { Span::us(100, 40_000) },
            slow_permille,
            store_error_permille,
            sink_fault_permille,
            rollback_permille: rng.pick(&[0, 50, 200, 600]),
            late_commit_permille: rng.pick(&[0, 30, 150]),
            poison_permille: if kind == Kind::Isolation { 30 } else { poison_permille },
            deadly_permille,
            expiry_permille,
            faults: faults(rng, kind),
            fault_gap: Span::ms(20, rng.between(100, 1500)),
        }
    }
}

fn faults(rng: &mut Rng, kind: Kind) -> Vec<Fault> {
    let outages = [Outage::Reported, Outage::Failing, Outage::Silent].map(Fault::Outage);
    let all = [
        Fault::Crash,
        Fault::Freeze,
        Fault::LoseLease,
        Fault::JumpWallClock,
        Fault::Backup,
        Fault::Restore,
        Fault::RestoreEvents,
        Fault::Pause,
        Fault::Shutdown,
        Fault::StallSettle,
    ];
    match kind {
        Kind::Calm => Vec::new(),
        Kind::Isolation => vec![rng.pick(&outages)],
        Kind::Storm => {
            let mut chosen: Vec<Fault> = all.into_iter().filter(|_| rng.permille(350)).collect();
            chosen.extend(outages.into_iter().filter(|_| rng.permille(350)));
            if chosen.iter().any(|f| matches!(f, Fault::Restore | Fault::RestoreEvents)) {
                chosen.push(Fault::Backup);
            }
            chosen
        }
    }
}

fn plan(rng: &mut Rng, kind: Kind, number: usize, destinations: &mut usize) -> SubscriptionPlan {
    let count = if rng.permille(400) { rng.size(2, 3) } else { 1 };
    let own: Vec<usize> = (*destinations..*destinations + count).collect();
    *destinations += count;
    let mut routes: Vec<TopicRoute> = (0..TOPICS).map(|topic| TopicRoute::To(own[topic % count])).collect();
    routes[TOPICS - 1] = rng.pick(&[TopicRoute::To(own[0]), TopicRoute::Filtered, TopicRoute::Unrouted]);
    let policy = if kind == Kind::Isolation { roomy(rng, count) } else { tight(rng, count) };
    let prefix_safe = rng.coin();
    let in_flight_max = (!prefix_safe && rng.permille(400)).then(|| rng.size(1, 8));
    SubscriptionPlan {
        name: format!("s{number}"),
        policy,
        prefix_safe,
        in_flight_max,
        routes,
        destinations: own,
    }
}

/// Limits so small that every one of them is reached.
fn tight(rng: &mut Rng, destinations: usize) -> Policy {
    let mut ms = |low, high| rng.time(Span::ms(low, high));
    let (backoff_min, probe_min, poll_min) = (ms(5, 100), ms(5, 100), ms(1, 10));
    let (backoff_max, probe_max, poll_max) =
        (backoff_min + ms(0, 1000), probe_min + ms(0, 500), poll_min + ms(0, 150));
    let (batch_linger, publish_timeout, flush_interval) = (ms(0, 10), ms(30, 600), ms(1, 80));
    let (lease, drain_timeout) = (ms(100, 1500), ms(50, 1500));
    let window = rng.size(1, 40);
    Policy::default()
        .order(if rng.permille(120) { Order::None } else { Order::Key })
        .on_dead(if rng.permille(150) { OnDead::Block } else { OnDead::Proceed })
        .several_destinations(destinations > 1)
        .batch_events_max(rng.size(1, 12))
        .batch_bytes_max(if rng.coin() { rng.size(1, 60) } else { 1_000_000 })
        .batch_linger(batch_linger)
        .batches_in_flight_max(rng.size(1, 4))
        .publish_timeout(publish_timeout)
        .read_ahead_events_max(rng.size(1, 60))
        .read_ahead_bytes_max(if rng.coin() { rng.size(10, 600) } else { 1_000_000 })
        .claim_events_max(rng.size(1, 30))
        .window_events_max(window)
        .flush_interval(flush_interval)
        .flush_events(rng.size(1, window))
        .max_attempts(rng.between(1, 5) as u32)
        .backoff_min(backoff_min)
        .backoff_max(backoff_max)
        .parked_max(if rng.permille(150) { rng.size(1, 12) } else { 10_000 })
        .breaker_keys(rng.size(2, 5))
        .probe_min(probe_min)
        .probe_max(probe_max)
        .lease(lease)
        .poll_min(poll_min)
        .poll_max(poll_max)
        .drain_timeout(drain_timeout)
        .trial_events(rng.size(1, 8))
        .trial_deaths_max(rng.between(1, 3) as u32)
}

/// Limits that a healthy stream never reaches, and retries so slow that a message that waits for one is noticed.
fn roomy(rng: &mut Rng, destinations: usize) -> Policy {
    Policy::default()
        .several_destinations(destinations > 1)
        .batch_events_max(rng.size(8, 40))
        .publish_timeout(Duration::from_millis(500))
        .backoff_min(Duration::from_secs(20))
        .backoff_max(Duration::from_secs(60))
        .max_attempts(3)
        .breaker_keys(3)
        .probe_min(Duration::from_millis(200))
        .probe_max(Duration::from_secs(2))
        .lease(Duration::from_secs(2))
        .poll_max(Duration::from_millis(100))
}
