//! The task that fans the events of layout `eventlog` out to their handlers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::driver_handle::DriverHandle;
use super::logged_error::LoggedError;
use super::refused_events::RefusedEvents;
use crate::layout::FanOutPolicy;
use crate::store::{FannedOut, Notifications, RefusedEvent, Skipped};
use crate::{Clock, Error, Result};

/// Events whose notification the database refused are left out until this time has passed.
const REFUSED_RETRY: Duration = Duration::from_secs(10 * 60);

/// How often events are read whose types no registered pattern matches; see [`Skipped::unmatched_types`].
const ALL_TYPES_EVERY: Duration = Duration::from_secs(10 * 60);

/// How many refused events are tried again at once. Each is a transaction, and new events wait meanwhile.
const RETRIED_EVENTS_MAX: usize = 20;

/// While more events wait, the handlers are woken this often: each list of due notifications also reads those that are
/// handled and not recorded yet, so a few long lists cost less than many short ones.
const WAKE_EVERY: Duration = Duration::from_millis(100);

/// Wait while another relay fans out.
const BUSY_WAIT: Duration = Duration::from_millis(200);

/// If another process has been fanning out for this long without a break, it is logged.
const BUSY_LONG: Duration = Duration::from_secs(60);

/// Fans events of one outbox out. Every relay runs this task; the database lets one of them work at a time. Errors are
/// logged and do not end it.
pub(super) struct FanOutTask {
    notifications: Arc<dyn Notifications>,
    settings: FanOutPolicy,
    clock: Arc<dyn Clock>,
    drivers: Vec<Arc<DriverHandle>>,
    wake: Arc<Notify>,
    /// Notifications that were inserted since the handlers were woken.
    unannounced: u64,
    /// When the handlers are woken next, if more events wait.
    wake_at: Duration,
    /// Refused events, which are left out.
    refused: RefusedEvents,
    /// When they are tried again.
    retry_refused_at: Duration,
    /// The pass in which they are tried again, next to the fan-out of new events.
    retry: Option<RetryPass>,
    /// When events of all types are read again, whether a pattern matches them or not.
    all_types_at: Duration,
    /// Since when another process has been fanning out.
    busy_since: Option<Duration>,
    /// The error that was logged last, so that it is logged once.
    logged_error: LoggedError,
}

/// A pass over all events that wait, refused or not.
#[derive(Default)]
struct RetryPass {
    /// Those that were refused again.
    refused: RefusedEvents,
    /// The last batch contained refused events.
    is_refused: bool,
}

impl FanOutTask {
    pub(super) fn new(
        notifications: Arc<dyn Notifications>,
        settings: FanOutPolicy,
        clock: Arc<dyn Clock>,
        drivers: Vec<Arc<DriverHandle>>,
        wake: Arc<Notify>,
    ) -> Self {
        let retry_refused_at = clock.now().elapsed;
        Self {
            notifications,
            settings,
            clock,
            drivers,
            wake,
            unannounced: 0,
            wake_at: retry_refused_at,
            refused: RefusedEvents::default(),
            retry_refused_at,
            retry: None,
            all_types_at: retry_refused_at,
            busy_since: None,
            logged_error: LoggedError::default(),
        }
    }

    /// Runs until it is stopped. A batch in progress then happens as a whole or not at all.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = self.fan_out() => {}
        }
    }

    async fn fan_out(&mut self) {
        loop {
            let wait = match self.step().await {
                Ok(wait) => {
                    self.logged_error.clear();
                    wait
                }
                Err(error) => {
                    self.log_error(&error);
                    self.wake_handlers();
                    Some(BUSY_WAIT.max(self.settings.poll))
                }
            };
            let Some(wait) = wait else { continue };
            tokio::select! {
                () = self.clock.sleep_until(self.clock.now().elapsed + wait) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Fans one batch out. Returns how long to wait; `None` if there is more to do.
    async fn step(&mut self) -> Result<Option<Duration>> {
        let now = self.clock.now().elapsed;
        let reads_all_types = now >= self.all_types_at;
        let skipped = Skipped { unmatched_types: !reads_all_types, ..self.refused.skipped().clone() };
        let batch = self.notifications.fan_out(self.settings.events_max, &skipped).await?;
        self.note_busy(batch.busy, now);
        let (is_busy, more) = (batch.busy, batch.more);
        if reads_all_types && !is_busy && !more {
            self.all_types_at = now + ALL_TYPES_EVERY;
        }
        if self.refused.is_empty() {
            self.retry_refused_at = now + REFUSED_RETRY;
        }
        let refused = self.apply(batch);
        self.refused.add(refused);
        if is_busy {
            return Ok(Some(BUSY_WAIT.min(self.settings.poll)));
        }
        let retries = self.retry_refused(now).await?;
        Ok((!more && !retries).then_some(self.settings.poll))
    }

    /// Tries refused events again, a few at a time: new events do not wait for them. Returns whether there are more.
    async fn retry_refused(&mut self, now: Duration) -> Result<bool> {
        if self.retry.is_none() && !self.refused.is_empty() && now >= self.retry_refused_at {
            self.retry = Some(RetryPass::default());
        }
        let Some(pass) = &self.retry else { return Ok(false) };
        let events_max = match pass.is_refused {
            true => RETRIED_EVENTS_MAX.min(self.settings.events_max),
            false => self.settings.events_max,
        };
        let batch = self.notifications.fan_out(events_max, pass.refused.skipped()).await?;
        let (is_busy, more) = (batch.busy, batch.more);
        let refused = self.apply(batch);
        let Some(pass) = &mut self.retry else { return Ok(false) };
        pass.is_refused = !refused.is_empty();
        pass.refused.add(refused);
        if !is_busy && !more {
            // It has tried all of them, and found again those that are still refused.
            self.refused = self.retry.take().unwrap_or_default().refused;
            self.retry_refused_at = now + REFUSED_RETRY;
        }
        Ok(!is_busy && more)
    }

    /// Logs once if another process has been fanning out for a long time.
    fn note_busy(&mut self, is_busy: bool, now: Duration) {
        if !is_busy {
            self.busy_since = None;
            return;
        }
        let since = *self.busy_since.get_or_insert(now);
        if since != Duration::MAX && now.saturating_sub(since) >= BUSY_LONG {
            self.busy_since = Some(Duration::MAX);
            tracing::warn!(
                "another process has locked the fan-out for a minute, or the table fan_out has no row; no event is fanned \
                 out here"
            );
        }
    }

    fn wake_handlers(&mut self) {
        if std::mem::take(&mut self.unannounced) > 0 {
            self.wake_at = self.clock.now().elapsed + WAKE_EVERY;
            self.drivers.iter().for_each(|driver| driver.wake_driver());
        }
    }

    /// Wakes the handlers. Returns the refused events.
    fn apply(&mut self, batch: FannedOut) -> Vec<RefusedEvent> {
        self.unannounced += batch.notifications;
        if !batch.more || batch.busy || self.clock.now().elapsed >= self.wake_at {
            self.wake_handlers();
        }
        batch.refused
    }

    fn log_error(&mut self, error: &Error) {
        self.logged_error.warn("events are not fanned out to their handlers", error);
    }
}

#[cfg(test)]
#[path = "fan_out_tests.rs"]
mod tests;
