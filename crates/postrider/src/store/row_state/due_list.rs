//! Which due rows a claimer hands out next.

use std::collections::{HashSet, VecDeque};

use super::term_rows::{RowId, TermRows};

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
