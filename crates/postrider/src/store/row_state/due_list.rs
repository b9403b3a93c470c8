//! Which due rows a claimer hands out next.

use std::collections::{HashSet, VecDeque};

use super::term_rows::{RowId, TermRows};
#[cfg(feature = "mysql")]
use crate::Timestamp;

/// Due rows listed in one snapshot. They are handed out before the next snapshot is taken; see
/// adr/0020-row-state-store.md.
const LIST_ROWS_MAX: usize = 20_000;

/// Due rows of one snapshot, in their order.
#[derive(Debug, Clone)]
pub(crate) struct DueList {
    /// Rows to be handed out.
    list: VecDeque<RowId>,
    /// The table may have more due rows than the list.
    is_partial: bool,
}

/// A due row with what it is ordered by.
#[cfg(feature = "mysql")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueRow {
    /// `None` if the database has no valid time; it is first.
    pub(crate) due_at: Option<Timestamp>,
    /// The time of its event.
    pub(crate) time: Option<Timestamp>,
    /// The id of its event.
    pub(crate) event: String,
    pub(crate) id: RowId,
}

/// The rows that are due first, in the order of their events.
#[cfg(feature = "mysql")]
pub(crate) fn in_order(mut due: Vec<DueRow>, rows_max: usize) -> Vec<RowId> {
    let by_event = |a: &DueRow, b: &DueRow| a.time.cmp(&b.time).then_with(|| a.event.cmp(&b.event));
    if rows_max < due.len() {
        due.select_nth_unstable_by(rows_max, |a, b| a.due_at.cmp(&b.due_at).then_with(|| by_event(a, b)));
        due.truncate(rows_max);
    }
    due.sort_unstable_by(by_event);
    due.into_iter().map(|row| row.id).collect()
}

/// A request for a list of due rows.
#[derive(Debug)]
pub(crate) struct ListRequest {
    /// How many rows to list. Rows of the term may still be due in the table, so their number is added: they must
    /// not displace other rows.
    pub(crate) rows_max: usize,
    /// Rows that are handed out before the list is read. They may be settled meanwhile, and the list still shows them
    /// as due.
    handed_out: HashSet<RowId>,
}

impl ListRequest {
    /// Must be created before the list is read.
    pub(crate) fn of(known: &TermRows) -> Self {
        Self { rows_max: LIST_ROWS_MAX + known.len(), handed_out: known.handed_out() }
    }
}

impl DueList {
    /// Begins with the rows that are reserved for the first claim.
    pub(crate) fn new(known: &TermRows) -> Self {
        Self { list: known.reserved().collect(), is_partial: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Replaces the list.
    pub(crate) fn replace(
        &mut self,
        ids: impl ExactSizeIterator<Item = RowId>,
        request: &ListRequest,
        known: &TermRows,
    ) {
        self.is_partial = ids.len() >= request.rows_max;
        self.list = ids.filter(|id| !known.is_excluded(id) && !request.handed_out.contains(id)).collect();
    }

    /// The next rows to read.
    pub(crate) fn next(&self, events_max: usize) -> Vec<RowId> {
        self.list.iter().take(events_max.max(1)).cloned().collect()
    }

    /// Removes the rows that were read: those before the first one that exceeded the budget. Returns them.
    pub(crate) fn remove_read(&mut self, requested: Vec<RowId>, first_unread: Option<&RowId>) -> Vec<RowId> {
        let read: Vec<RowId> = requested.into_iter().take_while(|id| Some(id) != first_unread).collect();
        self.list.drain(..read.len());
        read
    }

    /// Discards the list, because the state of the requested rows is unknown.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.is_partial = true;
    }

    /// Whether there may be more due rows.
    pub(crate) fn has_more(&self) -> bool {
        !self.list.is_empty() || self.is_partial
    }
}

#[cfg(all(test, feature = "mysql"))]
mod tests {
    use super::*;

    fn due(due_at: i64, time: i64, event: &str) -> DueRow {
        let at = |micros| Some(Timestamp::from_micros(micros));
        DueRow {
            due_at: at(due_at),
            time: at(time),
            event: event.to_owned(),
            id: RowId::from(format!("{event}-{due_at}")),
        }
    }

    fn listed(rows: &[DueRow], rows_max: usize) -> Vec<String> {
        in_order(rows.to_vec(), rows_max).iter().map(|id| id.to_string()).collect()
    }

    #[test]
    fn rows_that_are_due_first_are_listed_in_the_order_of_their_events() {
        let rows = [due(3, 3, "c"), due(9, 1, "a"), due(5, 5, "e"), due(5, 5, "d"), due(4, 4, "x")];
        assert_eq!(
            listed(&rows, 9),
            ["a-9", "c-3", "x-4", "d-5", "e-5"],
            "the ids of events of one time have an order"
        );
        assert_eq!(listed(&rows, 5).len(), 5);
        assert_eq!(
            listed(&rows, 3),
            ["c-3", "x-4", "d-5"],
            "of those that are due at one time, the first events"
        );
        assert_eq!(listed(&rows, 0), [""; 0]);
    }

    #[test]
    fn a_row_without_a_valid_time_is_first() {
        let broken = DueRow { due_at: None, time: None, ..due(0, 0, "z") };
        assert_eq!(listed(&[due(1, 1, "a"), broken], 1), ["z-0"]);
    }
}
