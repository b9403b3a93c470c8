//! The relay's brain: a pure state machine. `step(now, input) -> effects`; no clock, no I/O, seeded randomness.
//!
//! | file | idea |
//! |---|---|
//! | `io` | what goes in and what comes out |
//! | `lease`, `reader` | when to renew, when to look for events |
//! | `arrive` | a claimed event joins the line of its key (`lines`) |
//! | `dispatch` | heads of lines go to the sink in batches |
//! | `outcome` | the sink's answers |
//! | `park`, `fetch` | events that leave the straight way, and come back |
//! | `outage`, `destination` | destination down or message bad |
//! | `trial` | an event that kills the process |
//! | `books` | what is to be settled, and the window |
//! | `leader` | all of it together, while the lease is held |

mod arrive;
mod books;
mod destination;
mod dispatch;
mod fetch;
mod io;
mod keys;
mod leader;
mod lease;
mod lines;
mod outage;
mod outcome;
mod park;
mod random;
mod reader;
mod trial;
mod turn;

pub use io::{
    About, Acquisition, BatchId, Brake, Claim, Deposed, Effect, Fetch, Input, ParkedEvent, Reply, Report,
    Route, Routed, Session,
};
pub use keys::{DestinationId, KeyId, Numbers};

use std::sync::Arc;
use std::time::Duration;

use super::Policy;
use crate::store::relays::DOWN_MAX;
use crate::store::{DestinationDown, Epoch, RelayRole};
use crate::{Code, Now, Position, Recovery};
use destination::Destination;
use leader::Leader;
use random::Random;
use turn::Turn;

/// Longest wait between two tries to lead when none of them gets anything settled.
const FRUITLESS_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a brain gets once.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Whose progress it minds.
    pub subscription: String,
    /// Its limits and times.
    pub policy: Policy,
    /// Whether the sink takes several messages of one key in a batch.
    pub prefix_safe: bool,
    /// Seeds the jitter.
    pub seed: u64,
}

/// What a brain wants done after a step.
#[derive(Debug)]
pub struct Step {
    /// The session that replies to these effects must name.
    pub session: Session,
    /// What to do, in this order; replies may come in any.
    pub effects: Vec<Effect>,
}

/// Minds one subscription.
#[derive(Debug)]
pub struct Brain {
    setup: Arc<Setup>,
    random: Random,
    session: Session,
    phase: Phase,
    stopping: bool,
    /// When to come back.
    due: Option<Duration>,
    /// The operator's stop already reported, so that it is reported once.
    halted: Option<String>,
    /// Who had the lease when it was asked for last, so that it is reported once.
    leader: Option<String>,
    /// Sessions in a row that ended before anything was settled.
    fruitless: u32,
    /// The last owner of this process was still careful after another relay's crash.
    was_careful: bool,
    /// Messages acknowledged in earlier sessions.
    acknowledged_before: u64,
    /// The last epoch this very process led with.
    led: Option<Epoch>,
}

#[derive(Debug)]
enum Phase {
    /// Without the lease; the next try is then.
    Standby { try_at: Duration },
    /// Asked for the lease at this moment.
    Acquiring { sent_at: Duration },
    /// With the lease.
    Leading(Box<Leader>),
    /// On the way out; the lease is being given up.
    Releasing,
    /// Done forever.
    Stopped,
}

