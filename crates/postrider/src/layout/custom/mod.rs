//! A user-defined table, described by a column map.
//!
//! State for which the table has no column is kept in Postrider's own tables. See adr/0033-column-maps.md.

#![cfg_attr(not(feature = "_store"), allow(dead_code, reason = "only stores use column maps"))]

mod check;
mod mapped_field;
#[cfg(feature = "_mysql_driver")]
mod mysql;
mod name;
mod placeholders;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "_sqlite_driver")]
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "_store")]
pub(crate) use check::TimeColumns;
#[cfg(feature = "mysql")]
pub(crate) use check::length;
pub use mapped_field::MappedField;
pub use name::{ColumnName, StateWord};

use super::spec::{Inserts, LayoutSpec, Tables};
use crate::{Code, Error, Result};

/// The descriptor. The map describes the rest.
pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "custom",
    default_table: None,
    tables: Tables::NONE,
    states: &[],
    attempts: "",
    columns: &[],
    abilities: &[],
    inserts: Inserts::NONE,
};

/// Which column of a user-defined table contains what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap {
    columns: BTreeMap<MappedField, ColumnName>,
    states: Option<States>,
    /// The source of the event type, if no column contains it.
    event_type: Option<TypeSource>,
    deletes: bool,
    /// What was found in the live table; empty before it was inspected.
    found: Found,
}

/// The source of the event type, if no column contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypeSource {
    /// All events have this type.
    Constant(StateWord),
    /// The header with this name.
    Header(StateWord),
}

/// The values of a status column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct States {
    /// The value of a row that waits for delivery.
    pub pending: StateWord,
    /// Additional values of rows that wait. Such a row keeps its value until it is delivered or given up.
    pub also_pending: Vec<StateWord>,
    /// The value of a delivered row.
    pub done: StateWord,
    /// The value of a row that was given up. Without it, such a row keeps its value, and Postrider's own tables record
    /// it.
    pub failed: Option<StateWord>,
}

/// How the delivery of a row is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryRecord {
    /// By its status.
    Status,
    /// By the time of its delivery.
    Time,
    /// The row is deleted.
    Deleted,
    /// By a note in Postrider's own tables: the table has no column for it.
    Noted,
}

/// What was found in the live table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Found {
    types: BTreeMap<MappedField, String>,
    /// The table has a rowid; SQLite only.
    has_rowid: bool,
    /// The collation of the id column, if it is a text; MySQL and MariaDB only.
    id_collation: Option<String>,
}

impl States {
    /// Whether two values are equal, or would be equal under a collation that ignores case.
    fn are_ambiguous(&self) -> bool {
        let values: Vec<String> = self.all().map(|word| word.as_str().to_ascii_lowercase()).collect();
        values.iter().collect::<BTreeSet<_>>().len() < values.len()
    }

    /// The values of rows that wait.
    fn waiting(&self) -> impl Iterator<Item = &StateWord> {
        std::iter::once(&self.pending).chain(&self.also_pending)
    }

    fn all(&self) -> impl Iterator<Item = &StateWord> {
        self.waiting().chain([&self.done]).chain(&self.failed)
    }
}

