//! How long delivered events stay, and the task that deletes them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::driver::DriverHandle;
use crate::layout::{Ability, ColumnMap, Field, RowTable};
use crate::store::{Purge, Purged, RetentionHold, RetentionScope, Store};
use crate::{Clock, Code, Error, Position, Result};

/// How long delivered events stay in an outbox, and how fast they are deleted.
///
/// An event is deleted when every subscription of the outbox has finished it and it is old enough according to its
/// `time` and the database's clock. Parked events, including dead ones, are not deleted. A subscription that no relay
/// serves any more keeps all events above its progress; the log and `status` report this.
///
/// Nothing is deleted from a table with a state per row unless a retention is set for it. Then
/// [`scope`](Self#structfield.scope) selects the rows, and their age counts from their delivery.
///
/// Every relay that leads a subscription of the outbox deletes. Several may do so concurrently: the database admits one
/// at a time, and each batch checks again what may be deleted.
///
/// ```
/// use std::time::Duration;
///
/// use postrider::relay::{Retention, RetentionScope};
///
/// let retention = Retention::keep_for(Duration::from_secs(24 * 60 * 60)).scope(RetentionScope::All);
/// assert_eq!(retention.scope, RetentionScope::All);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Delivered events older than this are deleted; `None`: never.
    pub keep: Option<Duration>,
    /// Delete at the row's `expires_at` instead of after `keep`. Only the layout `outbox` has this column.
    pub at_expiry: bool,
    /// Which rows of a table with a state per row may be deleted. Ignored for the layout `postrider`.
    pub scope: RetentionScope,
    /// Maximum number of events per batch, which is one short transaction.
    pub batch_events_max: usize,
    /// Delay before the first batch, and after all deletable events were deleted.
    pub interval: Duration,
}

impl Retention {
    /// Events are never deleted.
    pub const FOREVER: Self = Self { keep: None, ..Self::DEFAULT };

    /// Published rows of the layout `outbox` are deleted when their `expires_at` has passed.
    pub const EXPIRES_AT: Self = Self { keep: Some(Duration::ZERO), at_expiry: true, ..Self::DEFAULT };

    const DEFAULT: Self = Self {
        keep: Some(Duration::from_secs(7 * 24 * 60 * 60)),
        at_expiry: false,
        scope: RetentionScope::Own,
        batch_events_max: 2_000,
        interval: Duration::from_secs(60),
    };

    /// Delivered events are kept for this long.
    pub const fn keep_for(keep: Duration) -> Self {
        Self { keep: Some(keep), ..Self::DEFAULT }
    }

