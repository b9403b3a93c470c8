//! The task that deletes expired rows of the inbox beside an outbox. It runs whatever the retention of events is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::pace::Pace;
use super::retention::Retention;
use crate::store::{InboxPurge, Store};
use crate::{Clock, Code, Error};

/// Deletes expired rows of the inbox of one outbox. Its errors are logged and never end it.
pub(super) struct InboxCleaner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    purge: InboxPurge,
    interval: Duration,
    /// Deleted since it was last logged.
    deleted: u64,
    /// What was reported already, so that it is reported once.
    logged_error: Option<Code>,
}

impl InboxCleaner {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        pace: Pace,
        retention: &Retention,
    ) -> Self {
        let purge = retention.inbox_purge();
        Self { store, clock, pace, purge, interval: retention.interval, deleted: 0, logged_error: None }
    }

    /// Runs until it is stopped. A batch in progress then happens as a whole or not at all.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = self.clean() => {}
        }
        self.log_deleted();
    }

    async fn clean(&mut self) {
        let mut wait = self.interval;
        loop {
            tokio::time::sleep(self.pace.at_least(wait)).await;
            wait = if self.pace.leads() { self.batch().await } else { self.interval };
        }
    }

    /// Deletes one batch. Returns how long to wait before the next.
    async fn batch(&mut self) -> Duration {
        let begun = self.clock.now().elapsed;
        let purged = match self.store.purge_inbox(self.purge).await {
            Ok(purged) => purged,
            Err(error) => {
                self.log_deleted();
                self.log_error(&error);
                return self.interval;
            }
        };
        self.logged_error = None;
        self.deleted += purged.deleted;
        if purged.more {
            return self.pace.after_batch(self.clock.now().elapsed.saturating_sub(begun));
        }
        self.log_deleted();
        self.interval
    }

    fn log_deleted(&mut self) {
        let deleted = std::mem::take(&mut self.deleted);
        if deleted > 0 {
            tracing::info!(deleted, subscription = self.pace.names(), "deleted expired rows of the inbox");
        }
    }

    fn log_error(&mut self, error: &Error) {
        let code = error.code();
        if code == Code::StoreBusy {
            tracing::debug!("the cleanup of the inbox is waiting: {}", error.one_line());
        } else if self.logged_error != Some(code) {
            let (what, hint) = (error.one_line(), error.hint());
            tracing::warn!(%code, hint, "expired rows of the inbox are not deleted: {what}");
            self.logged_error = Some(code);
        }
    }
}
