//! Whether the owner reads and publishes: not while it is paused, and not while it shuts down.

use std::time::Duration;

use super::Report;
use super::step::StepCx;

/// What keeps an owner from reading and publishing.
#[derive(Debug, Default)]
pub(super) struct RunState {
    paused: Option<String>,
    /// Until when a shutdown waits for what is in flight.
    draining_until: Option<Duration>,
    /// Another process has changed parked rows: everything is loaded again once what is in flight is settled, or then.
    reload_by: Option<Duration>,
}

impl RunState {
    /// Whether it reads and publishes: not paused and not shutting down.
    pub(super) fn is_working(&self) -> bool {
        self.paused.is_none() && !self.is_ending()
    }

    /// The owner ends its term once all is settled.
    pub(super) fn is_ending(&self) -> bool {
        self.draining_until.is_some() || self.reload_by.is_some()
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

    /// The state is to be loaded again. Returns whether that was not known before.
    pub(super) fn reload(&mut self, cx: &StepCx<'_>) -> bool {
        let is_new = self.reload_by.is_none();
        if is_new {
            self.reload_by = Some(cx.elapsed() + cx.policy().drain_timeout);
        }
        is_new
    }

    pub(super) fn drain(&mut self, cx: &StepCx<'_>) {
        self.draining_until.get_or_insert(cx.elapsed() + cx.policy().drain_timeout);
    }

    pub(super) fn draining_until(&self) -> Option<Duration> {
        self.draining_until
    }

    pub(super) fn reload_by(&self) -> Option<Duration> {
        self.reload_by
    }
}
