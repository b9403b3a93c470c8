//! The statements, one file per layout, each with the same names.
//!
//! Beside `{schema}` and `{table}` they hold `{ids}`, numbers between commas; `{most}` and `{payload_max}`, numbers;
//! `{limit}`, tries after which the row `t` is given up; `{abandoned}`, whether the claim of somebody else on the row
//! `t` is over. Only numbers and checked names are ever written into a statement.

mod custom;
mod event_outbox;
mod outbox_events;

use crate::layout::RowLayout;

/// How ids stand in a statement and in our own tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    Numbers,
    Texts,
}

impl Ids {
    /// The type of a column that holds one.
    pub(super) const fn sql_type(self) -> &'static str {
        match self {
            Self::Numbers => "BIGINT",
            Self::Texts => "VARCHAR(255)",
        }
    }

    /// Ids as they stand in a statement: numbers, or texts by their bytes. There is always one that does not exist.
    pub(super) fn listed<'a>(self, ids: impl IntoIterator<Item = &'a str>) -> String {
        let ids = ids.into_iter();
        let list: Vec<String> = match self {
            Self::Numbers => {
                ids.filter_map(|id| id.parse::<i64>().ok()).map(|number| number.to_string()).collect()
            }
            Self::Texts => ids.map(literal).collect(),
        };
        let none = if self == Self::Numbers { "-1" } else { "NULL" };
        if list.is_empty() { none.to_owned() } else { list.join(",") }
    }
}

/// A text that needs no care for quotes.
fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("_utf8mb4 X'{hex}'")
}

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    pub(super) ids: Ids,
    /// Ids of due rows in their order: `{most}` of them.
    pub(super) list: &'static str,
    /// Rows by `{ids}`, due or not, in any order. The columns are those of [`read`](super::read).
    pub(super) read: &'static str,
    /// Payloads by `{ids}`: id, payload.
    pub(super) payloads: &'static str,
    /// How rows are marked as being published, where the layout can.
    pub(super) marks: Option<Marks>,
    /// Records outcomes, between the fence and the notes; see [`settle`](super::settle).
    pub(super) outcomes: [&'static str; 4],
    /// Noted rows beside what the table says of them; see [`load`](super::load).
    pub(super) load: &'static str,
    /// Rows without a note that must wait, where the table says so: id, key, attempts, time, creation.
    pub(super) waiting: Option<&'static str>,
    /// Deletes what is delivered and old, whichever program delivered it: microseconds since 1970, twice where two times count. Run one after the other; the
    /// most that one deletes counts.
    pub(super) trim: &'static [&'static str],
    /// What is neither done nor noted, up to `{most}`: their number, and the creation of the first.
    pub(super) backlog: &'static str,
    /// Creation of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state: pending, being published, failed and due again, given up, delivered; how many of those given up
    /// wait for a route; the creation of the first and the last that is undelivered. No index: all of the table is read.
    pub(super) counts: &'static str,
}

/// The statements about rows that say that they are being published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Locks those of `{ids}` that may be marked: id, count of attempts.
    pub(super) lock: &'static str,
    /// Marks `{ids}`, which are locked. One parameter: microseconds since 1970.
    pub(super) mark: &'static str,
    /// Gives back what was claimed and is not settled.
    pub(super) give_back: &'static str,
    /// Rows that somebody else is publishing: how many since ten minutes ago, and how many in all.
    pub(super) foreign: &'static str,
}

impl Sql {
    /// `None` where the seed has no such table.
    pub(super) const fn of(layout: RowLayout) -> Option<Self> {
        match layout {
            RowLayout::EventOutbox => Some(event_outbox::SQL),
            RowLayout::Outbox => None,
            RowLayout::OutboxEvents => Some(outbox_events::SQL),
            RowLayout::Custom => Some(custom::SQL),
        }
    }
}

/// Rows of an outcome: id, time and count of their claim, what they are to count, time of the next try.
macro_rules! rows_of {
    ($variable:literal) => {
        concat!(
            "JSON_TABLE(",
            $variable,
            ", '$[*]' COLUMNS (i BIGINT PATH '$.i', s BIGINT PATH '$.s', m BIGINT PATH '$.m', a BIGINT PATH '$.a',
                               n BIGINT PATH '$.n')) AS c
             STRAIGHT_JOIN {table} AS t ON t.id = c.i"
        )
    };
}
use super::super::row::micros;
use rows_of;