/// How a brain is doing, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Whether it holds the lease, and with which right.
    pub leading: Option<Epoch>,
    /// All up to here is done.
    pub floor: Position,
    /// The highest position done.
    pub highest_done: Position,
    /// Events in memory.
    pub events_in_memory: usize,
    /// Bytes in memory, all columns and overhead.
    pub bytes_in_memory: usize,
    /// Parked keys that are being brought back into memory.
    pub recalling: usize,
    /// Messages at the sink.
    pub in_flight: usize,
    /// Acknowledged and not yet settled.
    pub unsettled: usize,
    /// Messages acknowledged since the relay started.
    pub acknowledged: u64,
    /// Rows parked, final ones included.
    pub parked: u64,
    /// Destinations taken for down: how many.
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
            session: Session::default(),
            phase: Phase::Standby { try_at: Duration::ZERO },
            stopping: false,
            due: Some(Duration::ZERO),
            halted: None,
            leader: None,
            fruitless: 0,
            was_careful: false,
            acknowledged_before: 0,
            led: None,
        }
    }

    /// Takes in what happened and says what to do.
    pub fn step(&mut self, now: Now, input: Input) -> Step {
        let setup = self.setup.clone();
        let mut turn = Turn { now, setup: &setup, random: self.random, effects: Vec::new() };
        let done = self.take(&mut turn, input).and_then(|()| self.advance(&mut turn));
        if let Err(deposed) = done {
            self.depose(&mut turn, deposed);
        }
        self.due = self.next_due(&turn);
        self.random = turn.random;
        Step { session: self.session, effects: turn.effects }
    }

    /// When (by `Now::elapsed`) to come back with [`Input::Tick`] if nothing else happens before.
    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// What it does for its subscription, for people.
    pub fn role(&self) -> RelayRole {
        match self.phase {
            Phase::Leading(_) => RelayRole::Leading,
            Phase::Standby { .. } | Phase::Acquiring { .. } => RelayRole::StandingBy,
            Phase::Releasing | Phase::Stopped => RelayRole::Gone,
        }
    }

    /// How it is doing.
    pub fn snapshot(&self) -> Snapshot {
        let Phase::Leading(leader) = &self.phase else {
            return Snapshot { acknowledged: self.acknowledged_before, ..Snapshot::default() };
        };
        Snapshot {
            acknowledged: self.acknowledged_before + leader.acknowledged,
            leading: Some(leader.lease.epoch),
            floor: leader.books.done().floor(),
            highest_done: leader.books.done().highest(),
            events_in_memory: leader.memory.events,
            bytes_in_memory: leader.memory.bytes,
            recalling: leader.wanted.len() + leader.fetching.len() + leader.unread.len(),
            in_flight: leader.in_flight,
            unsettled: leader.books.unsettled(),
            parked: leader.books.parked_count(),
            destinations_down: leader.destinations.values().filter(|d| d.outage.is_some()).count(),
            down: leader.destinations.values().filter_map(Destination::as_down).take(DOWN_MAX).collect(),
            paused: leader.paused.clone(),
        }
    }

    fn take(&mut self, turn: &mut Turn<'_>, input: Input) -> Result<(), Deposed> {
        match input {
            Input::Tick => {}
            Input::Wake => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.reader.wake(turn.elapsed());
                }
            }
            Input::Pause(paused) => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.set_paused(turn, paused);
                }
            }
            Input::Shutdown => {
                self.stopping = true;
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.drain(turn);
                }
            }
            // What an earlier session asked for is no longer needed.
            Input::Reply(session, _) if session != self.session => {}
            Input::Reply(_, Reply::Acquired(answer)) => self.acquired(turn, answer),
            Input::Reply(_, Reply::Released) => {
                if matches!(self.phase, Phase::Releasing) {
                    turn.report(Report::Deposed(Deposed::Released));
                    self.stop(turn);
                }
            }
            Input::Reply(_, reply) => {
                if let Phase::Leading(leader) = &mut self.phase {
                    leader.hear(turn, reply)?;
                }
            }
        }
        Ok(())
    }

    fn acquired(&mut self, turn: &mut Turn<'_>, answer: Result<Acquisition, Code>) {
        let Phase::Acquiring { sent_at } = self.phase else { return };
        let lease = turn.policy().lease;
        let try_at = match answer {
            Ok(Acquisition::Granted { mut loaded, parked, dead }) => {
                self.halted = None;
                self.leader = None;
                // No process led in between and this process is alive: whatever happened, no event killed it.
                loaded.clean |= !self.was_careful && self.led.is_some_and(|led| led.0 + 1 == loaded.epoch.0);
                self.led = Some(loaded.epoch);
                let mut leader = Leader::take_over(turn, *loaded, parked, dead, sent_at);
                if self.fruitless > 0 {
                    leader.prove_settling(turn);
                }
                if self.stopping {
                    leader.drain(turn);
                }
                self.phase = Phase::Leading(Box::new(leader));
                return;
            }
            // Looks again before the lease can be over, in case it is given up early.
            Ok(Acquisition::Held { holder, remaining }) => {
                if self.leader.as_ref() != Some(&holder) {
                    turn.report(Report::StandingBy { holder: holder.clone() });
                    self.leader = Some(holder);
                }
                turn.elapsed() + remaining.min(lease / 3) + lease / 100
            }
            Ok(Acquisition::Halted(reason)) => {
                if self.halted.as_ref() != Some(&reason) {
                    turn.report(Report::Halted(reason.clone()));
                    self.halted = Some(reason);
                }
                turn.soon(lease / 3)
            }
            Err(code) if code.recovery() == Recovery::Again => turn.soon(lease / 30),
            Err(_) => turn.soon(lease / 6),
        };
        self.phase = Phase::Standby { try_at };
    }

    fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), Deposed> {
        match &mut self.phase {
            Phase::Standby { .. } if self.stopping => self.stop(turn),
            Phase::Standby { try_at } if turn.elapsed() >= *try_at => {
                self.session = Session(self.session.0 + 1);
                self.phase = Phase::Acquiring { sent_at: turn.elapsed() };
                turn.emit(Effect::Acquire);
            }
            Phase::Leading(leader) => {
                leader.advance(turn)?;
                if let Some(clean) = leader.drained(turn.elapsed()) {
                    turn.emit(Effect::Release { epoch: leader.lease.epoch, clean });
                    self.acknowledged_before += leader.acknowledged;
                    self.phase = Phase::Releasing;
                }
            }
            Phase::Standby { .. } | Phase::Acquiring { .. } | Phase::Releasing | Phase::Stopped => {}
        }
        Ok(())
    }

    /// Nothing this owner knew is kept. Trying again at once would only find the same trouble.
    fn depose(&mut self, turn: &mut Turn<'_>, why: Deposed) {
        turn.report(Report::Deposed(why));
        self.acknowledged_before = self.snapshot().acknowledged;
        if let Phase::Leading(leader) = &self.phase {
            // Any process that loads again because an operator changed something found no trouble.
            let is_fruitful = leader.has_settled || why == Deposed::ParkedChanged;
            self.fruitless = if is_fruitful { 0 } else { self.fruitless.saturating_add(1) };
            self.was_careful = leader.caution.is_some();
        }
        let lease = turn.policy().lease;
        let wait = random::doubled(lease / 10, lease.max(FRUITLESS_WAIT_MAX), self.fruitless);
        let try_at = if why == Deposed::ParkedChanged { turn.elapsed() } else { turn.soon(wait) };
        self.phase = Phase::Standby { try_at };
        // Replies to what the deposed owner asked for must not reach the next one.
        self.session = Session(self.session.0 + 1);
        if self.stopping {
            self.stop(turn);
        }
    }

    fn stop(&mut self, turn: &mut Turn<'_>) {
        self.phase = Phase::Stopped;
        turn.emit(Effect::Stop);
    }

    fn next_due(&self, turn: &Turn<'_>) -> Option<Duration> {
        match &self.phase {
            Phase::Standby { try_at } => Some(*try_at),
            Phase::Leading(leader) => Some(leader.due(turn)),
            Phase::Acquiring { .. } | Phase::Releasing | Phase::Stopped => None,
        }
    }
}