    /// Sets [`scope`](Self#structfield.scope).
    #[must_use]
    pub const fn scope(mut self, scope: RetentionScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets [`batch_events_max`](Self#structfield.batch_events_max).
    #[must_use]
    pub const fn batch_events_max(mut self, events: usize) -> Self {
        self.batch_events_max = events;
        self
    }

    /// Sets [`interval`](Self#structfield.interval).
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The default: seven days in the layout `postrider`, forever in a table with a state per row.
    pub fn default_for(table: Option<&RowTable>) -> Self {
        if table.is_some() { Self::FOREVER } else { Self::DEFAULT }
    }

    /// Rejects `at_expiry` if rows have no `expires_at`.
    ///
    /// # Errors
    /// [`Code::RetentionUnfit`].
    pub fn check(&self, table: Option<&RowTable>) -> Result<()> {
        let layout = table.map_or("postrider", |table| table.layout().name());
        if !self.at_expiry || table.is_some_and(|table| table.layout().has(Ability::Expiry)) {
            return Ok(());
        }
        let what =
            format!("retention = \"expires_at\" needs layout outbox, but this outbox has layout {layout}");
        Err(Error::new(Code::RetentionUnfit, what))
    }

    /// The time from which the age of a row counts. For rows delivered by other programs, only a column of the table
    /// can contain the time of delivery.
    fn counts_from(&self, table: &RowTable) -> &'static str {
        let lacks_delivery_time = match (table.layout(), table.columns()) {
            (_, Some(map)) => map.column(Field::DeliveredAt).is_none() && !map.only_notes_deliveries(),
            (layout, None) => !layout.has(Ability::DeliveryTime),
        };
        if self.scope == RetentionScope::All && lacks_delivery_time { "creation" } else { "delivery" }
    }

    /// A sentence about what is deleted and when; `None` if nothing is ever deleted.
    pub fn deletes(&self, table: Option<&RowTable>) -> Option<String> {
        let after = duration_text(self.keep?);
        let Some(table) = table else {
            return Some(format!(
                "events that every subscription has finished are deleted {after} after their creation"
            ));
        };
        if table.columns().is_some_and(ColumnMap::deletes_deliveries) {
            return None;
        }
        let name = table.full_name();
        let when = match self.at_expiry {
            true => "when their expires_at has passed".to_owned(),
            false => format!("{after} after their {}", self.counts_from(table)),
        };
        let mut what = match self.scope {
            RetentionScope::Own => format!(
                "rows of {name} that Postrider delivers from now on are deleted {when}; rows delivered by other \
                 programs, adopted rows and rows delivered before retention was set stay"
            ),
            RetentionScope::All => {
                format!(
                    "all delivered rows of {name} are deleted {when}, including those delivered by other programs"
                )
            }
        };
        if table.layout().has(Ability::Inbox) {
            what.push_str("; rows of processed_events are deleted when their expires_at has passed");
        }
        Some(what)
    }
}

impl Default for Retention {
    /// Seven days.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A duration in its largest whole unit.
fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let unit = [(86_400, "d"), (3_600, "h"), (60, "m")]
        .into_iter()
        .find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    match unit {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None if seconds > 0 => format!("{seconds}s"),
        None => format!("{}ms", time.as_millis()),
    }
}

/// Number of sweeps after which the next one starts at the first event again, for events that were still needed before.
const SWEEPS_BEFORE_RESTART: u32 = 60;

/// Number of deletions after which they are logged even if there are more to delete.
const LOG_AFTER_DELETED: u64 = 100_000;

/// Shortest pause between two batches.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The pause after a batch, as a multiple of the batch's duration: while there are events to publish, deletion takes a
/// tenth of the time, otherwise half.
const PAUSE_WHILE_BUSY: u32 = 9;
const PAUSE_WHILE_IDLE: u32 = 1;

/// Deletes delivered events of one outbox. Errors are logged and do not end it.
pub(super) struct Cleaner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The subscriptions of the outbox that this relay serves.
    handles: Vec<Arc<DriverHandle>>,
    /// The request for a batch.
    purge: Purge,
    interval: Duration,
    /// Events deleted since the last log line.
    deleted: u64,
    /// Events up to this position were checked.
    after: Position,
    sweeps: u32,
    /// The error that was logged last, so that it is logged once.
    logged_error: Option<Code>,
    /// The subscription that was logged last as blocking the retention, so that it is logged once.
    blocked_by: Option<String>,
}

