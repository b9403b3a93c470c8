//! Reading from the outbox: when and how much, and how much is in memory.

use std::time::Duration;

use super::CapacityLimit;
use super::key_queues::Body;
use super::reader::{ClaimSummary, Reader};
use crate::Position;
use crate::relay::Policy;
use crate::store::Budget;

/// Memory that an event needs in addition to its columns, for its place in the queues.
const EVENT_OVERHEAD_BYTES: usize = 512;

/// With this many ranges above the floor, the progress row is large enough to report. Reading continues, because only
/// reading fills the holes between ranges or proves them empty. The store's limit of holes and the read-ahead limit the
/// number of ranges.
const DONE_RANGES_MANY: usize = 10_000;

const NOTHING: Budget = Budget::new(0, 0);

/// Reads ahead within the memory limits.
#[derive(Debug)]
pub(super) struct Intake {
    reader: Reader,
    /// Events in memory.
    events: usize,
    /// Their bytes, including overhead.
    bytes: usize,
    /// The budget of the claim in progress.
    claiming: Budget,
    /// The limit that is reached, if any.
    limit: Option<CapacityLimit>,
    /// New events were read at least once.
    has_read: bool,
}

/// The state of other parts of the leader that affects how much to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// Parked events that are being read back.
    pub(super) fetching: usize,
    /// Queues wait until the outbox has been read up to their head.
    pub(super) has_awaiting_reader: bool,
    /// Parked rows that are not written yet.
    pub(super) unwritten_rows: usize,
}

impl Intake {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            reader: Reader::new(now),
            events: 0,
            bytes: 0,
            claiming: NOTHING,
            limit: None,
            has_read: false,
        }
    }

    /// Whether new events were read at least once, or cannot be read because of a limit.
    pub(super) fn has_read(&self) -> bool {
        self.has_read || self.limit.is_some()
    }

    pub(super) fn events(&self) -> usize {
        self.events
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// There may be new events.
    pub(super) fn wake(&mut self, now: Duration) {
        self.reader.wake(now);
    }

    /// Whether every event up to a position that this term has to read has been read.
    pub(super) fn has_passed(&self, position: Position) -> bool {
        self.reader.has_passed(position)
    }

    /// Nothing is in memory, and the last claim returned nothing.
    pub(super) fn is_caught_up(&self) -> bool {
        self.events == 0 && self.reader.is_idle()
    }

    /// At least half of the limit is used.
    pub(super) fn is_half_full(&self, policy: &Policy) -> bool {
        self.events >= policy.read_ahead_events_max / 2 || self.bytes >= policy.read_ahead_bytes_max / 2
    }

    /// Counts an event that is now in memory.
    pub(super) fn keep(&mut self, body: &Body) {
        self.events += 1;
        self.bytes += body.event.size_bytes() + EVENT_OVERHEAD_BYTES;
    }

    /// Counts an event that leaves memory, if it was there.
    pub(super) fn release(&mut self, body: Option<&Body>) {
        if let Some(body) = body {
            self.events -= 1;
            self.bytes -= body.event.size_bytes() + EVENT_OVERHEAD_BYTES;
        }
    }

    /// When to claim next, if no claim is in progress and there is room.
    pub(super) fn due(&self, policy: &Policy, demand: Demand) -> Option<Duration> {
        self.reader.due().filter(|_| self.budget(policy, demand).is_some())
    }

    /// What to claim now, if a claim is due; it then counts as in progress.
    pub(super) fn start_claim(&mut self, now: Duration, policy: &Policy, demand: Demand) -> Option<Budget> {
        let is_due = self.reader.due().is_some_and(|at| at <= now);
        let budget = self.budget(policy, demand).filter(|_| is_due)?;
        self.reader.start();
        self.claiming = budget;
        Some(budget)
    }

    /// A claim has returned.
    pub(super) fn claimed(&mut self, claim: ClaimSummary, now: Duration, policy: &Policy) {
        self.has_read = true;
        self.claiming = NOTHING;
        self.reader.claimed(claim, now, policy);
    }

    /// A claim failed and nothing was read.
    pub(super) fn claim_failed(&mut self, now: Duration, policy: &Policy) {
        self.claiming = NOTHING;
        self.reader.failed(now, policy);
    }

    /// How much may be read now; `None` if too little to be worth a query.
    fn budget(&self, policy: &Policy, demand: Demand) -> Option<Budget> {
        let fetching_bytes = if demand.fetching == 0 { 0 } else { policy.batch_bytes_max };
        let room = policy.read_ahead_events_max.saturating_sub(self.events + demand.fetching);
        let bytes_max = policy.read_ahead_bytes_max.saturating_sub(self.bytes + fetching_bytes);
        let worthwhile = policy.claim_events_max.min(policy.read_ahead_events_max / 4).max(1);
        let wanted = room >= worthwhile
            && bytes_max >= policy.read_ahead_bytes_max / 4
            // Parked queues that wait for the reader could never be emptied otherwise.
            && (self.limit != Some(CapacityLimit::ParkedRows) || demand.has_awaiting_reader)
            && demand.unwritten_rows < policy.window_events_max;
        wanted.then(|| Budget::new(room.min(policy.claim_events_max), bytes_max))
    }

    /// Room for parked events that are read back. It is one batch more than claims may use, so that a full read-ahead
    /// does not starve retries.
    pub(super) fn room_for_parked(&self, policy: &Policy) -> Budget {
        let events_max = (policy.read_ahead_events_max + policy.batch_events_max)
            .saturating_sub(self.events + self.claiming.events_max);
        let bytes_max = (policy.read_ahead_bytes_max + policy.batch_bytes_max)
            .saturating_sub(self.bytes + self.claiming.bytes_max);
        Budget::new(events_max, bytes_max)
    }

    /// Checks the limits. Returns the limit that is reached, if that changed.
    pub(super) fn update_limit(
        &mut self,
        policy: &Policy,
        parked: u64,
        done_ranges: usize,
    ) -> Option<Option<CapacityLimit>> {
        let limit = if parked >= policy.parked_max as u64 {
            Some(CapacityLimit::ParkedRows)
        } else if done_ranges >= DONE_RANGES_MANY {
            Some(CapacityLimit::DoneRanges)
        } else {
            None
        };
        (std::mem::replace(&mut self.limit, limit) != limit).then_some(limit)
    }
}
