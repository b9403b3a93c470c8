//! The statements, one file per layout, each with the same names.
//!
//! Their placeholders: `{schema}` and `{table}`; `{ids}`, a list of ids; `{rows_max}` and `{payload_max}`, numbers;
//! `{limit}`, the attempts after which the row `t` is given up; `{abandoned}`, whether the mark of another publisher on
//! the row `t` is abandoned. Only numbers and checked names are ever inserted into a statement.

mod custom;
mod event_outbox;
mod eventlog;
mod outbox_events;

use crate::layout::{RowLayout, RowTable};

/// How ids are written in statements and in Postrider's own tables.
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

    /// A list of ids for a statement: numbers, or texts in hexadecimal. An empty list becomes an id that does not
    /// exist.
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

/// The statement for the notifications of one handler of layout `eventlog`: those with its names, of types that it
/// knows.
pub(super) fn of_handler(statement: &str, table: &RowTable) -> String {
    let listed = |texts: &[String]| Ids::Texts.listed(texts.iter().map(String::as_str));
    let one = |pattern: &String| {
        format!("CONVERT(t.event_type USING utf8mb4) COLLATE utf8mb4_bin LIKE {}", literal(pattern))
    };
    let types = table.handler_like_patterns().map_or("TRUE".to_owned(), |types| match types.is_empty() {
        true => "FALSE".to_owned(),
        false => format!("({})", types.iter().map(one).collect::<Vec<_>>().join(" OR ")),
    });
    statement.replace("{names}", &listed(&table.handler_names())).replace("{types}", &types)
}

/// The statement for one subscription.
pub(super) fn of_subscription(statement: &str, subscription: &str) -> String {
    statement.replace("{subscription}", &literal(subscription))
}

/// A text literal: a UUID as it is, any other text in hexadecimal, so that no character needs quoting.
pub(super) fn literal(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if text.bytes().all(is_plain) {
        return format!("'{text}'");
    }
    let mut literal = String::with_capacity(2 * text.len() + 12);
    literal.push_str("_utf8mb4 X'");
    for byte in text.bytes() {
        literal.push(char::from(DIGITS[usize::from(byte >> 4)]));
        literal.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    literal.push('\'');
    literal
}

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    pub(super) ids: Ids,
    /// Due rows, at most `{rows_max}`; see [`List`].
    pub(super) list: List,
    /// Rows by `{ids}`, due or not, in any order. The columns are those that [`read`](super::read) reads.
    pub(super) read: &'static str,
    /// `read` returns its columns in binary form, and times as `DATETIME`. Numbers, texts and times that the server
    /// converts to text or to microseconds cost it more than the row itself; but a mapped column may have any type, and only
    /// text is read from all of them.
    pub(super) reads_binary: bool,
    /// Payloads by `{ids}`: id, payload.
    pub(super) payloads: &'static str,
    /// Reads rows by `{ids}` that are not delivered: id, attempts, the server's time. With a lock, it reserves them while they
    /// are published, if the layout has no state for that.
    pub(super) lock: Option<&'static str>,
    /// How rows are marked as being published, if the layout has a state for that.
    pub(super) marks: Option<Marks>,
    /// Record the outcomes done, retried, given up and unmarked; see [`settle`](super::settle). A statement with `{ids}` gets
    /// the ids of its rows there, some at a time; the others read them from a variable.
    pub(super) outcomes: [&'static str; 4],
    /// Notes with the state of their rows in the table.
    pub(super) notes: &'static str,
    /// Rows without a note whose next attempt is scheduled for later, if the table has a column for that.
    pub(super) scheduled: Option<&'static str>,
    /// Deletes rows that were delivered long ago, by any program. Every parameter is the same time, in microseconds
    /// since 1970.
    pub(super) delete_delivered: &'static str,
    /// Deletes rows that Postrider delivered, by the `{ids}` of their notes.
    pub(super) delete_own: &'static str,
    /// Rows that are neither done nor noted, counted up to `{rows_max}`: their number, and the creation time of the
    /// first.
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
    /// How events of another outbox are written to the table. Mapped tables are never written to.
    pub(super) adopt: AdoptSql,
}

/// How due rows are listed.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    /// Their ids, in their order.
    InOrder(&'static str),
    /// In any order, those of several states one after the other: id, time of the next attempt, time and id of the event. The
    /// relay takes the rows that are due first, and orders them by their events: the server would write them all into two
    /// temporary tables for that.
    ByEvent(&'static str),
}

impl List {
    pub(super) const fn statement(self) -> &'static str {
        match self {
            Self::InOrder(statement) | Self::ByEvent(statement) => statement,
        }
    }
}

/// The statements that moving events into the table needs, in addition to the writer's INSERT.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::mysql) struct AdoptSql {
    /// Deletes delivered rows with the event ids `{ids}`, if the table requires unique event ids. An event that returns
    /// to the table it came from would otherwise conflict with its old row.
    pub(in crate::store::mysql) delete_returned: Option<&'static str>,
    /// Records attempts: how many, limit, id. A row at its limit keeps one attempt; otherwise it would count as given
    /// up. Index: the primary key (id).
    pub(in crate::store::mysql) set_attempts: &'static str,
}

