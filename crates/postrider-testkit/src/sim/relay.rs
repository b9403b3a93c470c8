//! A relay's process: its brains, its clocks, and whether it runs.

use std::sync::Arc;
use std::time::Duration;

use postrider::Position;
use postrider::relay::Order;
use postrider::relay::brain::{Brain, DestinationId, Disposition, KeyId, Routed, Term};

use super::agenda::Happening;
use super::bug::Bug;
use super::cursor::Cursor;
use super::facts::Facts;
use super::scenario::{SubscriptionPlan, Way};

/// One process.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Who it says it is to the lease.
    pub(crate) name: String,
    pub(crate) life: u32,
    pub(crate) state: State,
    /// One per subscription.
    pub(crate) minds: Vec<Mind>,
    /// How far its calendar is off.
    pub(crate) wall_offset_us: i64,
    /// Time its monotonic clock did not count, because the machine slept.
    pub(crate) lag: Duration,
    pub(crate) frozen_at: Duration,
    /// What was to reach it while it was frozen.
    pub(crate) waiting: Vec<Happening>,
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
            life: 0,
            state: State::Down,
            minds: Vec::new(),
            wall_offset_us: 0,
            lag: Duration::ZERO,
            frozen_at: Duration::ZERO,
            waiting: Vec::new(),
        }
    }
}

/// A brain and what the shell keeps for it.
#[derive(Debug)]
pub(crate) struct Mind {
    pub(crate) brain: Brain,
    pub(crate) term: Term,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) connection: u64,
    /// Tells the last timer from older ones.
    pub(crate) alarm: u64,
    pub(crate) stopped: bool,
}

impl Mind {
    pub(crate) fn new(brain: Brain) -> Self {
        Self { brain, term: Term::default(), cursor: None, connection: 0, alarm: 0, stopped: false }
    }
}

/// Gives an event its number and its way, as the real shell does, but the same in every run.
pub(crate) fn route(
    plan: &SubscriptionPlan,
    facts: &Facts,
    bug: Option<Bug>,
    position: Position,
    event: Arc<postrider::Event>,
) -> Routed {
    let disposition = match plan.ways[facts.of(&event).topic] {
        Way::To(number) => {
            let name = Arc::from(format!("d{number}"));
            Disposition::Deliver { id: DestinationId(number as u64), name, delivery: None }
        }
        Way::Filtered => Disposition::Filtered,
        Way::Unrouted => Disposition::Unrouted,
    };
    let key = key_number(plan, bug, event.ordering_key().as_deref(), position);
    Routed { position, key, disposition, attempts: 0, event }
}

/// The number of a key: FNV-1a of its text, or of the position where there is no order.
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
