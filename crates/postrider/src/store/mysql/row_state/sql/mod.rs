//! The statements, one file per layout, each with the same names.
//!
//! Beside `{schema}` and `{table}` they hold `{ids}`, numbers between commas; `{most}` and `{payload_max}`, numbers;
//! `{limit}`, tries after which the row `t` is given up; `{abandoned}`, whether the claim of another publisher on the row
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
    /// Deletes what is delivered and old, whichever program delivered it: microseconds since 1970, twice where two times count.
    pub(super) delete_delivered: &'static str,
    /// Deletes the rows of old notes, `{ids}`, that were delivered from here.
    pub(super) delete_own: &'static str,
    /// What is neither done nor noted, up to `{most}`: their number, and the creation of the first.
    pub(super) backlog: &'static str,
    /// Creation of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state: pending, being published, failed and due again, given up, delivered; how many of those given up
    /// wait for a route; the creation of the first and the last that is undelivered. No index: all of the table is read.
    pub(super) counts: &'static str,
    /// Makes the table of the layout.
    pub(super) create: Option<&'static str>,
    /// How rows are searched, where that is possible; see [`list`](super::list).
    pub(super) search: Option<Search>,
    /// The state of every row, as [`event_counts`](crate::store::event_counts) counts it. Index: none, the table is read.
    pub(super) event_states: &'static str,
    /// How events of another outbox are written to the table. No mapped table is written to.
    pub(super) adopt: Adopt,
}

/// What the table needs beside its writer, when events are handed over to it.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::mysql) struct Adopt {
    /// Deletes delivered rows with the ids of these events, `{ids}`: an event that came from this table and comes back finds
    /// the row it was handed over from.
    pub(in crate::store::mysql) make_way: Option<&'static str>,
    /// Records tries: how many, at most, id. A row that has used up its tries has one left, or it would count as given up.
    /// Index: the primary key (id).
    pub(in crate::store::mysql) tried: &'static str,
}

/// How events are handed over to a table of this layout, if it exists on these servers.
pub(in crate::store::mysql) fn adopt(layout: RowLayout) -> Option<Adopt> {
    Sql::of(layout).map(|sql| sql.adopt)
}

/// How the newest rows that pass a filter are found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// Its conditions are put in for `{asked}`, a hint about an index for `{forced}`.
    pub(super) statement: &'static str,
    /// The conditions for an aggregate's type and id.
    pub(super) aggregate: [&'static str; 2],
    /// Where the only index for times begins with the state.
    pub(super) by_state: Option<ByState>,
}

/// An index that begins with the state.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByState {
    pub(super) states: &'static [&'static str],
    pub(super) index: &'static str,
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
    /// Rows that another publisher is publishing: how many since ten minutes ago, and how many in all.
    pub(super) foreign: &'static str,
}

impl Sql {
    /// `None` where the layout has no such table.
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
/// The one subscription of the table, if it is there.
macro_rules! subscription {
    () => {
        "(SELECT MIN(name) FROM {schema}.subscriptions) AS subscription"
    };
}

/// Deletes the rows of these notes. A row that was made a day after its note is another one, under a number that was
/// given out again. Indexes: the primary keys.
macro_rules! delete_own {
    ($row:literal, $is_done:literal, $made:literal) => {
        concat!(
            "DELETE t FROM {schema}.row_done AS n STRAIGHT_JOIN {table} AS t ON ",
            $row,
            " WHERE n.row_id IN ({ids}) AND ",
            $is_done,
            " AND COALESCE(",
            $made,
            " <= n.done_at + INTERVAL 1 DAY, TRUE)"
        )
    };
}

use super::super::row::micros;
use rows_of;
use {delete_own, subscription};