/// How events of another outbox are written to a table of this layout, if it exists on these servers.
pub(in crate::store::mysql) fn adopt(layout: RowLayout) -> Option<AdoptSql> {
    Sql::of(layout).map(|sql| sql.adopt)
}

/// How the newest rows that pass a filter are found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// Its placeholders: `{conditions}`, and `{index_hint}` if the layout needs one.
    pub(super) statement: &'static str,
    /// The conditions for an aggregate's type and id.
    pub(super) aggregate: [&'static str; 2],
    /// The condition for an action; empty if the layout has no index for it.
    pub(super) action: &'static str,
    /// The index to use, if the only index over times begins with the state.
    pub(super) by_state: Option<ByState>,
}

/// An index that begins with the state.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByState {
    pub(super) states: &'static [&'static str],
    pub(super) index: &'static str,
}

/// The statements about marks, in a layout with a state for rows that are being published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Locks those of `{ids}` that may be marked: id, attempts.
    pub(super) lock: &'static str,
    /// Marks `{ids}`, which are locked. One parameter: microseconds since 1970.
    pub(super) mark: &'static str,
    /// Removes the marks from rows that are not settled.
    pub(super) remove: &'static str,
    /// Rows that other publishers have marked: how many in the last ten minutes, and how many in total.
    pub(super) foreign: &'static str,
}

impl Sql {
    /// `None` if the layout does not exist on these servers.
    pub(super) const fn of(layout: RowLayout) -> Option<Self> {
        match layout {
            RowLayout::EventOutbox => Some(event_outbox::SQL),
            RowLayout::Eventlog => Some(eventlog::SQL),
            RowLayout::Outbox => None,
            RowLayout::OutboxEvents => Some(outbox_events::SQL),
            RowLayout::Custom => Some(custom::SQL),
        }
    }
}

/// The table, and what was found in the live table.
#[derive(Debug, Clone)]
pub(in crate::store::mysql) struct Names {
    pub(super) table: RowTable,
    /// It has the column `max_attempts`.
    pub(super) has_own_limit: bool,
}

impl Names {
    /// The statement with its placeholders replaced.
    pub(in crate::store::mysql) fn put_into(&self, statement: &str) -> String {
        let abandoned = match self.table.foreign_claim_timeout {
            Some(timeout) => format!(
                "(t.status = 'PUBLISHING' AND t.last_attempt_at < UTC_TIMESTAMP(6) - INTERVAL {} MICROSECOND)",
                i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX / 2)
            ),
            None => "FALSE".to_owned(),
        };
        self.table
            .put_into_mysql(statement)
            .replace("{limit}", &self.table.limit_of_row(self.has_own_limit))
            .replace("{abandoned}", &abandoned)
    }
}

/// The rows of an outcome: id, time of the mark, attempts when marked, new attempts, time of the next attempt.
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

/// The subscription of the table, if there is one.
macro_rules! subscription {
    () => {
        "(SELECT MIN(name) FROM {schema}.subscriptions) AS subscription"
    };
}

/// Deletes the rows of these notes. A row that was created more than a day after its note is another row with a reused
/// number. Indexes: the primary keys.
macro_rules! delete_own {
    ($row:literal, $is_done:literal, $created:literal) => {
        concat!(
            "DELETE t FROM {schema}.row_done AS n STRAIGHT_JOIN {table} AS t ON ",
            $row,
            " WHERE n.row_id IN ({ids}) AND ",
            $is_done,
            " AND COALESCE(",
            $created,
            " <= n.done_at + INTERVAL 1 DAY, TRUE)"
        )
    };
}

/// The number of open rows, and the creation time of the first.
macro_rules! backlog {
    (WHERE $is_open:literal) => {
        concat!(
            "SELECT (SELECT COUNT(*) FROM (SELECT t.id ",
            open!($is_open),
            " LIMIT {rows_max}) AS counted), (SELECT ",
            micros!("MIN(t.created_at)"),
            " ",
            open!($is_open),
            ")"
        )
    };
}

/// Rows that are neither done nor noted.
macro_rules! open {
    ($is_open:literal) => {
        concat!(
            "FROM {table} AS t WHERE (",
            $is_open,
            ") AND NOT EXISTS (SELECT 1 FROM {schema}.row_notes AS n WHERE n.row_id = t.id)"
        )
    };
}

/// The row's note does not schedule its next attempt for later.
macro_rules! backoff_is_over {
    () => {
        "NOT COALESCE(noted.next_attempt_at > UTC_TIMESTAMP(6), FALSE)"
    };
}

/// In a layout without marks there is none to remove.
const NOTHING_UNMARKED: &str = "SET @postrider_nothing = 0";

use super::super::row::micros;
use {backlog, backoff_is_over, delete_own, open, rows_of, subscription};
