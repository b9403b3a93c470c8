//! The task that searches for events of layout `eventlog` that another program fanned out to its own handlers only.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::driver_handle::DriverHandle;
use super::logged_error::LoggedError;
use crate::layout::FanOutPolicy;
use crate::store::{FannedOut, MissedNotification, MissedSearch, Notifications, RefusedEvent};
use crate::{Clock, Error, Result};

/// Wait before an insertion that failed is repeated.
const INSERT_RETRY: Duration = Duration::from_secs(1);

/// How many refused events of one search are logged.
const REFUSED_LOGGED: usize = 5;

/// Searches for missed events of one outbox, next to its fan-out. Every relay runs this task; the database stores when the
/// last search began, so relays that run or start side by side do not repeat it. Errors are logged and do not end it.
pub(super) struct MissedSearchTask {
    notifications: Arc<dyn Notifications>,
    settings: FanOutPolicy,
    clock: Arc<dyn Clock>,
    drivers: Vec<Arc<DriverHandle>>,
    /// The error that was logged last, so that it is logged once.
    logged_error: LoggedError,
}

impl MissedSearchTask {
    pub(super) fn new(
        notifications: Arc<dyn Notifications>,
        settings: FanOutPolicy,
        clock: Arc<dyn Clock>,
        drivers: Vec<Arc<DriverHandle>>,
    ) -> Self {
        Self { notifications, settings, clock, drivers, logged_error: LoggedError::default() }
    }

    /// Runs until it is stopped. An insertion in progress then happens as a whole or not at all.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = self.search() => {}
        }
    }

    async fn search(&mut self) {
        loop {
            let wait = match self.search_once().await {
                Ok(wait) => {
                    self.logged_error.clear();
                    wait
                }
                Err(error) => {
                    self.log_error(&error);
                    // A search that takes too long must not be repeated at once.
                    self.settings.search_missed_every
                }
            };
            self.sleep(wait + self.jitter()).await;
        }
    }

    /// Searches, if a search is due. Returns how long to wait for the next one.
    async fn search_once(&mut self) -> Result<Duration> {
        let every = self.settings.search_missed_every;
        let mut page = match self.notifications.search_missed(every, None).await? {
            MissedSearch::NotDue(wait) => return Ok(wait),
            MissedSearch::Page(page) => page,
        };
        let begun = page.begun;
        let mut all = FannedOut::default();
        loop {
            for missed in page.missed.chunks(self.settings.events_max) {
                self.insert(missed, &mut all).await;
            }
            let Some(last) = page.missed.pop().filter(|_| page.more) else { break };
            match self.notifications.search_missed(every, Some(&last)).await? {
                MissedSearch::Page(next) => page = next,
                MissedSearch::NotDue(_) => break,
            }
        }
        if all.notifications > 0 {
            tracing::warn!(
                events = all.events,
                notifications = all.notifications,
                "another program fanned these events out without the handlers that are registered here; they were added"
            );
        }
        // While events are refused, the next search must find them again.
        if all.refused.is_empty() {
            self.notifications.record_search(begun).await?;
        }
        Ok(every)
    }

    /// Inserts notifications. After an error, such as a lock that is held for too long, the insertion is repeated and not
    /// the search.
    async fn insert(&mut self, missed: &[MissedNotification], all: &mut FannedOut) {
        let inserted = loop {
            match self.notifications.insert_missed(missed).await {
                Ok(inserted) => break inserted,
                Err(error) => self.log_error(&error),
            }
            self.sleep(INSERT_RETRY).await;
        };
        if inserted.notifications > 0 {
            self.drivers.iter().for_each(|driver| driver.wake_driver());
        }
        all.events += inserted.events;
        all.notifications += inserted.notifications;
        for refused in inserted.refused {
            if all.refused.len() < REFUSED_LOGGED {
                let RefusedEvent { event, event_type, reason, .. } = &refused;
                tracing::error!(
                    event,
                    event_type,
                    reason,
                    "the database refuses the notification of an event; the next search tries it again"
                );
                all.refused.push(refused);
            }
        }
    }

    async fn sleep(&self, wait: Duration) {
        self.clock.sleep_until(self.clock.now().elapsed + wait).await;
    }

    /// A random time, so that relays that wait for the same moment do not all search.
    fn jitter(&self) -> Duration {
        // The last bits of a UUIDv7 are random.
        let share = u32::try_from(Uuid::now_v7().as_u64_pair().1 & 0xff).unwrap_or_default();
        self.settings.search_missed_every / 10 * share / 0x100
    }

    fn log_error(&mut self, error: &Error) {
        self.logged_error.warn("the search for events that another program fanned out failed", error);
    }
}

#[cfg(test)]
#[path = "missed_search_tests.rs"]
mod tests;
