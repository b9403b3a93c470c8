//! Retention: which delivered events may be deleted, and which subscription prevents the deletion of others.
//!
//! The rules are the same for every store. An event may be deleted if its position is at or below the floor of every
//! subscription, it is old enough, no subscription has parked it in any state, and it is not the highest event that a
//! subscription has seen, by which a changed history is detected.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::clock::micros;
use crate::{Position, Timestamp};

/// A request to delete one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge {
    /// Only positions above this one are examined: the end of the previous batch.
    pub after: Position,
    /// The minimum age, by the event's `time` and the database's clock; in a table with a state per row, the time since
    /// the delivery.
    pub older_than: Duration,
    /// Instead of an age: only events before this time. A time in the future counts as the present.
    pub before: Option<Timestamp>,
    /// The maximum number of events to examine, and so to delete.
    pub events_max: usize,
    /// Which rows of a table with a state per row. Without meaning for the layout `postrider`.
    pub scope: RetentionScope,
    /// The row's `expires_at` decides instead of `older_than`. Only the layout `outbox` has that column.
    pub at_expiry: bool,
}

/// Which delivered rows of a table with a state per row retention may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RetentionScope {
    /// Rows that a relay delivered while retention was configured. Adopted rows, and rows that another publisher
    /// delivered, stay.
    #[default]
    Own,
    /// Every row whose state is delivered, whichever program delivered it.
    All,
}

/// One batch of deleting from the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxPurge {
    /// Only what was processed longer ago than this, even if it has expired. It does not apply to `processed_events`.
    pub older_than: Duration,
    /// Rows deleted at most, from each table.
    pub rows_max: usize,
    /// [`RetentionScope::All`]: also from `processed_events`, if the layout has it.
    pub scope: RetentionScope,
}

/// The result of [`Store::purge_inbox`](super::Store::purge_inbox).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InboxPurged {
    /// Rows deleted.
    pub deleted: u64,
    /// The batch was full: there may be more to delete now.
    pub more: bool,
}

impl InboxPurge {
    /// What the statement of a store is given: microseconds, and rows.
    #[cfg(feature = "_store")]
    pub(crate) fn limits(&self) -> (i64, i64) {
        (crate::inbox::retention_micros(self.older_than), super::row_limit(self.rows_max))
    }

    /// The answer, after this number of rows was deleted from a table.
    #[cfg(feature = "_store")]
    pub(crate) fn deleted(&self, deleted: u64) -> InboxPurged {
        InboxPurged { deleted, more: deleted >= self.rows_max as u64 }
    }
}

impl InboxPurged {
    /// Both.
    #[cfg(feature = "postgres")]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { deleted: self.deleted + other.deleted, more: self.more || other.more }
    }
}

/// The result of [`Store::purge`](super::Store::purge).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// Events deleted.
    pub deleted: u64,
    /// Every position up to this one was examined: the next batch begins after it.
    pub reached: Position,
    /// The batch was full: there may be more to delete now.
    pub more: bool,
    /// The subscription that prevents the deletion of old events, if there is one.
    pub held: Option<RetentionHold>,
}

/// A subscription that still needs events older than the retention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionHold {
    /// Its name: the subscription with the lowest floor.
    pub subscription: String,
    /// Every position up to this one is done.
    pub floor: Position,
    /// The time of the first event above its floor, which is older than the retention.
    pub oldest: Timestamp,
}

/// The positions of one subscription that limit retention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeBound {
    /// Its name.
    pub subscription: String,
    /// Every position up to this one is done.
    pub floor: Position,
    /// The position of the highest event it has seen.
    pub highest: Option<Position>,
}

/// The result of [`Purge::plan`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgePlan {
    /// The positions to delete, ascending.
    pub expired: Vec<Position>,
    /// Every position up to this one was examined.
    pub reached: Position,
    /// There may be more above it.
    pub more: bool,
}

impl PurgeBound {
    /// The bound with the lowest floor: nothing above that floor may be deleted. Without subscriptions, nothing may be
    /// deleted, because no event is known to be delivered.
    pub fn lowest(all: &[Self]) -> Option<&Self> {
        all.iter().min_by_key(|bound| bound.floor)
    }

