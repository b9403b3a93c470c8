//! How long delivered events stay, and how fast they are deleted.

use std::time::Duration;

use crate::clock::duration_text;
use crate::layout::{Ability, ColumnMap, MappedField, RowTable};
use crate::store::{InboxPurge, RetentionScope};
use crate::{Code, Error, Result};

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
    /// Rows of the inbox in the same database as the outbox stay at least this long, even if they have expired; `None`: as long as `keep`,
    /// so that the inbox remembers every event that this outbox can still deliver again. Not for `processed_events`, where
    /// `expires_at` alone decides.
    pub inbox_keep: Option<Duration>,
    /// Which expired inbox rows are deleted: [`Own`](RetentionScope::Own), those of Postrider's own inbox;
    /// [`All`](RetentionScope::All), also those of `processed_events`, which belongs to the owner of layout `outbox`.
    pub inbox_scope: RetentionScope,
    /// Maximum number of events per batch, which is one short transaction.
    pub batch_events_max: usize,
    /// Delay before the first batch, and after all deletable events were deleted.
    pub interval: Duration,
}

impl Retention {
    /// Events are never deleted. Expired rows of the inbox are.
    pub const FOREVER: Self = Self { keep: None, ..Self::DEFAULT };

    /// Published rows of the layout `outbox` are deleted when their `expires_at` has passed.
    pub const EXPIRES_AT: Self = Self { keep: Some(Duration::ZERO), at_expiry: true, ..Self::DEFAULT };

    const DEFAULT: Self = Self {
        keep: Some(Duration::from_secs(7 * 24 * 60 * 60)),
        at_expiry: false,
        scope: RetentionScope::Own,
        inbox_keep: None,
        inbox_scope: RetentionScope::All,
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

    /// Sets [`inbox_keep`](Self#structfield.inbox_keep).
    #[must_use]
    pub const fn inbox_keep_for(mut self, keep: Duration) -> Self {
        self.inbox_keep = Some(keep);
        self
    }

    /// Sets [`inbox_scope`](Self#structfield.inbox_scope).
    #[must_use]
    pub const fn inbox_scope(mut self, scope: RetentionScope) -> Self {
        self.inbox_scope = scope;
        self
    }

    /// The default: seven days in the layout `postrider`. From a table with a state per row, and from `processed_events`
    /// next to it, nothing is deleted unless a retention is set, even if that is [`FOREVER`](Self::FOREVER).
    pub fn default_for(table: Option<&RowTable>) -> Self {
        match table {
            Some(_) => Self { inbox_scope: RetentionScope::Own, ..Self::FOREVER },
            None => Self::DEFAULT,
        }
    }

    /// One batch of deleting expired rows of the inbox.
    pub fn inbox_purge(&self) -> InboxPurge {
        let rows_max = self.batch_events_max.max(1);
        InboxPurge { older_than: self.inbox_older_than(), rows_max, scope: self.inbox_scope }
    }

    /// How long rows of Postrider's own inbox stay at least.
    fn inbox_older_than(&self) -> Duration {
        self.inbox_keep.or(self.keep).unwrap_or_default()
    }

    /// Rejects `at_expiry` if rows have no `expires_at`, and an inbox that forgets events which this outbox keeps: if
    /// one of them was delivered again, it would have its effect again.
    ///
    /// # Errors
    /// [`Code::RetentionUnfit`], [`Code::PolicyInvalid`].
    pub fn check(&self, table: Option<&RowTable>) -> Result<()> {
        if let (Some(inbox), Some(keep)) = (self.inbox_keep, self.keep)
            && inbox < keep
        {
            let what = format!(
                "the inbox is kept for {}, but the events of this outbox for {}",
                duration_text(inbox),
                duration_text(keep)
            );
            return Err(Error::new(Code::PolicyInvalid, what)
                .with_hint("keep the inbox at least as long as the events: they may be delivered again"));
        }
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
            (_, Some(map)) => map.column(MappedField::DeliveredAt).is_none() && !map.only_notes_deliveries(),
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
        if self.deletes_processed(table) {
            what.push_str("; rows of processed_events are deleted when their expires_at has passed");
        }
        Some(what)
    }

    fn deletes_processed(&self, table: &RowTable) -> bool {
        self.inbox_scope == RetentionScope::All && table.layout().has(Ability::Inbox)
    }

    /// Which inbox rows will be deleted and when, in a sentence.
    pub fn deletes_from_inbox(&self, table: Option<&RowTable>) -> String {
        let processed = table.is_some_and(|table| self.deletes_processed(table));
        let tables = if processed { "the inbox and of processed_events" } else { "the inbox" };
        let age = match self.inbox_older_than() {
            Duration::ZERO => String::new(),
            age => format!(", {} after they were processed at the earliest", duration_text(age)),
        };
        format!("a relay deletes rows of {tables} when their expires_at has passed{age}")
    }
}

impl Default for Retention {
    /// Seven days.
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn nothing_in_a_table_with_a_state_per_row_is_deleted_by_default() {
        for &layout in RowLayout::ALL {
            let table = RowTable::new(layout);
            assert_eq!(Retention::default_for(Some(&table)).deletes(Some(&table)), None, "{}", layout.name());
        }
        let reported = Retention::default_for(None).deletes(None).unwrap();
        assert!(reported.contains("7d after their creation"), "{reported}");
    }

