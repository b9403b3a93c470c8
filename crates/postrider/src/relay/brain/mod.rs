//! The relay's brain: a pure state machine. `step(now, input) -> effects`; no clock, no I/O, seeded randomness.
//!
//! It holds its state in memory only. After a crash, the next owner loads what was settled and publishes the rest
//! again.
//!
//! | file | idea |
//! |---|---|
//! | `io` | what goes in and what comes out |
//! | `leader` | the owner of a subscription: all parts together, while the lease is held |
//!
//! Parts of the leader, each with its own fields:
//!
//! | file | idea |
//! |---|---|
//! | `lease`, `run_state` | when to renew; whether the relay is paused or shutting down |
//! | `intake` (with `reader`) | when and how much to read, and what is in memory |
//! | `key_queues` | the events of each key, in order |
//! | `outbound` | keys that are ready, and batches at the sink |
//! | `pace` | the limit of events and bytes per second |
//! | `destination` | the state of a destination that fails |
//! | `fetch_schedule` | parked events to read back into memory, and when |
//! | `progress` | progress that is not settled yet, and the window |
//!
//! What the leader does with them:
//!
//! | file | idea |
//! |---|---|
//! | `arrive` | a claimed event joins the queue of its key |
//! | `dispatch` | heads of queues go to the sink in batches |
//! | `outcome` | the sink's answers |
//! | `park`, `fetch` | events that fail leave memory, and come back |
//! | `outage` | whether the destination is down or the message is bad |
//! | `trial` | the mode after a crash, which finds an event that crashes the process |

mod arrive;
mod destination;
mod dispatch;
mod fetch;
mod fetch_schedule;
mod intake;
mod io;
mod key_queues;
mod keys;
mod leader;
mod lease;
mod outage;
mod outbound;
mod outcome;
mod pace;
mod park;
mod progress;
mod random;
mod reader;
mod run_state;
mod step;
mod trial;

pub use io::{
    Acquisition, BatchId, CapacityLimit, Disposition, Effect, FailureDetails, Input, ParkedEvent, Reply,
    Report, Routed, RoutedClaim, RoutedFetch, Term, TermEnd,
};
pub use keys::{DestinationId, IdHasher, KeyId};
pub use trial::CRASHED_REASON;

use std::sync::Arc;
use std::time::Duration;

use super::Policy;
use crate::store::relays::DOWN_MAX;
use crate::store::{DestinationDown, Epoch, RelayRole};
use crate::{Code, Now, Position, Recovery};
use leader::Leader;
use random::Random;
use step::StepCx;

/// Maximum delay between two attempts to lead while none of them settles anything.
const TERM_WAIT_MAX: Duration = Duration::from_secs(60);

/// The settings of a brain.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The subscription to serve.
    pub subscription: String,
    /// Its limits and times.
    pub policy: Policy,
    /// Whether a batch may contain several messages of one key.
    pub prefix_safe: bool,
    /// How many messages the sink takes at once, if it limits them: then their number limits batches, not the policy,
    /// and no batch waits to be filled.
    pub in_flight_max: Option<usize>,
    /// Whether expired events count as parked. Not in an outbox whose rows record that they expired.
    pub counts_expired: bool,
    /// Seeds the jitter.
    pub seed: u64,
}

/// The effects of a step.
#[derive(Debug)]
pub struct StepOutput {
    /// The term that replies to these effects must name.
    pub term: Term,
    /// Effects to perform, in this order; replies may arrive in any order.
    pub effects: Vec<Effect>,
}

/// The state machine of one subscription.
#[derive(Debug)]
pub struct Brain {
    setup: Arc<Setup>,
    random: Random,
    term: Term,
    phase: Phase,
    stopping: bool,
    /// When the next tick is due.
    due: Option<Duration>,
    /// The halt that was reported last, so that it is reported once.
    halted: Option<String>,
    /// The holder of the lease at the last request, so that it is reported once.
    leader: Option<String>,
    /// Consecutive terms that ended before anything was settled.
    terms_without_settle: u32,
    /// This process's last term ended while it was still in trial mode.
    was_in_trial_mode: bool,
    /// Messages acknowledged in earlier terms.
    acknowledged_before: u64,
    /// The last epoch that this process owned.
    last_epoch: Option<Epoch>,
}

#[derive(Debug)]
enum Phase {
    /// Without the lease; the next request is due at this time.
    Standby { try_at: Duration },
    /// The lease was requested at this time.
    Acquiring { sent_at: Duration },
    /// With the lease.
    Leading(Box<Leader>),
    /// Shutting down; the lease is being released.
    Releasing,
    /// Ended; takes no further input.
    Stopped,
}

