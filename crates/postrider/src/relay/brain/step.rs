//! The context of one step of the brain: the time, the settings, the random numbers, and the effects so far.

use std::time::Duration;

use super::random::Random;
use super::{Effect, Report, Setup};
use crate::Now;
use crate::relay::Policy;

/// Everything a part of the brain needs besides its own state.
#[derive(Debug)]
pub(super) struct StepCx<'a> {
    pub(super) now: Now,
    pub(super) setup: &'a Setup,
    pub(super) random: Random,
    pub(super) effects: Vec<Effect>,
}

impl<'a> StepCx<'a> {
    pub(super) fn elapsed(&self) -> Duration {
        self.now.elapsed
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.setup.policy
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn report(&mut self, report: Report) {
        self.effects.push(Effect::Report(report));
    }

    /// The time after a delay, with jitter.
    pub(super) fn jittered(&mut self, wait: Duration) -> Duration {
        self.now.elapsed + self.random.jitter(wait)
    }
}
