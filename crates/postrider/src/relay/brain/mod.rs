//! The relay's brain: a pure state machine. `step(now, input) -> effects`; no clock, no I/O, seeded randomness.

mod io;
mod keys;

pub use io::{
    Acquisition, BatchId, Claim, Deposed, Effect, Input, ParkedEvent, Reply, Report, Route, Routed, Session,
};
pub use keys::{DestinationId, KeyId, Numbers};

use std::time::Duration;

use super::Policy;
use crate::Now;

/// What a brain is told once.
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
    setup: Setup,
}

impl Brain {
    /// A brain that owns nothing yet; its first step asks for the lease.
    pub fn new(setup: Setup) -> Self {
        Self { setup }
    }

    /// Takes in what happened and says what to do.
    pub fn step(&mut self, now: Now, input: Input) -> Step {
        let _ = (now, input, &self.setup);
        Step { session: Session::default(), effects: Vec::new() }
    }

    /// When (by `Now::elapsed`) to come back with [`Input::Tick`] if nothing else happens before.
    pub fn due(&self) -> Option<Duration> {
        None
    }
}