/// The state of a subscription in one relay, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SubscriptionState {
    /// The epoch of the lease, if it holds it.
    pub leading: Option<Epoch>,
    /// Everything up to this position is done.
    pub floor: Position,
    /// The highest position done.
    pub highest_done: Position,
    /// Since it leads, it has read new events at least once, which also checks the history of the database; or a limit
    /// keeps it from reading.
    pub has_read: bool,
    /// Events in memory.
    pub events_in_memory: usize,
    /// Bytes in memory, all columns and overhead.
    pub bytes_in_memory: usize,
    /// Parked keys that are being read back into memory.
    pub fetching_parked: usize,
    /// Messages in flight.
    pub in_flight: usize,
    /// Acknowledged and not yet settled.
    pub unsettled: usize,
    /// Messages acknowledged since the relay started.
    pub acknowledged: u64,
    /// Rows parked, final ones included.
    pub parked: u64,
    /// Those of them that are dead: they are not tried again until an operator acts. The others are retried, wait, have
    /// expired or have no route.
    pub dead: u64,
    /// Number of destinations that are considered down.
    pub destinations_down: usize,
    /// Some of them, with what is known.
    pub down: Vec<DestinationDown>,
    /// The operator's pause.
    pub paused: Option<String>,
}

impl Brain {
    /// A brain that owns nothing yet; its first step asks for the lease.
    pub fn new(setup: Setup) -> Self {
        Self {
            random: Random::new(setup.seed),
            setup: Arc::new(setup),
            term: Term::default(),
            phase: Phase::Standby { try_at: Duration::ZERO },
            stopping: false,
            due: Some(Duration::ZERO),
            halted: None,
            leader: None,
            terms_without_settle: 0,
            was_in_trial_mode: false,
            acknowledged_before: 0,
            last_epoch: None,
        }
    }

    /// Takes an input and returns the effects to perform.
    pub fn step(&mut self, now: Now, input: Input) -> StepOutput {
        let setup = self.setup.clone();
        let mut cx = StepCx { now, setup: &setup, random: self.random, effects: Vec::new() };
        let done = self.take(&mut cx, input).and_then(|()| self.advance(&mut cx));
        if let Err(reason) = done {
            self.end_term(&mut cx, reason);
        }
        self.due = self.next_due(&cx);
        self.random = cx.random;
        StepOutput { term: self.term, effects: cx.effects }
    }

    /// When (by `Now::elapsed`) to call [`step`](Self::step) with [`Input::Tick`] if there is no other input before.
    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Its role for the subscription, as operators see it.
    pub fn role(&self) -> RelayRole {
        match self.phase {
            Phase::Leading(_) => RelayRole::Leading,
            Phase::Standby { .. } | Phase::Acquiring { .. } => RelayRole::StandingBy,
            Phase::Releasing | Phase::Stopped => RelayRole::Gone,
        }
    }

    /// Its current state.
    pub fn snapshot(&self) -> SubscriptionState {
        let Phase::Leading(leader) = &self.phase else {
            return SubscriptionState {
                acknowledged: self.acknowledged_before,
                ..SubscriptionState::default()
            };
        };
        SubscriptionState {
            acknowledged: self.acknowledged_before + leader.outbound.acknowledged(),
            leading: Some(leader.lease.epoch),
            floor: leader.progress.done().floor(),
            highest_done: leader.progress.done().highest(),
            events_in_memory: leader.intake.events(),
            bytes_in_memory: leader.intake.bytes(),
            has_read: leader.intake.has_read(),
            fetching_parked: leader.fetch_schedule.count(),
            in_flight: leader.outbound.in_flight(),
            unsettled: leader.progress.unsettled(),
            parked: leader.progress.parked_count(),
            dead: leader.progress.dead_count(),
            destinations_down: leader.destinations.down_count(),
            down: leader.destinations.down().take(DOWN_MAX).collect(),
            paused: leader.run_state.paused().map(str::to_owned),
        }
    }