    #[test]
    fn the_description_names_what_is_deleted_and_when() {
        let table = RowTable::new(RowLayout::Outbox);
        let own = Retention::EXPIRES_AT.deletes(Some(&table)).unwrap();
        assert!(own.contains("expires_at") && own.contains("processed_events"), "{own}");
        assert!(own.contains("rows delivered by other programs, adopted rows"), "{own}");
        let all = Retention::keep_for(Duration::from_secs(5_400)).scope(RetentionScope::All);
        let all = all.deletes(Some(&table)).unwrap();
        assert!(all.contains("all delivered rows of") && all.contains("90m after"), "{all}");
    }

    #[test]
    fn expired_rows_of_processed_events_are_deleted_only_if_a_retention_is_set() {
        let table = RowTable::new(RowLayout::Outbox);
        let default = Retention::default_for(Some(&table)).deletes_from_inbox(Some(&table));
        assert_eq!(default, "a relay deletes rows of the inbox when their expires_at has passed");
        let forever = Retention::FOREVER.deletes_from_inbox(Some(&table));
        assert!(forever.contains("and of processed_events"), "{forever}");
        let ours = Retention::default_for(None).deletes_from_inbox(None);
        assert!(ours.contains("rows of the inbox when") && ours.contains("7d after they"), "{ours}");
    }

    #[test]
    fn an_inbox_that_forgets_events_which_the_outbox_keeps_is_refused() {
        let day = Duration::from_secs(86_400);
        let short = Retention::default().inbox_keep_for(6 * day);
        let error = short.check(None).unwrap_err();
        assert_eq!(error.code(), Code::PolicyInvalid);
        assert!(error.message().contains("6d") && error.message().contains("7d"), "{error}");
        assert!(Retention::default().inbox_keep_for(7 * day).check(None).is_ok());
        // How long events that are kept forever may come back is not known.
        assert!(Retention::FOREVER.inbox_keep_for(day).check(None).is_ok());
    }

    #[test]
    fn only_the_layout_outbox_supports_deletion_at_expiry() {
        let table = |layout| RowTable::new(layout);
        assert!(Retention::EXPIRES_AT.check(Some(&table(RowLayout::Outbox))).is_ok());
        for other in [None, Some(table(RowLayout::EventOutbox)), Some(table(RowLayout::OutboxEvents))] {
            assert_eq!(Retention::EXPIRES_AT.check(other.as_ref()).unwrap_err().code(), Code::RetentionUnfit);
        }
    }
}
