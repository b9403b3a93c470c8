//! The owner of a subscription: its whole working state, and what it does whenever something happened.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use super::destination::Destination;
use super::dispatch::Batch;
use super::key_queues::{HeadState, KeyQueue, KeyQueues, Queued};
use super::keys::{ByNumber, DestinationId, KeyId};
use super::lease::Lease;
use super::progress::ProgressBuffer;
use super::reader::{Look, Reader};
use super::step::StepCx;
use super::trial::Caution;
use super::{BatchId, Brake, Deposed, Effect, ParkedEvent, Reply, Report, RoutedClaim};
use crate::ledger::ParkedState;
use crate::relay::OnDead;
use crate::sink::Outcome;
use crate::store::{Budget, Loaded, Renewed, Settled};
use crate::{Code, Position, Recovery};

/// With more ranges above the floor, the progress row is large enough to report. Reading goes on: only by
/// reading are the holes between ranges filled or proven dead. What bounds the ranges is the store's own limit of
/// holes and our limit of events read ahead.
const DONE_RANGES_MANY: usize = 10_000;

/// The working state of an owner. Gone with the lease; made again from the database by the next owner.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) lease: Lease,
    pub(super) reader: Reader,
    pub(super) queues: KeyQueues,
    /// Keys whose head may be published, in the order they became so.
    pub(super) ready: VecDeque<KeyId>,
    /// Since when the first of them waits.
    pub(super) ready_since: Duration,
    pub(super) batches: ByNumber<BatchId, Batch>,
    pub(super) next_batch: u64,
    /// Messages at the sink; with what is unsettled, the window.
    pub(super) in_flight: usize,
    /// Destinations with failures. Empty while all goes well.
    pub(super) destinations: ByNumber<DestinationId, Destination>,
    pub(super) progress: ProgressBuffer,
    /// When parked and resting heads may be tried again. Outdated entries are skipped.
    pub(super) retries: BinaryHeap<Reverse<(Duration, KeyId)>>,
    /// Keys whose parked head is wanted in memory.
    pub(super) wanted: VecDeque<KeyId>,
    pub(super) fetching: Vec<(KeyId, Position)>,
    /// Queues that wait until the outbox is read up to their head.
    pub(super) unread: BTreeSet<(Position, KeyId)>,
    /// Keys whose head was given up since the last flush began, and by it.
    pub(super) ended: Vec<KeyId>,
    pub(super) ended_in_flush: Vec<KeyId>,
    pub(super) memory: Memory,
    /// What keeps it from reading on, if something does.
    pub(super) brake: Option<Brake>,
    /// Something was settled while leading.
    pub(super) has_settled: bool,
    /// Nothing is published before something was settled: the last owner could not settle anything.
    pub(super) must_prove: bool,
    /// Destinations seen: one, or several.
    pub(super) destination: Option<DestinationId>,
    pub(super) several_destinations: bool,
    /// Messages acknowledged while leading.
    pub(super) acknowledged: u64,
    pub(super) caution: Option<Caution>,
    pub(super) paused: Option<String>,
    /// Until when a shutdown waits for what is in flight.
    pub(super) draining_until: Option<Duration>,
    /// Another process has changed parked rows: everything is loaded again once what is in flight is settled, or then.
    pub(super) reload_by: Option<Duration>,
}

/// Events in memory.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) events: usize,
    pub(super) bytes: usize,
    /// What a claim under way may add.
    pub(super) claiming: Budget,
}

impl Memory {
    const NOTHING: Budget = Budget { events_max: 0, bytes_max: 0 };

    fn new() -> Self {
        Self { events: 0, bytes: 0, claiming: Self::NOTHING }
    }
}

