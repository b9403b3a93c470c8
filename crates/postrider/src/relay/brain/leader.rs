//! The leader of a subscription: its complete working state, and what it does at each step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::destination::FailingDestinations;
use super::fetch_schedule::FetchSchedule;
use super::intake::{Demand, Intake};
use super::key_queues::{HeadState, KeyQueue, KeyQueues, Queued};
use super::lease::Lease;
use super::outbound::Outbound;
use super::pace::Pace;
use super::progress::ProgressBuffer;
use super::reader::ClaimSummary;
use super::run_state::RunState;
use super::step::StepCx;
use super::trial::TrialMode;
use super::{Effect, ParkedEvent, Reply, Report, RoutedClaim, TermEnd};
use crate::ledger::ParkedState;
use crate::relay::OnDead;
use crate::sink::Outcome;
use crate::store::{Loaded, Renewed, Settled};
use crate::{Code, Position, Recovery};

/// The working state of a leader. Dropped when the lease is lost or the process dies; the next leader loads it from the
/// database. Each part owns its fields; decisions that concern several parts are made here and in the files listed in
/// [`brain`](super).
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) lease: Lease,
    /// Whether the leader may read and publish.
    pub(super) run_state: RunState,
    /// Reading, and the events in memory.
    pub(super) intake: Intake,
    /// Events that are not done, by key.
    pub(super) queues: KeyQueues,
    /// Parked events that must wait when they become the head of their queue, and their state then. Only a replay parks an
    /// event before one that waits already.
    pub(super) later_heads: BTreeMap<Position, HeadState>,
    /// Keys that are ready, and batches at the sink.
    pub(super) outbound: Outbound,
    /// When the sink may get the next batch.
    pub(super) pace: Pace,
    /// Destinations with failures.
    pub(super) destinations: FailingDestinations,
    /// Retries, and parked events to read back into memory.
    pub(super) fetch_schedule: FetchSchedule,
    /// Progress that is not settled yet.
    pub(super) progress: ProgressBuffer,
    /// After a crash of the previous leader: small batches, each recorded before it is published.
    pub(super) trial_mode: Option<TrialMode>,
}