    /// This subscription as a hold, if the first event above its floor is older than the cutoff.
    pub fn held_back(&self, first_above: Option<Timestamp>, cutoff: Timestamp) -> Option<RetentionHold> {
        let oldest = first_above.filter(|time| *time < cutoff)?;
        Some(RetentionHold { subscription: self.subscription.clone(), floor: self.floor, oldest })
    }
}

impl Purge {
    /// A first batch of events older than this.
    pub const fn new(older_than: Duration, events_max: usize) -> Self {
        Self {
            after: Position::ZERO,
            older_than,
            before: None,
            events_max,
            scope: RetentionScope::Own,
            at_expiry: false,
        }
    }

    /// Only events before this time may be deleted.
    pub fn cutoff(&self, now: Timestamp) -> Timestamp {
        if let Some(before) = self.before {
            return before.min(now);
        }
        let micros = micros(self.older_than);
        Timestamp::from_micros(now.as_micros().saturating_sub(micros))
    }

    /// Decides which of `rows` to delete: the first `events_max` events above `after` and up to the lowest floor, with
    /// their times, ascending. `kept` are the positions that are still needed.
    ///
    /// The first event that is too young ends the batch: later events are usually younger, and the time has no index.
    /// An event with a time in the future does not end the batch: it is kept and skipped, so that one wrong clock does
    /// not stop retention.
    pub fn plan(
        &self,
        now: Timestamp,
        rows: &[(Position, Timestamp)],
        kept: &BTreeSet<Position>,
    ) -> PurgePlan {
        let cutoff = self.cutoff(now);
        let mut plan =
            PurgePlan { expired: Vec::new(), reached: self.after, more: rows.len() >= self.events_max };
        for (position, time) in rows {
            if (cutoff..=now).contains(time) {
                plan.more = false;
                break;
            }
            plan.reached = *position;
            if *time < cutoff && !kept.contains(position) {
                plan.expired.push(*position);
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn choose(events_max: usize, rows: &[(i64, i64)], kept: &[i64]) -> (Vec<i64>, i64, bool) {
        let purge = Purge { after: Position::new(3), ..Purge::new(Duration::from_micros(100), events_max) };
        let rows: Vec<_> =
            rows.iter().map(|(at, time)| (Position::new(*at), Timestamp::from_micros(*time))).collect();
        let kept = kept.iter().map(|at| Position::new(*at)).collect();
        let PurgePlan { expired, reached, more } = purge.plan(NOW, &rows, &kept);
        (expired.into_iter().map(Position::get).collect(), reached.get(), more)
    }

    #[test]
    fn old_events_are_deleted_up_to_the_first_young_one() {
        assert_eq!(choose(9, &[(4, 1), (5, 899), (6, 900), (7, 1)], &[]), (vec![4, 5], 5, false));
        assert_eq!(choose(2, &[(4, 1), (5, 899)], &[]), (vec![4, 5], 5, true));
        assert_eq!(choose(2, &[], &[]), (vec![], 3, false));
    }

    #[test]
    fn events_that_are_still_needed_are_skipped() {
        assert_eq!(choose(3, &[(4, 1), (5, 1), (6, 1)], &[4, 6]), (vec![5], 6, true));
    }

    #[test]
    fn an_event_from_the_future_is_kept_and_does_not_end_the_batch() {
        assert_eq!(choose(9, &[(4, i64::MAX), (5, 1), (6, 1_000), (7, 1)], &[]), (vec![5], 5, false));
    }

    #[test]
    fn an_absolute_time_is_exact_and_never_in_the_future() {
        let at = Timestamp::from_micros;
        let purge = |before| Purge { before: Some(at(before)), ..Purge::new(Duration::MAX, 9) };
        let rows = [(Position::new(1), at(499)), (Position::new(2), at(500))];
        assert_eq!(purge(500).plan(NOW, &rows, &BTreeSet::new()).expired, [Position::new(1)]);
        assert_eq!(purge(5_000).cutoff(NOW), NOW);
    }

    #[test]
    fn the_longest_retention_deletes_nothing() {
        let purge = Purge::new(Duration::MAX, 9);
        let rows = [(Position::new(1), Timestamp::from_micros(-5))];
        assert_eq!(purge.plan(NOW, &rows, &BTreeSet::new()).expired, []);
    }
}
