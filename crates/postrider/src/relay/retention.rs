//! How long delivered events stay, and the task that deletes them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::shell::Handle;
use crate::store::{HeldBack, Store, Trim, Trimmed};
use crate::{Clock, Code, Error, Position};

/// How long delivered events stay in an outbox, and how gently they are deleted.
///
/// An event is deleted once every subscription of the outbox is done with it and it is old enough by its `time`
/// and the database's clock. What is parked, dead included, stays. A subscription that nobody serves any more
/// keeps everything above its progress; that is told in the log and in `status`.
///
/// Whoever leads a subscription of the outbox deletes. Several relays may do so at once: the database lets one
/// at a time, and each batch decides anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Delivered events older than this are deleted; `None`: never.
    pub keep: Option<Duration>,
    /// Events looked at in one batch, which is one short transaction.
    pub batch_events_max: usize,
    /// Wait after nothing was left to delete, and before the first batch.
    pub rest: Duration,
}

impl Retention {
    /// Nothing is ever deleted.
    pub const FOREVER: Self = Self { keep: None, ..Self::DEFAULT };

    const DEFAULT: Self = Self {
        keep: Some(Duration::from_secs(7 * 24 * 60 * 60)),
        batch_events_max: 2_000,
        rest: Duration::from_secs(60),
    };

    /// Delivered events are kept for this long.
    pub const fn of(keep: Duration) -> Self {
        Self { keep: Some(keep), ..Self::DEFAULT }
    }
}

impl Default for Retention {
    /// Seven days.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Sweeps after which the next begins at the first event again, for those that were needed when it passed them.
const SWEEPS_BEFORE_RESTART: u32 = 60;

/// Shortest pause between two batches.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// A pause is so many times as long as the batch before it took: the share of the time while there is something
/// to publish is a tenth, else a half.
const PAUSE_WHILE_BUSY: u32 = 9;
const PAUSE_WHILE_IDLE: u32 = 1;

/// Deletes delivered events of one outbox. Its troubles are told and never end it.
pub(super) struct Cleaner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The subscriptions of the outbox that this relay serves.
    handles: Vec<Arc<Handle>>,
    keep: Duration,
    batch_events_max: usize,
    rest: Duration,
    /// What lies at or below was looked at.
    after: Position,
    sweeps: u32,
    /// What was told already, so that it is told once.
    trouble: Option<Code>,
    held: Option<String>,
}

impl Cleaner {
    /// `None` if everything is kept for ever.
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        handles: Vec<Arc<Handle>>,
        retention: &Retention,
    ) -> Option<Self> {
        Some(Self {
            store,
            clock,
            handles,
            keep: retention.keep?,
            batch_events_max: retention.batch_events_max.max(1),
            rest: retention.rest,
            after: Position::ZERO,
            sweeps: 0,
            trouble: None,
            held: None,
        })
    }

    /// Runs until it is told to stop. A batch under way then happens as a whole or not at all.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = self.clean() => {}
        }
    }

    async fn clean(&mut self) {
        let mut wait = self.rest;
        loop {
            tokio::time::sleep(wait).await;
            wait = if self.leads() { self.batch().await } else { self.rest.max(PAUSE_MIN) };
        }
    }

    /// Deletes one batch. Answers how long to wait before the next.
    async fn batch(&mut self) -> Duration {
        let begun = self.clock.now().elapsed;
        let trim = Trim { after: self.after, older_than: self.keep, events_max: self.batch_events_max };
        let trimmed = match self.store.trim(trim).await {
            Ok(trimmed) => trimmed,
            Err(error) => {
                self.tell_trouble(&error);
                return self.rest;
            }
        };
        let took = self.clock.now().elapsed.saturating_sub(begun);
        let Trimmed { deleted, reached, more, held } = trimmed;
        self.trouble = None;
        self.after = reached;
        self.tell_held(held);
        if deleted > 0 {
            tracing::debug!(deleted, up_to = reached.get(), "delivered events deleted");
        }
        if more {
            let times = if self.is_busy() { PAUSE_WHILE_BUSY } else { PAUSE_WHILE_IDLE };
            return took.saturating_mul(times).max(PAUSE_MIN);
        }
        self.sweeps += 1;
        if self.sweeps >= SWEEPS_BEFORE_RESTART {
            (self.sweeps, self.after) = (0, Position::ZERO);
        }
        self.rest
    }

    /// Whether one of the subscriptions is led here. Who only stands by leaves the deleting to the leader.
    fn leads(&self) -> bool {
        self.handles.iter().any(|handle| handle.status().brain.leading.is_some())
    }

    /// Whether there is something to publish or to settle.
    fn is_busy(&self) -> bool {
        let busy = |handle: &Arc<Handle>| {
            let brain = handle.status().brain;
            brain.events_in_memory > 0 || brain.in_flight > 0 || brain.unsettled > 0
        };
        self.handles.iter().any(busy)
    }

    fn tell_trouble(&mut self, error: &Error) {
        let code = error.code();
        if code == Code::StoreBusy {
            tracing::debug!("deleting delivered events waits: {}", error.sentence());
        } else if self.trouble != Some(code) {
            tracing::warn!(%code, "delivered events are not deleted: {}", error.to_string().replace('\n', ";"));
            self.trouble = Some(code);
        }
    }

    fn tell_held(&mut self, held: Option<HeldBack>) {
        let name = held.as_ref().map(|held| held.subscription.clone());
        if name == self.held {
            return;
        }
        match held {
            Some(HeldBack { subscription, floor, oldest }) => tracing::warn!(
                subscription,
                floor = floor.get(),
                %oldest,
                "old events cannot be deleted: this subscription is not done with them"
            ),
            None => tracing::info!("no subscription keeps old events from being deleted any more"),
        }
        self.held = name;
    }
}
