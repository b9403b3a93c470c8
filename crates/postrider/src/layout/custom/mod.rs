//! A user-defined table, with a map that says which column holds what.
//!
//! What a table has no column for is kept in Postrider's own tables beside it. See
//! adr/0033-column-maps.md.

#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "only stores work by a map")
)]

mod check;
mod field;
mod name;
mod pieces;
#[cfg(feature = "_mysql")]
mod mysql;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "_sqlite")]
mod sqlite;

use std::collections::BTreeMap;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use check::{Times, length};
pub use field::Field;
pub use name::{ColumnName, StateWord};

use super::spec::{Inserts, LayoutSpec, Tables};
use crate::{Code, Error, Result};

/// All that is known without a map.
pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "custom",
    tables: Tables::NONE,
    states: &[],
    columns: &[],
    abilities: &[],
    inserts: Inserts::NONE,
};

/// Which column of a table holds what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap {
    columns: BTreeMap<Field, ColumnName>,
    states: Option<States>,
    /// What tells the type, where no column does.
    kind: Option<TypeFrom>,
    deletes: bool,
    /// What the live table has told; nothing before it was asked.
    found: Found,
}

/// Where the type of events comes from, if not from a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypeFrom {
    /// All have the same.
    Constant(StateWord),
    /// A member of the headers.
    Header(StateWord),
}

/// The words of a state column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct States {
    /// Of a row that waits.
    pub pending: StateWord,
    /// Other words of rows that wait. A row keeps the one it has until it is delivered or given up.
    pub also_pending: Vec<StateWord>,
    /// Of a row that was delivered.
    pub done: StateWord,
    /// Of a row that was given up. Without it such a row keeps the word it has, and our own tables tell.
    pub failed: Option<StateWord>,
}

/// How a row says that it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// By its state.
    Status,
    /// By the time of its delivery.
    Time,
    /// It is deleted.
    Deleted,
    /// It does not; a table of ours tells.
    Noted,
}

/// What statements must know of the types of columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Found {
    types: BTreeMap<Field, String>,
    /// Rows have a number of their own, whatever their key; only SQLite has such tables.
    has_rowid: bool,
    /// How the id is compared, where it is a text with a collation of its own: on MySQL and MariaDB.
    id_collation: Option<String>,
}

impl States {
    /// Whether a collation could take one for another.
    fn are_mixed_up(&self) -> bool {
        let mut words: Vec<String> = self.all().map(|word| word.as_str().to_ascii_lowercase()).collect();
        let given = words.len();
        words.sort_unstable();
        words.dedup();
        words.len() < given
    }

    /// The words of rows that wait.
    fn waiting(&self) -> impl Iterator<Item = &StateWord> {
        std::iter::once(&self.pending).chain(&self.also_pending)
    }

    fn all(&self) -> impl Iterator<Item = &StateWord> {
        self.waiting().chain([&self.done]).chain(&self.failed)
    }
}

impl ColumnMap {
    /// No column yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The columns that Debezium's outbox event router reads if nothing else is said: `id`, `aggregatetype`,
    /// `aggregateid`, `type`, `payload`. They tell no order and no state; [`with`](Self::with) names columns that do.
    pub fn debezium() -> Self {
        let columns = [
            (Field::Id, "id"),
            (Field::AggregateType, "aggregatetype"),
            (Field::AggregateId, "aggregateid"),
            (Field::Type, "type"),
            (Field::Payload, "payload"),
        ];
        columns.into_iter().fold(Self::new(), |map, (field, name)| map.with(field, name).unwrap_or_default())
    }

    /// This column holds it, instead of another.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if that cannot be a name of a column.
    pub fn with(mut self, field: Field, column: &str) -> Result<Self> {
        self.columns.insert(field, ColumnName::new(column)?);
        Ok(self)
    }

    /// All events have this type; the table has no column for it.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if it is longer than 63 bytes or has a quote, brace, backslash or control character.
    pub fn typed(mut self, event_type: &str) -> Result<Self> {
        self.kind = Some(TypeFrom::Constant(StateWord::of(event_type, "the type of all events")?));
        Ok(self)
    }

    /// The type of an event is in its [`Headers`](Field::Headers), under this name. A row without it is damaged, and
    /// parked.
    ///
    /// # Errors
    /// As [`typed`](Self::typed).
    pub fn typed_by_header(mut self, header: &str) -> Result<Self> {
        self.kind = Some(TypeFrom::Header(StateWord::of(header, "the name of a header")?));
        Ok(self)
    }

    /// The words of the column [`Status`](Field::Status).
    #[must_use]
    pub fn states(mut self, states: States) -> Self {
        self.states = Some(states);
        self
    }

