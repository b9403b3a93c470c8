//! The tasks that delete rows next to the relay: delivered events that are old enough, and expired rows of the inbox.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::logged_error::LoggedError;
use super::meter::OUTBOX_UNNAMED;
use super::pace::Pace;
use super::retention::Retention;
use crate::store::{InboxPurge, InboxPurged, Purge, Purged, RetentionHold, Store};
use crate::telemetry::{self, add};
use crate::{BoxFuture, Clock, Code, Error, Position, Result};

/// Number of deletions after which they are logged even if there are more to delete.
const LOG_AFTER_DELETED: u64 = 100_000;

/// Number of sweeps after which the next one starts at the first event again, for events that were still needed before.
const SWEEPS_BEFORE_RESTART: u32 = 60;

/// What a [`Cleaner`] deletes.
pub(super) trait Deletion: Send + 'static {
    /// The log message for deleted rows.
    const DELETED: &'static str;
    /// The start of the log message for an error.
    const NOT_DELETED: &'static str;
    /// The start of the log message for a batch that another process prevents.
    const WAITING: &'static str;

    /// Deletes one batch, in one transaction.
    fn delete<'a>(&'a mut self, store: &'a dyn Store) -> BoxFuture<'a, Result<Deleted>>;
}

/// The result of one batch.
pub(super) struct Deleted {
    deleted: u64,
    /// There may be more to delete now.
    more: bool,
}

/// Deletes rows next to one outbox while this relay leads one of its subscriptions. Errors are logged and do not end it.
pub(super) struct Cleaner<D> {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    interval: Duration,
    deletion: D,
    /// Rows deleted since the last log line.
    deleted: u64,
    /// The error that was logged last, so that it is logged once.
    logged_error: LoggedError,
}

impl<D: Deletion> Cleaner<D> {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        pace: Pace,
        interval: Duration,
        deletion: D,
    ) -> Self {
        Self { store, clock, pace, interval, deletion, deleted: 0, logged_error: LoggedError::default() }
    }

    /// Runs until it is stopped. A batch in progress is then committed or rolled back as a whole.
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
            self.clock.sleep_until(self.clock.now().elapsed + self.pace.at_least(wait)).await;
            wait = if self.pace.leads() { self.batch().await } else { self.interval };
        }
    }

    /// Deletes one batch. Returns how long to wait before the next.
    async fn batch(&mut self) -> Duration {
        let begun = self.clock.now().elapsed;
        let Deleted { deleted, more } = match self.deletion.delete(&*self.store).await {
            Ok(batch) => batch,
            Err(error) => {
                self.log_deleted();
                self.log_error(&error);
                return self.interval;
            }
        };
        let took = self.clock.now().elapsed.saturating_sub(begun);
        self.logged_error.clear();
        self.deleted += deleted;
        if !more || self.deleted >= LOG_AFTER_DELETED {
            self.log_deleted();
        }
        if more { self.pace.after_batch(took) } else { self.interval }
    }

    /// Logs how many rows were deleted since the last log line, if any.
    fn log_deleted(&mut self) {
        let deleted = std::mem::take(&mut self.deleted);
        if deleted > 0 {
            tracing::info!(deleted, subscription = self.pace.names(), "{}", D::DELETED);
        }
    }

    fn log_error(&mut self, error: &Error) {
        if error.code() == Code::StoreBusy {
            tracing::debug!("{}: {}", D::WAITING, error.one_line());
        } else {
            self.logged_error.warn(D::NOT_DELETED, error);
        }
    }
}

/// Deletes delivered events that are older than the retention.
pub(super) struct EventDeletion {
    /// The next batch.
    purge: Purge,
    /// The label `outbox` of the metrics.
    label: Arc<str>,
    /// Sweeps since the last one that began at the first event.
    sweeps: u32,
    /// The subscription that was logged last as blocking the retention, so that it is logged once.
    blocked_by: Option<String>,
}

impl EventDeletion {
    /// `None` if everything is kept forever.
    pub(super) fn new(retention: &Retention, label: Option<&str>) -> Option<Self> {
        let purge = Purge {
            scope: retention.scope,
            at_expiry: retention.at_expiry,
            ..Purge::new(retention.keep?, retention.batch_events_max.max(1))
        };
        let label: Arc<str> = label.unwrap_or(OUTBOX_UNNAMED).into();
        add(&telemetry::EVENTS_DELETED, [(&label).into()], 0);
        Some(Self { purge, label, sweeps: 0, blocked_by: None })
    }

    fn log_blocked(&mut self, held: Option<RetentionHold>) {
        let name = held.as_ref().map(|held| held.subscription.clone());
        if name == self.blocked_by {
            return;
        }
        match held {
            Some(RetentionHold { subscription, floor, oldest }) => tracing::warn!(
                subscription,
                floor = floor.get(),
                %oldest,
                "retention is blocked: this subscription still needs old events"
            ),
            None => tracing::info!("retention is no longer blocked"),
        }
        self.blocked_by = name;
    }
}

impl Deletion for EventDeletion {
    const DELETED: &'static str = "deleted delivered events older than the retention";
    const NOT_DELETED: &'static str = "delivered events are not deleted";
    const WAITING: &'static str = "retention is waiting";

    fn delete<'a>(&'a mut self, store: &'a dyn Store) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move {
            let Purged { deleted, reached, more, held } = store.purge(self.purge).await?;
            self.purge.after = reached;
            if deleted > 0 {
                add(&telemetry::EVENTS_DELETED, [(&self.label).into()], deleted);
            }
            self.log_blocked(held);
            if !more {
                self.sweeps += 1;
            }
            if self.sweeps >= SWEEPS_BEFORE_RESTART {
                (self.sweeps, self.purge.after) = (0, Position::ZERO);
            }
            Ok(Deleted { deleted, more })
        })
    }
}

/// Deletes expired rows of the inbox, whatever the retention of events is.
pub(super) struct InboxDeletion(pub(super) InboxPurge);

impl Deletion for InboxDeletion {
    const DELETED: &'static str = "deleted expired rows of the inbox";
    const NOT_DELETED: &'static str = "expired rows of the inbox are not deleted";
    const WAITING: &'static str = "the cleanup of the inbox is waiting";

    fn delete<'a>(&'a mut self, store: &'a dyn Store) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move {
            let InboxPurged { deleted, more } = store.purge_inbox(self.0).await?;
            Ok(Deleted { deleted, more })
        })
    }
}