impl ColumnMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The default columns of Debezium's outbox event router: `id`, `aggregatetype`, `aggregateid`, `type`, `payload`.
    /// They define neither an order nor a state; add columns for these with [`with`](Self::with).
    pub fn debezium() -> Self {
        let columns = [
            (MappedField::Id, "id"),
            (MappedField::AggregateType, "aggregatetype"),
            (MappedField::AggregateId, "aggregateid"),
            (MappedField::Type, "type"),
            (MappedField::Payload, "payload"),
        ];
        columns.into_iter().fold(Self::new(), |map, (field, name)| map.with(field, name).unwrap_or_default())
    }

    /// Maps a field to a column.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if this is not a valid [`ColumnName`].
    pub fn with(mut self, field: MappedField, column: &str) -> Result<Self> {
        self.columns.insert(field, ColumnName::new(column)?);
        Ok(self)
    }

    /// Sets the type of all events, for a table without a column for it.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if it is longer than 63 bytes or contains a quote, brace, backslash or control character.
    pub fn typed(mut self, event_type: &str) -> Result<Self> {
        self.event_type = Some(TypeSource::Constant(StateWord::of(event_type, "the type of all events")?));
        Ok(self)
    }

    /// Reads the type of an event from the header with this name, in its [`Headers`](MappedField::Headers). A row without it
    /// is parked as damaged.
    ///
    /// # Errors
    /// As [`typed`](Self::typed).
    pub fn typed_by_header(mut self, header: &str) -> Result<Self> {
        self.event_type = Some(TypeSource::Header(StateWord::of(header, "the name of a header")?));
        Ok(self)
    }

    /// Sets the values of the column [`Status`](MappedField::Status).
    #[must_use]
    pub fn states(mut self, states: States) -> Self {
        self.states = Some(states);
        self
    }

    /// Deletes rows when they are delivered.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.deletes = true;
        self
    }

    /// The column of a field.
    pub fn column(&self, field: MappedField) -> Option<&ColumnName> {
        self.columns.get(&field)
    }

    /// Whether a column that defines the order of rows is mapped.
    pub fn has_order(&self) -> bool {
        self.columns.contains_key(&MappedField::Order) || self.columns.contains_key(&MappedField::CreatedAt)
    }

    /// Whether the table defines the order of rows: by such a column, or on SQLite by the rowid, which grows with every
    /// INSERT.
    pub(crate) fn defines_order(&self) -> bool {
        self.has_order() || self.found.has_rowid
    }

    /// Refuses a map that is incomplete or contradicts itself.
    pub(super) fn check(&self) -> Result<()> {
        let missing =
            MappedField::ALL.iter().find(|field| field.is_required() && !self.columns.contains_key(field));
        if let Some(field) = missing {
            let what = format!("no column is mapped for `{}`", field.name());
            return Err(Error::new(Code::NameInvalid, what).with_hint("add it to `columns`"));
        }
        let has = |field| self.columns.contains_key(&field);
        let wrong = match &self.states {
            _ if !has(MappedField::Type) && self.event_type.is_none() => {
                "the type of events is unknown: map a column for `type`, or set `event_type` or `type_header`"
            }
            _ if has(MappedField::Type) && self.event_type.is_some() => {
                "the type of events is defined twice: by a column for `type`, and by `event_type` or `type_header`"
            }
            _ if matches!(self.event_type, Some(TypeSource::Header(_))) && !has(MappedField::Headers) => {
                "the type of events is in a header, but no column is mapped for `headers`"
            }
            None if has(MappedField::Status) => "a column is mapped for `status`, but `states` is not set",
            Some(_) if !has(MappedField::Status) => "`states` is set, but no column is mapped for `status`",
            Some(states) if states.are_ambiguous() => {
                "two states have the same value, or values that differ only in case: each state needs a different value"
            }
            _ if has(MappedField::AggregateType) != has(MappedField::AggregateId) => {
                "`aggregate_type` and `aggregate_id` must be mapped together"
            }
            _ => return Ok(()),
        };
        Err(Error::new(Code::NameInvalid, wrong.to_owned()))
    }

    /// Whether the table cannot show deliveries, so that only Postrider's notes record them.
    pub(crate) fn only_notes_deliveries(&self) -> bool {
        self.delivery_record() == DeliveryRecord::Noted
    }

    /// Whether rows are deleted when they are delivered.
    pub fn deletes_deliveries(&self) -> bool {
        self.delivery_record() == DeliveryRecord::Deleted
    }

    pub(crate) fn delivery_record(&self) -> DeliveryRecord {
        match () {
            () if self.deletes => DeliveryRecord::Deleted,
            () if self.columns.contains_key(&MappedField::Status) => DeliveryRecord::Status,
            () if self.columns.contains_key(&MappedField::DeliveredAt) => DeliveryRecord::Time,
            () => DeliveryRecord::Noted,
        }
    }

    /// The value of rows that were given up, if there is one.
    fn failed(&self) -> Option<&StateWord> {
        self.states.as_ref().and_then(|states| states.failed.as_ref())
    }

    /// All values of the status column.
    pub(crate) fn words(&self) -> impl Iterator<Item = &StateWord> {
        self.states.iter().flat_map(States::all)
    }

    fn type_of(&self, field: MappedField) -> &str {
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
    fn the_debezium_map_has_no_order_and_no_state() {
        let map = ColumnMap::debezium();
        map.check().unwrap();
        assert_eq!(map.column(MappedField::AggregateType).unwrap().as_str(), "aggregatetype");
        assert_eq!((map.has_order(), map.delivery_record()), (false, DeliveryRecord::Noted));
        let map = map.with(MappedField::CreatedAt, "timestamp").unwrap().deleting();
        assert_eq!((map.has_order(), map.delivery_record()), (true, DeliveryRecord::Deleted));
    }

    #[test]
    fn an_incomplete_or_contradictory_map_is_refused() {
        let reported = |map: ColumnMap| map.check().unwrap_err().one_line();
        assert!(reported(ColumnMap::new()).contains("`id`"));
        let status = ColumnMap::debezium().with(MappedField::Status, "state").unwrap();
        assert!(reported(status.clone()).contains("`states` is not set"));
        assert!(reported(status.states(states("new", "NEW"))).contains("the same value"));
        assert!(
            reported(ColumnMap::debezium().states(states("new", "sent")))
                .contains("no column is mapped for `status`")
        );
        let mut untyped = ColumnMap::debezium();
        untyped.columns.remove(&MappedField::Type);
        assert!(reported(untyped.clone()).contains("the type of events is unknown"));
        untyped.clone().typed("order.placed").unwrap().check().unwrap();
        assert!(
            reported(untyped.typed_by_header("name").unwrap()).contains("no column is mapped for `headers`")
        );
        assert!(reported(ColumnMap::debezium().typed("order.placed").unwrap()).contains("defined twice"));
        let mut several = states("NEW", "SENT");
        several.also_pending = vec![StateWord::new("sent").unwrap()];
        let status = ColumnMap::debezium().with(MappedField::Status, "state").unwrap();
        assert!(reported(status.states(several)).contains("the same value"));
        let mut half = ColumnMap::debezium();
        half.columns.remove(&MappedField::AggregateId);
        assert!(reported(half).contains("must be mapped together"));
    }
}