impl Leader {
    /// Starts with the state that was loaded with the lease.
    pub(super) fn take_over(
        cx: &mut StepCx<'_>,
        loaded: Loaded,
        parked: Vec<ParkedEvent>,
        dead: Vec<ParkedEvent>,
        sent_at: Duration,
    ) -> Self {
        let now = cx.elapsed();
        let previous = loaded.previous.clone().map(Box::new);
        cx.report(Report::Leading { epoch: loaded.epoch, clean: loaded.clean, previous });
        let trial_mode =
            if loaded.clean { None } else { Some(TrialMode::after_crash(&loaded, &parked, cx.policy())) };
        let is_dead = |event: &&ParkedEvent| event.row.state == ParkedState::Dead;
        let dead_positions = dead.iter().filter(is_dead).map(|event| event.row.position).collect();
        let mut leader = Self {
            lease: Lease::granted(loaded.epoch, cx.policy().lease, sent_at),
            run_state: RunState::default(),
            intake: Intake::new(now),
            queues: KeyQueues::default(),
            later_heads: BTreeMap::new(),
            outbound: Outbound::new(now),
            pace: Pace::default(),
            destinations: FailingDestinations::new(cx.policy().several_destinations),
            fetch_schedule: FetchSchedule::default(),
            progress: ProgressBuffer::open(loaded.progress, loaded.parked_count, dead_positions),
            trial_mode,
        };
        leader.run_state.set_paused(cx, loaded.paused);
        leader.load_parked(cx, parked, dead);
        if leader.trial_mode.is_none() {
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
                attempts: row.attempts,
                redelivery: row.redelivery,
                parked: true,
                ..Queued::new(row.position)
            };
            let head_state = match row.state {
                ParkedState::Dead | ParkedState::Expired => HeadState::NeedsOperator,
                ParkedState::Retry => {
                    // A wall clock that jumped must not make an event wait longer than the maximum backoff.
                    let wait = row.next_attempt_at.map_or(Duration::ZERO, |at| cx.now.wall.until(at));
                    HeadState::Backoff(cx.elapsed() + wait.min(cx.policy().backoff_max))
                }
                ParkedState::Behind | ParkedState::Held | ParkedState::Unrouted => HeadState::ToFetch,
            };
            if let Some(queue) = self.queues.get_mut(key) {
                queue.rest.push_back(queued);
                let must_wait = match head_state {
                    HeadState::NeedsOperator => true,
                    HeadState::Backoff(until) => until > cx.elapsed(),
                    _ => false,
                };
                if must_wait {
                    self.later_heads.insert(row.position, head_state);
                }
                continue;
            }
            self.queues.slot(key).insert_entry(KeyQueue::new(queued, head_state));
            match head_state {
                HeadState::Backoff(until) => self.fetch_schedule.retry_at(until, key),
                HeadState::ToFetch => self.schedule_fetch(key),
                _ => {}
            }
        }
    }

    /// Handles a reply. An error ends the term.
    pub(super) fn handle_reply(&mut self, cx: &mut StepCx<'_>, reply: Reply) -> Result<(), TermEnd> {
        match reply {
            Reply::Renewed(Ok(Renewed::Held { paused, parked_changed })) => {
                self.lease.renewed();
                self.run_state.set_paused(cx, paused);
                if parked_changed {
                    self.reload(cx);
                }
            }
            Reply::Renewed(Ok(Renewed::Lost)) => return Err(TermEnd::LeaseLost),
            Reply::Renewed(Err(_)) => self.lease.not_renewed(cx.elapsed()),
            Reply::Claimed(Ok(RoutedClaim::Page {
                events,
                empty_positions,
                damaged,
                more_at_once,
                has_unread,
            })) => {
                for (start, end) in empty_positions {
                    self.progress.finish(start, end, cx.elapsed());
                }
                self.park_damaged(cx, damaged);
                let last = events.last().map(|event| event.position);
                let claim = ClaimSummary { last, more_at_once, has_unread };
                self.intake.claimed(claim, cx.elapsed(), cx.policy());
                self.arrive(cx, events);
                self.schedule_reached_fetches();
            }
            Reply::Claimed(Ok(RoutedClaim::HistoryChanged(reason))) => {
                cx.emit(Effect::Halt { epoch: self.lease.epoch, reason });
                return Err(TermEnd::HistoryChanged);
            }
            Reply::Claimed(Err(code)) => {
                Self::end_term_unless_retryable(code)?;
                self.intake.claim_failed(cx.elapsed(), cx.policy());
            }
            Reply::Fetched(Ok(fetched)) => self.fetched(cx, fetched)?,
            Reply::Fetched(Err(code)) => {
                Self::end_term_unless_retryable(code)?;
                self.fetch_failed();
            }
            Reply::Published(_, outcomes) if outcomes.contains(&Outcome::Fenced) => {
                return Err(TermEnd::FencedBySink);
            }
            Reply::Published(batch, outcomes) => self.published(cx, batch, outcomes),
            Reply::PublishedEarly(_, outcomes) if outcomes.iter().any(|(_, of)| *of == Outcome::Fenced) => {
                return Err(TermEnd::FencedBySink);
            }
            Reply::PublishedEarly(batch, outcomes) => self.published_early(cx, batch, outcomes),
            Reply::Settled(Ok(Settled::Done)) => {
                let given_up = self.progress.flushed();
                self.remove_given_up(cx, given_up);
                self.publish_staged(cx);
            }
            // Before anything else is published: what is in memory about those events is no longer true.
            Reply::Settled(Ok(Settled::ParkedChanged)) => {
                self.progress.flushed();
                self.reload(cx);
            }
            Reply::Settled(Ok(Settled::Fenced)) => return Err(TermEnd::Fenced),
            Reply::Settled(Err(code)) => {
                Self::end_term_unless_retryable(code)?;
                self.progress.flush_failed(cx.elapsed(), cx.policy());
                self.staged_flush_failed();
            }
            Reply::Acquired(_) | Reply::Released | Reply::Paused => {}
        }
        Ok(())
    }

    /// Stops reading and publishing, settles what is in flight, and then loads the state again.
    fn reload(&mut self, cx: &mut StepCx<'_>) {
        if self.run_state.reload() {
            cx.report(Report::ParkedChanged);
            self.unstage(cx);
        }
    }

    /// Continues after an error that changed nothing. After any other error the term ends and the state is loaded
    /// again.
    fn end_term_unless_retryable(code: Code) -> Result<(), TermEnd> {
        match code.recovery() {
            Recovery::Retry => Ok(()),
            Recovery::Reload | Recovery::Operator => Err(TermEnd::StoreFailed(code)),
        }
    }

    /// Does everything that is due now.
    pub(super) fn advance(&mut self, cx: &mut StepCx<'_>) -> Result<(), TermEnd> {
        let now = cx.elapsed();
        if self.lease.is_expired(now) {
            return Err(TermEnd::LeaseExpired);
        }
        if self.lease.start_renewal(now) {
            cx.emit(Effect::Renew(self.lease.epoch));
        }
        self.wake_retries(cx, now);
        if self.run_state.is_working() {
            self.fetch(cx);
            self.probe(cx);
            self.dispatch(cx);
        }
        // Also while shutting down: these failures must be diagnosed before a later acknowledgement is taken as
        // evidence that the destination was up.
        self.diagnose(cx);
        if self.run_state.is_working() {
            self.end_trial_mode(cx);
            self.hold_blocked(cx);
            self.claim(cx);
        }
        self.flush(cx);
        if self.run_state.is_reloading() && self.is_settled() {
            return Err(TermEnd::ParkedChanged);
        }
        Ok(())
    }

    /// Nothing is in flight and everything is recorded.
    fn is_settled(&self) -> bool {
        self.outbound.batch_count() == 0 && self.progress.is_clean()
    }

    /// Starts to shut down: nothing new is published.
    pub(super) fn drain(&mut self, cx: &StepCx<'_>) {
        self.run_state.drain(cx);
        self.unstage(cx);
    }

    /// Whether everything was settled, once the shutdown is complete or out of time; `None` before.
    pub(super) fn drained(&self, now: Duration) -> Option<bool> {
        let until = self.run_state.draining_until()?;
        let settled = self.is_settled();
        (settled || now >= until).then_some(settled)
    }

    fn wake_retries(&mut self, cx: &StepCx<'_>, now: Duration) {
        while let Some((at, key)) = self.fetch_schedule.pop_retry(now) {
            match self.queues.head_state(key) {
                Some(HeadState::Backoff(of)) if of == at => self.schedule_fetch(key),
                Some(HeadState::RetrySoon(of)) if of == at => self.proceed(cx, key),
                _ => {}
            }
        }
    }

    fn claim(&mut self, cx: &mut StepCx<'_>) {
        let (parked, ranges) = (self.progress.parked_count(), self.progress.done().range_count());
        if let Some(limit) = self.intake.update_limit(cx.policy(), parked, ranges) {
            cx.report(Report::CapacityLimit(limit));
        }
        let demand = self.demand();
        if let Some(budget) = self.intake.start_claim(cx.elapsed(), cx.policy(), demand) {
            cx.emit(Effect::Claim(budget));
        }
    }

    fn demand(&self) -> Demand {
        Demand {
            fetching: self.fetch_schedule.fetching().len(),
            has_awaiting_reader: self.fetch_schedule.has_awaiting_reader(),
            unwritten_rows: self.progress.unwritten_rows(),
        }
    }

    fn flush(&mut self, cx: &mut StepCx<'_>) {
        let window_full = self.progress.unsettled() > 0 && self.window_room(cx) == 0;
        let last = self.run_state.is_ending() && self.outbound.batch_count() == 0;
        let urgent = window_full || last || self.is_staged();
        if self.progress.flush_due(cx.policy(), urgent).is_some_and(|due| due <= cx.elapsed()) {
            cx.emit(Effect::Settle(self.progress.flush(&cx.setup.subscription, self.lease.epoch)));
            self.staged_flush_started();
        }
    }

    /// How many more messages may be sent to the sink before something is settled.
    pub(super) fn window_room(&self, cx: &StepCx<'_>) -> usize {
        cx.policy().window_events_max.saturating_sub(self.outbound.in_flight() + self.progress.unsettled())
    }

    /// How many more messages may go to the sink now.
    pub(super) fn publish_room(&self, cx: &StepCx<'_>) -> usize {
        let sink =
            cx.setup.in_flight_max.map_or(usize::MAX, |max| max.saturating_sub(self.outbound.in_flight()));
        self.window_room(cx).min(sink)
    }

    /// When the next step is due if there is no other input.
    pub(super) fn due(&self, cx: &StepCx<'_>) -> Duration {
        let mut due = self.lease.due();
        let mut at = |moment: Option<Duration>| due = due.min(moment.unwrap_or(due));
        at(self.progress.flush_due(cx.policy(), self.is_staged()));
        at(self.run_state.draining_until());
        at(self.fetch_schedule.next_retry_at());
        if self.run_state.is_working() {
            at(self.intake.due(cx.policy(), self.demand()));
            at(self.linger_due(cx));
            at(self.probe_due(cx));
        }
        due
    }
}
