//! The process of a relay: its drivers, its clocks, and whether it runs.

use std::sync::Arc;
use std::time::Duration;

use postrider::Position;
use postrider::relay::Order;
use postrider::relay::brain::{Brain, DestinationId, Disposition, KeyId, Routed, Term};

use super::bug::Bug;
use super::claimer::SimClaimer;
use super::event_queue::SimEvent;
use super::scenario::{SubscriptionPlan, TopicRoute};
use super::written::WrittenEvents;

/// One relay process.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The holder of its leases.
    pub(crate) name: String,
    pub(crate) incarnation: u32,
    pub(crate) state: State,
    /// One per subscription.
    pub(crate) drivers: Vec<Driver>,
    /// The error of its wall clock.
    pub(crate) wall_offset_us: i64,
    /// The time that its monotonic clock did not count, because the machine was suspended.
    pub(crate) lag: Duration,
    pub(crate) frozen_at: Duration,
    /// The events that arrived while it was frozen.
    pub(crate) waiting: Vec<SimEvent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Down,
    Up,
    Frozen,
}

impl Relay {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            name: format!("r{number}"),
            incarnation: 0,
            state: State::Down,
            drivers: Vec::new(),
            wall_offset_us: 0,
            lag: Duration::ZERO,
            frozen_at: Duration::ZERO,
            waiting: Vec::new(),
        }
    }
}

/// A brain with its timer and its claimer.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) brain: Brain,
    pub(crate) term: Term,
    pub(crate) cursor: Option<SimClaimer>,
    pub(crate) connection: u64,
    /// The number of the last timer. Earlier timers are ignored.
    pub(crate) alarm: u64,
    pub(crate) stopped: bool,
}

impl Driver {
    pub(crate) fn new(brain: Brain) -> Self {
        Self { brain, term: Term::default(), cursor: None, connection: 0, alarm: 0, stopped: false }
    }
}

/// Assigns a key number and a destination to an event, as the relay's routing does. Independent of the process, so that
/// a seed replays.
pub(crate) fn route(
    plan: &SubscriptionPlan,
    written_events: &WrittenEvents,
    bug: Option<Bug>,
    position: Position,
    event: Arc<postrider::Event>,
) -> Routed {
    let disposition = match plan.routes[written_events.of(&event).topic] {
        TopicRoute::To(number) => {
            let name = Arc::from(format!("d{number}"));
            Disposition::Deliver { id: DestinationId(number as u64), name, delivery: None }
        }
        TopicRoute::Filtered => Disposition::Filtered,
        TopicRoute::Unrouted => Disposition::Unrouted("no rule matches".into()),
    };
    let key = key_number(plan, bug, event.ordering_key().as_deref(), position);
    Routed { position, key, disposition, attempts: 0, redelivery: None, event }
}

/// The number of a key: FNV-1a of its text, or of the position if there is no key or no order.
pub(crate) fn key_number(
    plan: &SubscriptionPlan,
    bug: Option<Bug>,
    key: Option<&str>,
    position: Position,
) -> KeyId {
    let fnv = |start: u64, bytes: &[u8]| {
        bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    match key.filter(|_| plan.policy.order == Order::Key) {
        _ if bug == Some(Bug::OneKey) => KeyId(1),
        Some(key) => KeyId(fnv(0xcbf2_9ce4_8422_2325, key.as_bytes())),
        None => KeyId(fnv(0x8422_2325_cbf2_9ce4, &position.get().to_le_bytes())),
    }
}
