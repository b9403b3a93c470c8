//! The task that fans the events of layout `eventlog` out to their handlers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::driver::DriverHandle;
use crate::layout::FanOut;
use crate::store::{FannedOut, Notifications};
use crate::{Clock, Code, Error, Result};

/// Events whose notification the database refused are left out until this time has passed.
const REFUSED_RETRY: Duration = Duration::from_secs(10 * 60);

/// How many refused events are left out at most. With more, the oldest ones fill every batch, and later events wait.
const REFUSED_MAX: usize = 5_000;

/// How many refused events of one batch are logged.
const REFUSED_LOGGED: usize = 5;

/// Wait while another relay fans out.
const BUSY_WAIT: Duration = Duration::from_millis(200);

/// If another process has been fanning out for this long without a break, it is logged.
const BUSY_LONG: Duration = Duration::from_secs(60);

/// Fans events of one outbox out. Every relay runs this task; the database lets one of them work at a time. Errors are
/// logged and do not end it.
pub(super) struct FanOutTask {
    notifications: Arc<dyn Notifications>,
    settings: FanOut,
    clock: Arc<dyn Clock>,
    drivers: Vec<Arc<DriverHandle>>,
    wake: Arc<Notify>,
    /// Ids of refused events.
    refused: Vec<String>,
    /// It was logged that there are too many of them.
    is_full_logged: bool,
    /// When refused events are tried again.
    retry_refused_at: Duration,
    /// Since when another process has been fanning out.
    busy_since: Option<Duration>,
    /// The error that was logged last, so that it is logged once.
    logged_error: Option<Code>,
}

impl FanOutTask {
    pub(super) fn new(
        notifications: Arc<dyn Notifications>,
        settings: FanOut,
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
            refused: Vec::new(),
            is_full_logged: false,
            retry_refused_at,
            busy_since: None,
            logged_error: None,
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
                    self.logged_error = None;
                    wait
                }
                Err(error) => {
                    self.log_error(&error);
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
        if now >= self.retry_refused_at {
            self.refused.clear();
        }
        let batch = self.notifications.fan_out(self.settings.events_max, &self.refused).await?;
        self.note_busy(batch.busy, now);
        let wait = match (batch.busy, batch.more) {
            (true, _) => Some(BUSY_WAIT.min(self.settings.poll)),
            (false, true) => None,
            (false, false) => Some(self.settings.poll),
        };
        self.apply(batch);
        Ok(wait)
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

    /// Wakes the handlers, and reports refused events.
    fn apply(&mut self, batch: FannedOut) {
        if batch.notifications > 0 {
            self.drivers.iter().for_each(|driver| driver.wake_driver());
        }
        let new: Vec<_> =
            batch.refused.into_iter().filter(|(event, _)| !self.refused.contains(event)).collect();
        let refused = new.len();
        if refused > 0 && self.refused.is_empty() {
            self.is_full_logged = false;
            self.retry_refused_at = self.clock.now().elapsed + REFUSED_RETRY;
        }
        for (index, (event, reason)) in new.into_iter().enumerate() {
            if index < REFUSED_LOGGED && self.refused.len() < REFUSED_MAX {
                tracing::error!(
                    event,
                    reason,
                    refused,
                    "the database refuses the notification of an event; it is tried again later"
                );
            }
            if self.refused.len() < REFUSED_MAX {
                self.refused.push(event);
            }
        }
        if self.refused.len() >= REFUSED_MAX && !self.is_full_logged {
            self.is_full_logged = true;
            tracing::error!("too many events are refused; later events wait until they can be fanned out");
        }
    }

    fn log_error(&mut self, error: &Error) {
        let code = error.code();
        if self.logged_error != Some(code) {
            let (what, hint) = (error.one_line(), error.hint());
            tracing::warn!(%code, hint, "events are not fanned out to their handlers: {what}");
            self.logged_error = Some(code);
        }
    }
}
