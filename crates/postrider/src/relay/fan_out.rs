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

/// How many refused events are left out at most. More are not remembered: they are tried with every batch.
const REFUSED_MAX: usize = 1_000;

/// Wait after an error, and while another relay fans out.
const WAIT: Duration = Duration::from_millis(200);

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
    /// When refused events are tried again.
    retry_refused_at: Duration,
    /// When to search for missed events next.
    search_at: Duration,
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
        let search_at = clock.now().elapsed;
        Self {
            notifications,
            settings,
            clock,
            drivers,
            wake,
            refused: Vec::new(),
            retry_refused_at: search_at,
            search_at,
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
                    Some(WAIT.max(self.settings.poll))
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
        let (busy, more) = (batch.busy, batch.more);
        self.apply(batch);
        if more && !busy {
            return Ok(None);
        }
        if now >= self.search_at && !busy {
            return self.search_missed().await;
        }
        let until_search = self.search_at.saturating_sub(now).max(Duration::from_millis(1));
        let poll = if busy { WAIT.min(self.settings.poll) } else { self.settings.poll };
        Ok(Some(poll.min(until_search)))
    }

    /// Fans events out that another program marked for its own handlers only.
    async fn search_missed(&mut self) -> Result<Option<Duration>> {
        let found = self.notifications.fan_out_missed(self.settings.events_max).await?;
        if found.notifications > 0 {
            tracing::warn!(
                events = found.events,
                notifications = found.notifications,
                "another program fanned these events out without the handlers that are registered here; they were added"
            );
        }
        if found.busy {
            return Ok(Some(WAIT.min(self.settings.poll)));
        }
        let more = found.more;
        self.apply(found);
        if more {
            return Ok(None);
        }
        self.search_at = self.clock.now().elapsed + self.settings.search_missed_every;
        Ok(Some(self.settings.poll.min(self.settings.search_missed_every)))
    }

    /// Wakes the handlers, and reports refused events.
    fn apply(&mut self, batch: FannedOut) {
        if batch.notifications > 0 {
            self.drivers.iter().for_each(|driver| driver.wake_driver());
        }
        for (event, reason) in batch.refused {
            tracing::error!(
                event,
                reason,
                "the database refuses the notification of an event; it is tried again later"
            );
            self.retry_refused_at = self.clock.now().elapsed + REFUSED_RETRY;
            if self.refused.len() < REFUSED_MAX {
                self.refused.push(event);
            }
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
