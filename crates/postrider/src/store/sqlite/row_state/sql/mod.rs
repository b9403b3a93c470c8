//! The statements, one file per layout, each with the same names.
//!
//! Their placeholders: `{table}`; `{limit}`, the attempts after which the row `t` is given up; `{abandoned}`, whether
//! the mark of another publisher on the row `t` is abandoned. Rows are identified by their id as text.

mod custom;
mod outbox_events;

use crate::layout::{RowLayout, RowTable};

/// A time of the table as microseconds since 1970.
macro_rules! micros {
    ($time:literal) => {
        concat!("CAST(round((julianday(", $time, ") - 2440587.5) * 86400000) AS INTEGER) * 1000")
    };
}

use micros;

/// The row's note does not schedule its next attempt for later.
macro_rules! backoff_is_over {
    () => {
        concat!("NOT coalesce(noted.next_attempt_at > ", micros!("'now'"), ", 0)")
    };
}
use backoff_is_over;

/// The subscription of the table, if there is one.
macro_rules! subscription {
    () => {
        "(SELECT min(name) FROM postrider_row_subscriptions) AS subscription"
    };
}
use subscription;

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    /// Ids of due rows in their order, at most `?1`.
    pub(super) list: &'static str,
    /// The row `?1`, due or not. The columns are those that [`read`](super::read) reads.
    pub(super) read: &'static str,
    /// How rows are marked as being published, if the layout has a state for that.
    pub(super) marks: Option<Marks>,
    /// Record that a row is done, retried, given up, unmarked: `?1` its id, `?2` and `?3` time and attempts of its
    /// mark, `?4` its new count of attempts. An empty statement changes nothing.
    pub(super) outcomes: [&'static str; 4],
    /// Notes with the state of their rows in the table.
    pub(super) notes: &'static str,
    /// Deletes rows that were delivered before `?1`, by any program, at most `?2`.
    pub(super) delete_delivered: &'static str,
    /// Deletes the row `?1` that Postrider delivered at `?2`. A row that was created more than a day later is another
    /// row with a reused number.
    pub(super) delete_own: &'static str,
    /// Rows that are neither done nor noted, counted up to `?1`: their number, and the creation time of the first.
    pub(super) backlog: &'static str,
    /// Creation time of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state, as [`RowCounts`](crate::store::row_state::dialect::RowCounts) lists them. No index: the whole
    /// table is read.
    pub(super) counts: &'static str,
    /// Creates the table of the layout.
    pub(super) create: Option<&'static str>,
    /// How rows are searched, if the layout supports it; see [`list`](super::list).
    pub(super) search: Option<Search>,
    /// The state of every row, for [`event_counts`](crate::store::event_counts). No index: the whole table is read.
    pub(super) event_states: &'static str,
}

/// The newest rows that pass a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    pub(super) all: &'static str,
    /// Rows in the state `?6` only.
    pub(super) of_state: &'static str,
}

/// The statements about marks, in a layout with a state for rows that are being published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Marks the row `?1`, which was read with `?2` attempts, at `?3`.
    pub(super) mark: &'static str,
    /// Removes the marks from rows that are not settled.
    pub(super) remove: &'static str,
    /// Rows that other publishers have marked: how many in the last ten minutes, and how many in total.
    pub(super) foreign: &'static str,
}

/// The table, its statements, and what was found in the live table.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) table: RowTable,
    /// It has the column `max_attempts`.
    pub(super) has_own_limit: bool,
    pub(super) sql: Sql,
}

impl Sql {
    /// `None` if the layout does not exist on SQLite.
    pub(super) const fn of(layout: RowLayout) -> Option<Self> {
        match layout {
            RowLayout::OutboxEvents => Some(outbox_events::SQL),
            RowLayout::Custom => Some(custom::SQL),
            RowLayout::EventOutbox | RowLayout::Eventlog | RowLayout::Outbox => None,
        }
    }
}

impl Names {
    /// The statement with its placeholders replaced.
    pub(super) fn put_into(&self, statement: &str) -> String {
        let abandoned = match self.table.foreign_claim_timeout {
            Some(timeout) => format!(
                "(t.status = 'PUBLISHING' AND t.last_attempt_at < datetime('now', '-{} seconds'))",
                timeout.as_secs()
            ),
            None => "0".to_owned(),
        };
        self.table
            .put_into_sqlite(statement)
            .replace("{limit}", &self.table.limit_of_row(self.has_own_limit))
            .replace("{abandoned}", &abandoned)
    }
}