impl Leader {
    /// Takes over with the state of the moment the lease was granted.
    pub(super) fn take_over(
        cx: &mut StepCx<'_>,
        loaded: Loaded,
        parked: Vec<ParkedEvent>,
        dead: Vec<ParkedEvent>,
        sent_at: Duration,
    ) -> Self {
        let now = cx.elapsed();
        cx.report(Report::Leading { epoch: loaded.epoch, clean: loaded.clean });
        let caution = if loaded.clean { None } else { Some(Caution::after(&loaded, &parked, cx.policy())) };
        let mut leader = Self {
            lease: Lease::granted(loaded.epoch, cx.policy().lease, sent_at),
            reader: Reader::new(now),
            queues: KeyQueues::default(),
            ready: VecDeque::new(),
            ready_since: now,
            batches: ByNumber::default(),
            next_batch: 0,
            in_flight: 0,
            destinations: ByNumber::default(),
            has_settled: false,
            must_prove: false,
            destination: None,
            several_destinations: cx.policy().several_destinations,
            acknowledged: 0,
            caution,
            progress: ProgressBuffer::open(loaded.progress, loaded.parked_count),
            retries: BinaryHeap::new(),
            wanted: VecDeque::new(),
            fetching: Vec::new(),
            unread: BTreeSet::new(),
            ended: Vec::new(),
            ended_in_flush: Vec::new(),
            memory: Memory::new(),
            brake: None,
            paused: None,
            draining_until: None,
            reload_by: None,
        };
        leader.set_paused(cx, loaded.paused);
        leader.load_parked(cx, parked, dead);
        if leader.caution.is_none() {
            leader.progress.forget_trial();
        }
        leader
    }

    /// Puts the parked events into the queues of their keys, before anything is published.
    fn load_parked(&mut self, cx: &StepCx<'_>, mut parked: Vec<ParkedEvent>, dead: Vec<ParkedEvent>) {
        if cx.policy().on_dead == OnDead::Block {
            parked.extend(dead);
        }
        parked.sort_by_key(|event| event.row.position);
        for ParkedEvent { key, row } in parked {
            let queued = Queued {
                position: row.position,
                attempts: row.attempts,
                doubted: false,
                parked: true,
                body: None,
            };
            if let Some(queue) = self.queues.get_mut(key) {
                queue.rest.push_back(queued);
                continue;
            }
            let head_state = match row.state {
                ParkedState::Dead | ParkedState::Expired => HeadState::Stuck,
                ParkedState::Retry => {
                    // A wall clock that jumped must not make any process wait longer than the longest backoff.
                    let wait = row.next_attempt_at.map_or(Duration::ZERO, |at| cx.now.wall.until(at));
                    HeadState::Waiting(cx.elapsed() + wait.min(cx.policy().backoff_max))
                }
                ParkedState::Behind | ParkedState::Held | ParkedState::Unrouted => HeadState::Wanted,
            };
            self.queues.slot(key).insert_entry(KeyQueue::new(queued, head_state));
            match head_state {
                HeadState::Waiting(until) => self.retries.push(Reverse((until, key))),
                HeadState::Wanted => self.want(key),
                _ => {}
            }
        }
    }