    fn take(&mut self, cx: &mut StepCx<'_>, input: Input) -> Result<(), TermEnd> {
        match input {
            Input::Tick => {}
            Input::Wake => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.intake.wake(cx.elapsed());
                }
            }
            Input::Pause(paused) => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.run_state.set_paused(cx, paused);
                }
            }
            Input::Shutdown => {
                self.stopping = true;
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.drain(cx);
                }
            }
            // A reply to an earlier term is about state that no longer exists.
            Input::Reply(term, _) if term != self.term => {}
            Input::Reply(_, Reply::Acquired(answer)) => self.acquired(cx, answer),
            Input::Reply(_, Reply::Released) => {
                if matches!(self.phase, Phase::Releasing) {
                    cx.report(Report::TermEnded(TermEnd::Released));
                    self.stop(cx);
                }
            }
            Input::Reply(_, reply) => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.handle_reply(cx, reply)?;
                }
            }
        }
        Ok(())
    }

    fn acquired(&mut self, cx: &mut StepCx<'_>, answer: Result<Acquisition, Code>) {
        let Phase::Acquiring { sent_at } = self.phase else { return };
        let lease = cx.policy().lease;
        let try_at = match answer {
            Ok(Acquisition::Granted { mut loaded, parked, dead }) => {
                self.halted = None;
                self.leader = None;
                // No other relay owned the lease in between, and this process is alive: so no event has crashed it.
                loaded.clean |= !self.was_in_trial_mode
                    && self.last_epoch.is_some_and(|last| last.0 + 1 == loaded.epoch.0);
                self.last_epoch = Some(loaded.epoch);
                let mut leader = Leader::take_over(cx, *loaded, parked, dead, sent_at);
                if self.terms_without_settle > 0 {
                    leader.progress.require_settle(cx.elapsed());
                }
                if self.stopping {
                    leader.drain(cx);
                }
                self.phase = Phase::Leading(Box::new(leader));
                return;
            }
            // Asks again before the lease can expire, in case it is released early.
            Ok(Acquisition::Held { holder, remaining }) => {
                if self.leader.as_ref() != Some(&holder) {
                    cx.report(Report::StandingBy { holder: holder.clone() });
                    self.leader = Some(holder);
                }
                cx.elapsed() + remaining.min(lease / 3) + lease / 100
            }
            Ok(Acquisition::Halted(reason)) => {
                if self.halted.as_ref() != Some(&reason) {
                    cx.report(Report::Halted(reason.clone()));
                    self.halted = Some(reason);
                }
                cx.jittered(lease / 3)
            }
            Err(code) if code.recovery() == Recovery::Retry => cx.jittered(lease / 30),
            Err(_) => cx.jittered(lease / 6),
        };
        self.phase = Phase::Standby { try_at };
    }

    fn advance(&mut self, cx: &mut StepCx<'_>) -> Result<(), TermEnd> {
        match &mut self.phase {
            Phase::Standby { .. } if self.stopping => self.stop(cx),
            Phase::Standby { try_at } if cx.elapsed() >= *try_at => {
                self.term = Term(self.term.0 + 1);
                self.phase = Phase::Acquiring { sent_at: cx.elapsed() };
                cx.emit(Effect::Acquire);
            }
            Phase::Leading(leader) => {
                leader.advance(cx)?;
                if let Some(clean) = leader.drained(cx.elapsed()) {
                    cx.emit(Effect::Release { epoch: leader.lease.epoch, clean });
                    self.acknowledged_before += leader.outbound.acknowledged();
                    self.phase = Phase::Releasing;
                }
            }
            Phase::Standby { .. } | Phase::Acquiring { .. } | Phase::Releasing | Phase::Stopped => {}
        }
        Ok(())
    }

    /// Ends the term and drops all its state. Waits before the next attempt, which would likely fail for the same
    /// reason.
    fn end_term(&mut self, cx: &mut StepCx<'_>, why: TermEnd) {
        cx.report(Report::TermEnded(why));
        self.acknowledged_before = self.snapshot().acknowledged;
        if let Phase::Leading(leader) = &self.phase {
            // A reload because an operator changed parked rows is not a failure.
            let has_worked = leader.progress.has_settled() || why == TermEnd::ParkedChanged;
            self.terms_without_settle =
                if has_worked { 0 } else { self.terms_without_settle.saturating_add(1) };
            self.was_in_trial_mode = leader.trial_mode.is_some();
        }
        let lease = cx.policy().lease;
        let wait = random::doubled(lease / 10, lease.max(TERM_WAIT_MAX), self.terms_without_settle);
        let try_at = if why == TermEnd::ParkedChanged { cx.elapsed() } else { cx.jittered(wait) };
        self.phase = Phase::Standby { try_at };
        // Replies to effects of this term must not reach the next one.
        self.term = Term(self.term.0 + 1);
        if self.stopping {
            self.stop(cx);
        }
    }

    fn stop(&mut self, cx: &mut StepCx<'_>) {
        self.phase = Phase::Stopped;
        cx.emit(Effect::Stop);
    }

    fn next_due(&self, cx: &StepCx<'_>) -> Option<Duration> {
        match &self.phase {
            Phase::Standby { try_at } => Some(*try_at),
            Phase::Leading(leader) => Some(leader.due(cx)),
            Phase::Acquiring { .. } | Phase::Releasing | Phase::Stopped => None,
        }
    }
}