impl Cleaner {
    /// `None` if everything is kept forever.
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        handles: Vec<Arc<DriverHandle>>,
        retention: &Retention,
    ) -> Option<Self> {
        Some(Self {
            store,
            clock,
            handles,
            purge: Purge {
                scope: retention.scope,
                at_expiry: retention.at_expiry,
                ..Purge::new(retention.keep?, retention.batch_events_max.max(1))
            },
            interval: retention.interval,
            deleted: 0,
            after: Position::ZERO,
            sweeps: 0,
            logged_error: None,
            blocked_by: None,
        })
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
            tokio::time::sleep(wait).await;
            wait = if self.leads() { self.batch().await } else { self.interval.max(PAUSE_MIN) };
        }
    }

    /// Deletes one batch. Returns how long to wait before the next.
    async fn batch(&mut self) -> Duration {
        let begun = self.clock.now().elapsed;
        let purge = Purge { after: self.after, ..self.purge };
        let purged = match self.store.purge(purge).await {
            Ok(purged) => purged,
            Err(error) => {
                self.log_deleted();
                self.log_error(&error);
                return self.interval;
            }
        };
        let took = self.clock.now().elapsed.saturating_sub(begun);
        let Purged { deleted, reached, more, held } = purged;
        self.logged_error = None;
        self.after = reached;
        self.log_blocked(held);
        self.deleted += deleted;
        if !more || self.deleted >= LOG_AFTER_DELETED {
            self.log_deleted();
        }
        if more {
            let times = if self.is_busy() { PAUSE_WHILE_BUSY } else { PAUSE_WHILE_IDLE };
            return took.saturating_mul(times).max(PAUSE_MIN);
        }
        self.sweeps += 1;
        if self.sweeps >= SWEEPS_BEFORE_RESTART {
            (self.sweeps, self.after) = (0, Position::ZERO);
        }
        self.interval
    }

    /// Whether this relay leads one of the subscriptions. A standby leaves deletion to the leader.
    fn leads(&self) -> bool {
        self.handles.iter().any(|handle| handle.status().state.leading.is_some())
    }

    /// Whether there are events to publish or to settle.
    fn is_busy(&self) -> bool {
        let busy = |handle: &Arc<DriverHandle>| {
            let state = handle.status().state;
            state.events_in_memory > 0 || state.in_flight > 0 || state.unsettled > 0
        };
        self.handles.iter().any(busy)
    }

    /// Logs how many events were deleted since the last log line, if any.
    fn log_deleted(&mut self) {
        let deleted = std::mem::take(&mut self.deleted);
        if deleted > 0 {
            let subscription =
                self.handles.iter().map(|handle| handle.status().subscription).collect::<Vec<_>>().join(", ");
            tracing::info!(deleted, subscription, "deleted delivered events older than the retention");
        }
    }

    fn log_error(&mut self, error: &Error) {
        let code = error.code();
        if code == Code::StoreBusy {
            tracing::debug!("retention is waiting: {}", error.one_line());
        } else if self.logged_error != Some(code) {
            let (what, hint) = (error.one_line(), error.hint());
            tracing::warn!(%code, hint, "delivered events are not deleted: {what}");
            self.logged_error = Some(code);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn nothing_in_a_table_with_a_state_per_row_is_deleted_by_default() {
        for layout in RowLayout::ALL {
            let table = RowTable::new(layout).unwrap();
            assert_eq!(Retention::default_for(Some(&table)).deletes(Some(&table)), None, "{}", layout.name());
        }
        let reported = Retention::default_for(None).deletes(None).unwrap();
        assert!(reported.contains("7d after their creation"), "{reported}");
    }

    #[test]
    fn the_description_names_what_is_deleted_and_when() {
        let table = RowTable::new(RowLayout::Outbox).unwrap();
        let own = Retention::EXPIRES_AT.deletes(Some(&table)).unwrap();
        assert!(own.contains("expires_at") && own.contains("processed_events"), "{own}");
        assert!(own.contains("rows delivered by other programs, adopted rows"), "{own}");
        let all = Retention::keep_for(Duration::from_secs(5_400)).scope(RetentionScope::All);
        let all = all.deletes(Some(&table)).unwrap();
        assert!(all.contains("all delivered rows of") && all.contains("90m after"), "{all}");
    }

    #[test]
    fn only_the_layout_outbox_supports_deletion_at_expiry() {
        let table = |layout| RowTable::new(layout).unwrap();
        assert!(Retention::EXPIRES_AT.check(Some(&table(RowLayout::Outbox))).is_ok());
        for other in [None, Some(table(RowLayout::EventOutbox)), Some(table(RowLayout::OutboxEvents))] {
            assert_eq!(Retention::EXPIRES_AT.check(other.as_ref()).unwrap_err().code(), Code::RetentionUnfit);
        }
    }
}
