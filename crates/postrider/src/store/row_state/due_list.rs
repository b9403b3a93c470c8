//! Which due rows a claimer hands out next.

use std::collections::{HashSet, VecDeque};

use super::session_rows::{RowId, SessionRows};

/// Due rows listed in one snapshot. What one snapshot shows may be worked off before the next is taken; see
/// adr/0020-row-state-store.md.
const LIST_ROWS_MAX: usize = 20_000;

/// Due rows of one snapshot, in their order.
#[derive(Debug, Clone)]
pub(crate) struct DueList {
    /// Rows to be handed out.
    list: VecDeque<RowId>,
    /// There were more than the list took.
    is_cut: bool,
}

/// What a list is asked for with.
#[derive(Debug)]
pub(crate) struct ListRequest {
    /// How many rows to list. Rows of the session may still be due in the table. They are added, so that they hide no other row.
    pub(crate) most: usize,
    /// Some of these may be settled while the list is made, and it shows them as due.
    handed_out: HashSet<RowId>,
}

impl ListRequest {
    /// Made before the list is.
    pub(crate) fn of(known: &SessionRows) -> Self {
        Self { most: LIST_ROWS_MAX + known.len(), handed_out: known.handed_out() }
    }
}

impl DueList {
    /// Begins with the rows that are kept for the first claim.
    pub(crate) fn new(known: &SessionRows) -> Self {
        Self { list: known.reserved().collect(), is_cut: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes a new list of ids.
    pub(crate) fn take(
        &mut self,
        ids: impl ExactSizeIterator<Item = RowId>,
        asking: &ListRequest,
        known: &SessionRows,
    ) {
        self.is_cut = ids.len() >= asking.most;
        self.list = ids.filter(|id| !known.is_out(id) && !asking.handed_out.contains(id)).collect();
    }

    /// The next rows to read.
    pub(crate) fn next(&self, events_max: usize) -> Vec<RowId> {
        self.list.iter().take(events_max.max(1)).cloned().collect()
    }

    /// Everything up to the first that did not fit has been dealt with.
    pub(crate) fn pass(&mut self, asked: Vec<RowId>, left: Option<&RowId>) -> Vec<RowId> {
        let passed: Vec<RowId> = asked.into_iter().take_while(|id| Some(id) != left).collect();
        self.list.drain(..passed.len());
        passed
    }

    /// It is unknown what became of the rows that were asked for.
    pub(crate) fn forget(&mut self) {
        self.list.clear();
        self.is_cut = true;
    }

    /// The list is not at its end.
    pub(crate) fn has_more(&self) -> bool {
        !self.list.is_empty() || self.is_cut
    }
}