    /// Takes a reply in. An error deposes this owner.
    pub(super) fn hear(&mut self, cx: &mut StepCx<'_>, reply: Reply) -> Result<(), Deposed> {
        match reply {
            Reply::Renewed(Ok(Renewed::Held { paused, parked_changed })) => {
                self.lease.renewed();
                self.set_paused(cx, paused);
                if parked_changed && self.reload_by.is_none() {
                    cx.report(Report::ParkedChanged);
                    self.reload_by = Some(cx.elapsed() + cx.policy().drain_timeout);
                    self.unstage(cx);
                }
            }
            Reply::Renewed(Ok(Renewed::Lost)) => return Err(Deposed::LeaseLost),
            Reply::Renewed(Err(_)) => self.lease.not_renewed(cx.elapsed()),
            Reply::Claimed(Ok(RoutedClaim::Page { events, dead, damaged, more_at_once, left_unread })) => {
                self.memory.claiming = Memory::NOTHING;
                for (start, end) in dead {
                    self.progress.finish(start, end, cx.elapsed());
                }
                self.bury_damaged(cx, damaged);
                let last = events.last().map(|event| event.position);
                let look = Look { last, more_at_once, left_unread };
                self.reader.claimed(look, cx.elapsed(), cx.policy());
                self.arrive(cx, events);
                self.have_read();
            }
            Reply::Claimed(Ok(RoutedClaim::HistoryChanged(reason))) => {
                cx.emit(Effect::Halt { epoch: self.lease.epoch, reason });
                return Err(Deposed::HistoryChanged);
            }
            Reply::Claimed(Err(code)) => {
                Self::survive(code)?;
                self.memory.claiming = Memory::NOTHING;
                self.reader.failed(cx.elapsed(), cx.policy());
            }
            Reply::Fetched(Ok(fetched)) => self.fetched(cx, fetched)?,
            Reply::Fetched(Err(code)) => {
                Self::survive(code)?;
                self.fetch_failed();
            }
            Reply::Published(_, outcomes) if outcomes.contains(&Outcome::Fenced) => {
                return Err(Deposed::FencedBySink);
            }
            Reply::Published(batch, outcomes) => self.published(cx, batch, outcomes),
            Reply::Settled(Ok(Settled::Done)) => {
                self.has_settled = true;
                self.must_prove = false;
                self.progress.flushed();
                self.bury(cx);
                self.publish_staged(cx);
            }
            Reply::Settled(Ok(Settled::Fenced)) => return Err(Deposed::Fenced),
            Reply::Settled(Err(code)) => {
                Self::survive(code)?;
                self.progress.flush_failed(cx.elapsed(), cx.policy());
                self.ended.append(&mut self.ended_in_flush);
                self.writing_failed();
            }
            Reply::Acquired(_) | Reply::Released | Reply::Paused => {}
        }
        Ok(())
    }

    /// Only an error that changed nothing is survived; after any other the state is loaded again.
    fn survive(code: Code) -> Result<(), Deposed> {
        match code.recovery() {
            Recovery::Again => Ok(()),
            Recovery::Reload | Recovery::Person => Err(Deposed::StoreFailed(code)),
        }
    }

    /// Does whatever can be done now.
    pub(super) fn advance(&mut self, cx: &mut StepCx<'_>) -> Result<(), Deposed> {
        let now = cx.elapsed();
        if self.lease.is_over(now) {
            return Err(Deposed::LeaseExpired);
        }
        if self.lease.start_renewal(now) {
            cx.emit(Effect::Renew(self.lease.epoch));
        }
        self.wake_retries(cx, now);
        if self.is_working() {
            self.fetch(cx);
            self.probe(cx);
            self.dispatch(cx);
        }
        // Also on the way out: an answer still to come must not be taken for a sign against these.
        self.judge(cx);
        if self.is_working() {
            self.end_caution(cx);
            self.hold_blocked(cx);
            self.claim(cx);
        }
        self.flush(cx);
        match self.reload_by {
            Some(by) if self.is_settled() || now >= by => Err(Deposed::ParkedChanged),
            _ => Ok(()),
        }
    }

    /// Nothing is in flight and everything is recorded.
    fn is_settled(&self) -> bool {
        self.batches.is_empty() && self.progress.is_clean()
    }

    /// Publishing and reading, not paused and not on the way out.
    fn is_working(&self) -> bool {
        self.paused.is_none() && self.draining_until.is_none() && self.reload_by.is_none()
    }

    pub(super) fn set_paused(&mut self, cx: &mut StepCx<'_>, paused: Option<String>) {
        if self.paused != paused {
            cx.report(Report::Paused(paused.clone()));
            self.paused = paused;
        }
    }

    /// Has the state settled as it is before anything is published. A database that takes reads and no
    /// writes would otherwise have the same events published by one owner after the other.
    pub(super) fn prove_settling(&mut self, cx: &StepCx<'_>) {
        self.must_prove = true;
        self.progress.touch(cx.elapsed());
    }

    /// Starts the way out.
    pub(super) fn drain(&mut self, cx: &StepCx<'_>) {
        self.draining_until.get_or_insert(cx.elapsed() + cx.policy().drain_timeout);
        self.unstage(cx);
    }

