//! The owner of a subscription: its whole working state, and what it does whenever something happened.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use super::books::Books;
use super::destination::Destination;
use super::dispatch::Batch;
use super::keys::{ByNumber, DestinationId, KeyId};
use super::lease::Lease;
use super::lines::{Entry, Line, Lines, Stage};
use super::reader::{Look, Reader};
use super::trial::Caution;
use super::turn::Turn;
use super::{BatchId, Brake, Claim, Deposed, Effect, ParkedEvent, Reply, Report};
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
    pub(super) lines: Lines,
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
    pub(super) books: Books,
    /// When parked and resting heads may be tried again. Outdated entries are skipped.
    pub(super) retries: BinaryHeap<Reverse<(Duration, KeyId)>>,
    /// Keys whose parked head is wanted in memory.
    pub(super) wanted: VecDeque<KeyId>,
    pub(super) fetching: Vec<(KeyId, Position)>,
    /// Lines that wait until the outbox is read up to their head.
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
        turn: &mut Turn<'_>,
        loaded: Loaded,
        parked: Vec<ParkedEvent>,
        dead: Vec<ParkedEvent>,
        sent_at: Duration,
    ) -> Self {
        let now = turn.elapsed();
        turn.report(Report::Leading { epoch: loaded.epoch, clean: loaded.clean });
        let caution = if loaded.clean { None } else { Some(Caution::after(&loaded, &parked, turn.policy())) };
        let mut leader = Self {
            lease: Lease::granted(loaded.epoch, turn.policy().lease, sent_at),
            reader: Reader::new(now),
            lines: Lines::default(),
            ready: VecDeque::new(),
            ready_since: now,
            batches: ByNumber::default(),
            next_batch: 0,
            in_flight: 0,
            destinations: ByNumber::default(),
            has_settled: false,
            must_prove: false,
            destination: None,
            several_destinations: turn.policy().several_destinations,
            acknowledged: 0,
            caution,
            books: Books::open(loaded.progress, loaded.parked_count),
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
        leader.set_paused(turn, loaded.paused);
        leader.load_parked(turn, parked, dead);
        if leader.caution.is_none() {
            leader.books.forget_trial();
        }
        leader
    }

    /// Lines the parked events up, before anything is published.
    fn load_parked(&mut self, turn: &Turn<'_>, mut parked: Vec<ParkedEvent>, dead: Vec<ParkedEvent>) {
        if turn.policy().on_dead == OnDead::Block {
            parked.extend(dead);
        }
        parked.sort_by_key(|event| event.row.position);
        for ParkedEvent { key, row } in parked {
            let entry = Entry {
                position: row.position,
                attempts: row.attempts,
                doubted: false,
                parked: true,
                body: None,
            };
            if let Some(line) = self.lines.get_mut(key) {
                line.rest.push_back(entry);
                continue;
            }
            let stage = match row.state {
                ParkedState::Dead | ParkedState::Expired => Stage::Stuck,
                ParkedState::Retry => {
                    // A wall clock that jumped must not make any process wait longer than the longest backoff.
                    let wait = row.next_attempt_at.map_or(Duration::ZERO, |at| turn.now.wall.until(at));
                    Stage::Waiting(turn.elapsed() + wait.min(turn.policy().backoff_max))
                }
                ParkedState::Behind | ParkedState::Held | ParkedState::Unrouted => Stage::Wanted,
            };
            self.lines.slot(key).insert_entry(Line::new(entry, stage));
            match stage {
                Stage::Waiting(until) => self.retries.push(Reverse((until, key))),
                Stage::Wanted => self.want(key),
                _ => {}
            }
        }
    }

    /// Takes a reply in. An error deposes this owner.
    pub(super) fn hear(&mut self, turn: &mut Turn<'_>, reply: Reply) -> Result<(), Deposed> {
        match reply {
            Reply::Renewed(Ok(Renewed::Held { paused, parked_changed })) => {
                self.lease.renewed();
                self.set_paused(turn, paused);
                if parked_changed && self.reload_by.is_none() {
                    turn.report(Report::ParkedChanged);
                    self.reload_by = Some(turn.elapsed() + turn.policy().drain_timeout);
                    self.unstage(turn);
                }
            }
            Reply::Renewed(Ok(Renewed::Lost)) => return Err(Deposed::LeaseLost),
            Reply::Renewed(Err(_)) => self.lease.not_renewed(turn.elapsed()),
            Reply::Claimed(Ok(Claim::Page { events, dead, damaged, more_at_once, left_unread })) => {
                self.memory.claiming = Memory::NOTHING;
                for (start, end) in dead {
                    self.books.finish(start, end, turn.elapsed());
                }
                self.bury_damaged(turn, damaged);
                let last = events.last().map(|event| event.position);
                let look = Look { last, more_at_once, left_unread };
                self.reader.claimed(look, turn.elapsed(), turn.policy());
                self.arrive(turn, events);
                self.have_read();
            }
            Reply::Claimed(Ok(Claim::HistoryChanged(reason))) => {
                turn.emit(Effect::Halt { epoch: self.lease.epoch, reason });
                return Err(Deposed::HistoryChanged);
            }
            Reply::Claimed(Err(code)) => {
                Self::survive(code)?;
                self.memory.claiming = Memory::NOTHING;
                self.reader.failed(turn.elapsed(), turn.policy());
            }
            Reply::Fetched(Ok(fetched)) => self.fetched(turn, fetched)?,
            Reply::Fetched(Err(code)) => {
                Self::survive(code)?;
                self.fetch_failed();
            }
            Reply::Published(_, outcomes) if outcomes.contains(&Outcome::Fenced) => {
                return Err(Deposed::FencedBySink);
            }
            Reply::Published(batch, outcomes) => self.published(turn, batch, outcomes),
            Reply::Settled(Ok(Settled::Done)) => {
                self.has_settled = true;
                self.must_prove = false;
                self.books.flushed();
                self.bury(turn);
                self.publish_staged(turn);
            }
            Reply::Settled(Ok(Settled::Fenced)) => return Err(Deposed::Fenced),
            Reply::Settled(Err(code)) => {
                Self::survive(code)?;
                self.books.unflushed(turn.elapsed(), turn.policy());
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
    pub(super) fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), Deposed> {
        let now = turn.elapsed();
        if self.lease.is_over(now) {
            return Err(Deposed::LeaseExpired);
        }
        if self.lease.start_renewal(now) {
            turn.emit(Effect::Renew(self.lease.epoch));
        }
        self.wake_retries(turn, now);
        if self.is_working() {
            self.fetch(turn);
            self.probe(turn);
            self.dispatch(turn);
        }
        // Also on the way out: an answer still to come must not be taken for a sign against these.
        self.judge(turn);
        if self.is_working() {
            self.end_caution(turn);
            self.hold_blocked(turn);
            self.claim(turn);
        }
        self.flush(turn);
        match self.reload_by {
            Some(by) if self.is_settled() || now >= by => Err(Deposed::ParkedChanged),
            _ => Ok(()),
        }
    }

    /// Nothing is in flight and everything is recorded.
    fn is_settled(&self) -> bool {
        self.batches.is_empty() && self.books.is_clean()
    }

    /// Publishing and reading, not paused and not on the way out.
    fn is_working(&self) -> bool {
        self.paused.is_none() && self.draining_until.is_none() && self.reload_by.is_none()
    }

    pub(super) fn set_paused(&mut self, turn: &mut Turn<'_>, paused: Option<String>) {
        if self.paused != paused {
            turn.report(Report::Paused(paused.clone()));
            self.paused = paused;
        }
    }

    /// Has the state settled as it is before anything is published. A database that takes reads and no
    /// writes would otherwise have the same events published by one owner after the other.
    pub(super) fn prove_settling(&mut self, turn: &Turn<'_>) {
        self.must_prove = true;
        self.books.touch(turn.elapsed());
    }

    /// Starts the way out.
    pub(super) fn drain(&mut self, turn: &Turn<'_>) {
        self.draining_until.get_or_insert(turn.elapsed() + turn.policy().drain_timeout);
        self.unstage(turn);
    }

    /// Whether the way out is at its end, and whether everything was settled.
    pub(super) fn drained(&self, now: Duration) -> Option<bool> {
        let until = self.draining_until?;
        let settled = self.is_settled();
        (settled || now >= until).then_some(settled)
    }

    fn wake_retries(&mut self, turn: &Turn<'_>, now: Duration) {
        while let Some(Reverse((at, key))) = self.retries.peek().copied()
            && at <= now
        {
            self.retries.pop();
            match self.lines.stage(key) {
                Some(Stage::Waiting(of)) if of == at => self.want(key),
                Some(Stage::Resting(of)) if of == at => self.proceed(turn, key),
                _ => {}
            }
        }
    }

    fn claim(&mut self, turn: &mut Turn<'_>) {
        self.set_brake(turn);
        if self.reader.due().is_some_and(|at| at <= turn.elapsed())
            && let Some(budget) = self.claim_budget(turn)
        {
            self.reader.start();
            self.memory.claiming = budget;
            turn.emit(Effect::Claim(budget));
        }
    }

    fn set_brake(&mut self, turn: &mut Turn<'_>) {
        let brake = if self.books.parked_count() >= turn.policy().parked_max as u64 {
            Some(Brake::ParkedFull)
        } else if self.books.done().range_count() >= DONE_RANGES_MANY {
            Some(Brake::RangesMany)
        } else {
            None
        };
        if brake != self.brake {
            self.brake = brake;
            turn.report(Report::Brake(brake));
        }
    }

    /// How much may be read now. Small leftovers of room are not worth a query.
    fn claim_budget(&self, turn: &Turn<'_>) -> Option<Budget> {
        let policy = turn.policy();
        let fetching_bytes = if self.fetching.is_empty() { 0 } else { policy.batch_bytes_max };
        let room = policy.read_ahead_events_max.saturating_sub(self.memory.events + self.fetching.len());
        let bytes_max = policy.read_ahead_bytes_max.saturating_sub(self.memory.bytes + fetching_bytes);
        let worthwhile = policy.claim_events_max.min(policy.read_ahead_events_max / 4).max(1);
        let wanted = room >= worthwhile
            && bytes_max >= policy.read_ahead_bytes_max / 4
            // Lines that wait for the reader could never leave the table otherwise.
            && (self.brake != Some(Brake::ParkedFull) || !self.unread.is_empty())
            && self.books.unwritten_rows() < policy.window_events_max;
        wanted.then(|| Budget { events_max: room.min(policy.claim_events_max), bytes_max })
    }

    fn flush(&mut self, turn: &mut Turn<'_>) {
        let now = turn.elapsed();
        let window_full = self.books.unsettled() > 0 && self.window_room(turn) == 0;
        let leaves = self.draining_until.is_some() || self.reload_by.is_some();
        let last = leaves && self.batches.is_empty();
        let urgent = window_full || last || self.is_staged() || self.must_prove;
        if self.books.flush_due(turn.policy(), urgent).is_some_and(|due| due <= now) {
            turn.emit(Effect::Settle(self.books.flush(&turn.setup.subscription, self.lease.epoch)));
            self.ended_in_flush.append(&mut self.ended);
            self.writing_staged();
        }
    }

    /// How many more messages may go to the sink before something is settled.
    pub(super) fn window_room(&self, turn: &Turn<'_>) -> usize {
        turn.policy().window_events_max.saturating_sub(self.in_flight + self.books.unsettled())
    }

    /// When to come back if nothing else happens.
    pub(super) fn due(&self, turn: &Turn<'_>) -> Duration {
        let mut due = self.lease.due();
        let mut at = |moment: Option<Duration>| due = due.min(moment.unwrap_or(due));
        at(self.books.flush_due(turn.policy(), self.is_staged() || self.must_prove));
        at(self.draining_until);
        at(self.reload_by);
        at(self.retries.peek().map(|Reverse((moment, _))| *moment));
        if self.is_working() {
            at(self.reader.due().filter(|_| self.claim_budget(turn).is_some()));
            at(self.linger_due(turn));
            at(self.probe_due(turn));
        }
        due
    }
}