    /// Rows are deleted when they are delivered.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.deletes = true;
        self
    }

    /// The column that holds it.
    pub fn column(&self, field: Field) -> Option<&ColumnName> {
        self.columns.get(&field)
    }

    /// Whether a column is named that orders rows.
    pub fn has_order(&self) -> bool {
        self.columns.contains_key(&Field::Order) || self.columns.contains_key(&Field::CreatedAt)
    }

    /// Whether rows stand in an order that the table tells: by such a column, or on SQLite by the number of the row,
    /// which grows with every INSERT.
    pub(crate) fn defines_order(&self) -> bool {
        self.has_order() || self.found.has_rowid
    }

    /// Refuses a map that tells too little, or one thing twice.
    pub(super) fn check(&self) -> Result<()> {
        let missing =
            Field::ALL.iter().find(|field| field.is_required() && !self.columns.contains_key(field));
        if let Some(field) = missing {
            let what = format!("no column is mapped for `{}`", field.name());
            return Err(Error::new(Code::NameInvalid, what).with_hint("add it to `columns`"));
        }
        let has = |field| self.columns.contains_key(&field);
        let wrong = match &self.states {
            _ if !has(Field::Type) && self.kind.is_none() => {
                "the type of events is unknown: map a column for `type`, or set `event_type` or `type_header`"
            }
            _ if has(Field::Type) && self.kind.is_some() => {
                "the type of events is defined twice: by a column for `type`, and by `event_type` or `type_header`"
            }
            _ if matches!(self.kind, Some(TypeFrom::Header(_))) && !has(Field::Headers) => {
                "the type of events is in a header, but no column is mapped for `headers`"
            }
            None if has(Field::Status) => "a column is mapped for `status`, but `states` is not set",
            Some(_) if !has(Field::Status) => "`states` is set, but no column is mapped for `status`",
            Some(states) if states.are_mixed_up() => {
                "two states have the same value, or values that differ only in case: each state needs a different value"
            }
            _ if has(Field::AggregateType) != has(Field::AggregateId) => {
                "`aggregate_type` and `aggregate_id` must be mapped together"
            }
            _ => return Ok(()),
        };
        Err(Error::new(Code::NameInvalid, wrong.to_owned()))
    }

    /// Whether rows do not say themselves that they were delivered.
    pub(crate) fn only_notes_deliveries(&self) -> bool {
        self.delivered() == Delivered::Noted
    }

    /// Whether rows are deleted when they are delivered.
    pub fn deletes_deliveries(&self) -> bool {
        self.delivered() == Delivered::Deleted
    }

    pub(crate) fn delivered(&self) -> Delivered {
        match () {
            () if self.deletes => Delivered::Deleted,
            () if self.columns.contains_key(&Field::Status) => Delivered::Status,
            () if self.columns.contains_key(&Field::DeliveredAt) => Delivered::Time,
            () => Delivered::Noted,
        }
    }

    /// The word of rows that were given up, if there is one.
    fn failed(&self) -> Option<&StateWord> {
        self.states.as_ref().and_then(|states| states.failed.as_ref())
    }

    /// All words for states.
    pub(crate) fn words(&self) -> impl Iterator<Item = &StateWord> {
        self.states.iter().flat_map(States::all)
    }

    fn type_of(&self, field: Field) -> &str {
        self.found.types.get(&field).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(pending: &str, done: &str) -> States {
        let word = |text| StateWord::new(text).unwrap();
        States { pending: word(pending), also_pending: Vec::new(), done: word(done), failed: None }
    }

    #[test]
    fn debeziums_columns_are_a_map_without_order_and_state() {
        let map = ColumnMap::debezium();
        map.check().unwrap();
        assert_eq!(map.column(Field::AggregateType).unwrap().as_str(), "aggregatetype");
        assert_eq!((map.has_order(), map.delivered()), (false, Delivered::Noted));
        let map = map.with(Field::CreatedAt, "timestamp").unwrap().deleting();
        assert_eq!((map.has_order(), map.delivered()), (true, Delivered::Deleted));
    }

    #[test]
    fn a_map_that_tells_too_little_or_one_thing_twice_is_refused() {
        let reported = |map: ColumnMap| map.check().unwrap_err().one_line();
        assert!(reported(ColumnMap::new()).contains("`id`"));
        let status = ColumnMap::debezium().with(Field::Status, "state").unwrap();
        assert!(reported(status.clone()).contains("`states` is not set"));
        assert!(reported(status.states(states("new", "NEW"))).contains("the same value"));
        assert!(
            reported(ColumnMap::debezium().states(states("new", "sent")))
                .contains("no column is mapped for `status`")
        );
        let mut untyped = ColumnMap::debezium();
        untyped.columns.remove(&Field::Type);
        assert!(reported(untyped.clone()).contains("the type of events is unknown"));
        untyped.clone().typed("order.placed").unwrap().check().unwrap();
        assert!(
            reported(untyped.typed_by_header("name").unwrap()).contains("no column is mapped for `headers`")
        );
        assert!(reported(ColumnMap::debezium().typed("order.placed").unwrap()).contains("defined twice"));
        let mut several = states("NEW", "SENT");
        several.also_pending = vec![StateWord::new("sent").unwrap()];
        let status = ColumnMap::debezium().with(Field::Status, "state").unwrap();
        assert!(reported(status.states(several)).contains("the same value"));
        let mut half = ColumnMap::debezium();
        half.columns.remove(&Field::AggregateId);
        assert!(reported(half).contains("must be mapped together"));
    }
}
