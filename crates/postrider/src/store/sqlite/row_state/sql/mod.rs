//! The statements, one file per layout, each with the same names.
//!
//! Beside `{table}` they hold `{limit}`, tries after which the row `t` is given up, and `{abandoned}`, whether the claim
//! of another process on the row `t` is over. Rows are known by their id as text.

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

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    /// Ids of due rows in their order: `?1` of them.
    pub(super) list: &'static str,
    /// The row `?1`, due or not. The columns are those of [`read`](super::read).
    pub(super) read: &'static str,
    /// How rows are marked as being published, where the layout can.
    pub(super) marks: Option<Marks>,
    /// Records that a row was delivered, tried, given up, given back: `?1` its id, `?2` and `?3` time and count of its
    /// claim, `?4` what it is to count. An empty one changes nothing.
    pub(super) outcomes: [&'static str; 4],
    /// Noted rows beside what the table says of them; see [`load`](super::load).
    pub(super) load: &'static str,
    /// Deletes what is delivered, whichever program delivered it, and older than `?1`, `?2` at most.
    pub(super) delete_delivered: &'static str,
    /// Deletes the row `?1`, delivered from here at `?2`. One that was made a day after its note is another one, under a
    /// number that was given out again.
    pub(super) delete_own: &'static str,
    /// What is neither done nor noted, up to `?1`: their number, and the creation of the first.
    pub(super) backlog: &'static str,
    /// Creation of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state: pending, being published, failed and due again, given up, delivered, those given up that wait for
    /// a route, and the creation of the first and last that is undelivered. No index: all of the table is read.
    pub(super) counts: &'static str,
    /// Makes the table of the layout.
    pub(super) create: Option<&'static str>,
    /// How rows are searched, where that is possible; see [`list`](super::list).
    pub(super) search: Option<Search>,
    /// The state of every row, as [`event_counts`](crate::store::event_counts) counts it. Index: none, the table is read.
    pub(super) event_states: &'static str,
}

/// The newest rows that pass a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    pub(super) all: &'static str,
    /// Of one state, `?6`.
    pub(super) of_state: &'static str,
}

/// The statements about rows that say that they are being published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Marks the row `?1` that was seen with `?2` attempts, at `?3`.
    pub(super) mark: &'static str,
    /// Gives back what was claimed and is not settled.
    pub(super) give_back: &'static str,
    /// Rows that another publisher is publishing: how many since ten minutes ago, and how many in all.
    pub(super) foreign: &'static str,
}

/// The table, and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) table: RowTable,
    /// It has the column `max_attempts`.
    pub(super) has_own_limit: bool,
    pub(super) sql: Sql,
}

impl Sql {
    /// `None` where the layout does not exist on SQLite.
    pub(super) const fn of(layout: RowLayout) -> Option<Self> {
        match layout {
            RowLayout::OutboxEvents => Some(outbox_events::SQL),
            RowLayout::Custom => Some(custom::SQL),
            RowLayout::EventOutbox | RowLayout::Outbox => None,
        }
    }
}

impl Names {
    /// The statement with all of it put in.
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
