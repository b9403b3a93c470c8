//! Whether the leader reads and publishes: not while it is paused or its term is ending.

use std::time::Duration;

use super::Report;
use super::step::StepCx;

/// The reasons for which a leader does not read or publish.
#[derive(Debug, Default)]
pub(super) struct RunState {
    paused: Option<String>,
    /// A shutdown waits for messages in flight until this time.
    draining_until: Option<Duration>,
    /// Another process has changed parked rows: the state is loaded again when the messages in flight are answered and
    /// settled. There is no time limit: loading earlier would repeat them, and a settle that fails is tried again until the
    /// lease ends.
    reloading: bool,
}

impl RunState {
    /// Whether the leader reads and publishes.
    pub(super) fn is_working(&self) -> bool {
        self.paused.is_none() && !self.is_ending()
    }

    /// Whether the term ends as soon as everything is settled.
    pub(super) fn is_ending(&self) -> bool {
        self.draining_until.is_some() || self.reloading
    }

    pub(super) fn paused(&self) -> Option<&str> {
        self.paused.as_deref()
    }

    pub(super) fn set_paused(&mut self, cx: &mut StepCx<'_>, paused: Option<String>) {
        if self.paused != paused {
            cx.report(Report::Paused(paused.clone()));
            self.paused = paused;
        }
    }

    /// Requests that the state is loaded again. Returns whether this is the first request.
    pub(super) fn reload(&mut self) -> bool {
        !std::mem::replace(&mut self.reloading, true)
    }

    pub(super) fn drain(&mut self, cx: &StepCx<'_>) {
        self.draining_until.get_or_insert(cx.elapsed() + cx.policy().drain_timeout);
    }

    pub(super) fn draining_until(&self) -> Option<Duration> {
        self.draining_until
    }

    pub(super) fn is_reloading(&self) -> bool {
        self.reloading
    }
}