    /// Whether the way out is at its end, and whether everything was settled.
    pub(super) fn drained(&self, now: Duration) -> Option<bool> {
        let until = self.draining_until?;
        let settled = self.is_settled();
        (settled || now >= until).then_some(settled)
    }

    fn wake_retries(&mut self, cx: &StepCx<'_>, now: Duration) {
        while let Some(Reverse((at, key))) = self.retries.peek().copied()
            && at <= now
        {
            self.retries.pop();
            match self.queues.head_state(key) {
                Some(HeadState::Waiting(of)) if of == at => self.want(key),
                Some(HeadState::Resting(of)) if of == at => self.proceed(cx, key),
                _ => {}
            }
        }
    }

    fn claim(&mut self, cx: &mut StepCx<'_>) {
        self.set_brake(cx);
        if self.reader.due().is_some_and(|at| at <= cx.elapsed())
            && let Some(budget) = self.claim_budget(cx)
        {
            self.reader.start();
            self.memory.claiming = budget;
            cx.emit(Effect::Claim(budget));
        }
    }

    fn set_brake(&mut self, cx: &mut StepCx<'_>) {
        let brake = if self.progress.parked_count() >= cx.policy().parked_max as u64 {
            Some(Brake::ParkedFull)
        } else if self.progress.done().range_count() >= DONE_RANGES_MANY {
            Some(Brake::RangesMany)
        } else {
            None
        };
        if brake != self.brake {
            self.brake = brake;
            cx.report(Report::Brake(brake));
        }
    }

    /// How much may be read now. Small leftovers of room are not worth a query.
    fn claim_budget(&self, cx: &StepCx<'_>) -> Option<Budget> {
        let policy = cx.policy();
        let fetching_bytes = if self.fetching.is_empty() { 0 } else { policy.batch_bytes_max };
        let room = policy.read_ahead_events_max.saturating_sub(self.memory.events + self.fetching.len());
        let bytes_max = policy.read_ahead_bytes_max.saturating_sub(self.memory.bytes + fetching_bytes);
        let worthwhile = policy.claim_events_max.min(policy.read_ahead_events_max / 4).max(1);
        let wanted = room >= worthwhile
            && bytes_max >= policy.read_ahead_bytes_max / 4
            // Queues that wait for the reader could never leave the table otherwise.
            && (self.brake != Some(Brake::ParkedFull) || !self.unread.is_empty())
            && self.progress.unwritten_rows() < policy.window_events_max;
        wanted.then(|| Budget { events_max: room.min(policy.claim_events_max), bytes_max })
    }

    fn flush(&mut self, cx: &mut StepCx<'_>) {
        let now = cx.elapsed();
        let window_full = self.progress.unsettled() > 0 && self.window_room(cx) == 0;
        let leaves = self.draining_until.is_some() || self.reload_by.is_some();
        let last = leaves && self.batches.is_empty();
        let urgent = window_full || last || self.is_staged() || self.must_prove;
        if self.progress.flush_due(cx.policy(), urgent).is_some_and(|due| due <= now) {
            cx.emit(Effect::Settle(self.progress.flush(&cx.setup.subscription, self.lease.epoch)));
            self.ended_in_flush.append(&mut self.ended);
            self.writing_staged();
        }
    }

    /// How many more messages may go to the sink before something is settled.
    pub(super) fn window_room(&self, cx: &StepCx<'_>) -> usize {
        cx.policy().window_events_max.saturating_sub(self.in_flight + self.progress.unsettled())
    }

    /// When to come back if nothing else happens.
    pub(super) fn due(&self, cx: &StepCx<'_>) -> Duration {
        let mut due = self.lease.due();
        let mut at = |moment: Option<Duration>| due = due.min(moment.unwrap_or(due));
        at(self.progress.flush_due(cx.policy(), self.is_staged() || self.must_prove));
        at(self.draining_until);
        at(self.reload_by);
        at(self.retries.peek().map(|Reverse((moment, _))| *moment));
        if self.is_working() {
            at(self.reader.due().filter(|_| self.claim_budget(cx).is_some()));
            at(self.linger_due(cx));
            at(self.probe_due(cx));
        }
        due
    }
}
