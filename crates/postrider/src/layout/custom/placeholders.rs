//! The placeholders `{c....}` of statements about a user-defined table. In a statement, `t` is a row of the table and
//! `n` a note.
//!
//! Expressions that every database has, each in its own [`Syntax`], are built here. The statements that change rows
//! differ too much and are built per database.

use super::{ColumnMap, ColumnName, DeliveryRecord, MappedField, StateWord, States, TypeSource};
use crate::layout::Family;

/// A note about a row that was given up.
const GIVEN_UP: &str = "n.state IN ('dead', 'expired', 'unrouted')";

/// A placeholder, and the text that replaces it.
pub(super) type Placeholder = (&'static str, String);

/// The syntax of a database for expressions that every database has.
pub(super) trait Syntax {
    /// Postrider's table of notes.
    const NOTES: &'static str;
    /// Postrider's table of delivered rows.
    const DONE: &'static str;
    /// NULL as a text, a number, a time.
    const NULLS: [&'static str; 3];
    /// The time 1970-01-01 00:00:00 UTC.
    const EPOCH: &'static str;
    /// The prefix of a column in a SET clause.
    const SET: &'static str;
    const TRUE: &'static str;
    const FALSE: &'static str;

    fn name(column: &ColumnName) -> String;
    fn text(value: &str) -> String;
    fn number(value: &str) -> String;
    /// A time, from a column of this type.
    fn time(value: &str, sql_type: &str) -> String;
    /// A number of microseconds since 1970, as a time.
    fn time_of_number(value: &str) -> String;
    /// A member of a JSON object; NULL if there is none.
    fn member(value: &str, name: &StateWord) -> String;
    /// The statements that change rows, and their order. They may contain other placeholders.
    fn statements(map: &ColumnMap) -> Vec<Placeholder>;
    /// The id of a row as text, if its key has two columns.
    fn id_text(_: &ColumnMap) -> Option<String> {
        None
    }
    /// Converts an id as text to the type of the id column.
    fn as_id(map: &ColumnMap, value: &str) -> String;
}

/// The statement with every `{c....}` replaced.
pub(super) fn put_into<T: Syntax>(map: &ColumnMap, statement: &str) -> String {
    let mut text = statement.to_owned();
    // Placeholders whose text contains others come first.
    for (name, replacement) in
        T::statements(map).into_iter().chain(conditions::<T>(map)).chain(values::<T>(map))
    {
        if text.contains(name) {
            text = text.replace(name, &replacement);
        }
    }
    text
}

/// Conditions about the state of a row.
fn conditions<T: Syntax>(map: &ColumnMap) -> [Placeholder; 6] {
    let (status, time) = (quoted::<T>(map, MappedField::Status), quoted::<T>(map, MappedField::DeliveredAt));
    let noted = format!("(SELECT 1 FROM {} AS d WHERE d.row_id = {{c.id_text}})", T::DONE);
    let (pending, done) = match (map.delivery_record(), &map.states) {
        (DeliveryRecord::Status, Some(states)) => {
            (format!("t.{status} {}", waiting(states)), format!("t.{status} = {}", states.done))
        }
        (DeliveryRecord::Time, _) => (format!("t.{time} IS NULL"), format!("t.{time} IS NOT NULL")),
        (DeliveryRecord::Noted, _) => (format!("NOT EXISTS {noted}"), format!("EXISTS {noted}")),
        // Every row that exists is pending, unless its status shows otherwise.
        (_, Some(states)) => (format!("t.{status} {}", waiting(states)), T::FALSE.to_owned()),
        _ => (T::TRUE.to_owned(), T::FALSE.to_owned()),
    };
    // A row whose status the map does not name belongs to another process.
    let is_open = match map.failed() {
        Some(word) => format!("({pending} OR t.{status} = {word})"),
        None => format!("({pending})"),
    };
    let was_given_up = match map.failed() {
        Some(_) => "{c.is_given_up}",
        None => "NOT ({c.is_not_given_up})",
    };
    let given_up_at = read::<T>(map, MappedField::GivenUpAt);
    let (given_up, not_given_up) = match (map.failed(), given_up_at) {
        (Some(word), _) => (format!("t.{status} = {word}"), T::TRUE.to_owned()),
        (None, Some(time)) => (format!("{time} IS NOT NULL"), format!("{time} IS NULL")),
        (None, None) => (
            GIVEN_UP.to_owned(),
            format!(
                "NOT EXISTS (SELECT 1 FROM {} AS n WHERE n.row_id = {{c.id_text}} AND {GIVEN_UP})",
                T::NOTES
            ),
        ),
    };
    [
        // For statements without a note `n`.
        ("{c.was_given_up}", was_given_up.to_owned()),
        ("{c.is_open}", is_open),
        ("{c.is_pending}", pending),
        ("{c.is_done}", done),
        ("{c.is_given_up}", given_up),
        ("{c.is_not_given_up}", not_given_up),
    ]
}

/// Values of a row.
fn values<T: Syntax>(map: &ColumnMap) -> [Placeholder; 16] {
    let [no_text, no_number, no_time] = T::NULLS;
    let text = |field| read::<T>(map, field).map_or_else(|| no_text.to_owned(), |value| T::text(&value));
    let number = |field| read::<T>(map, field).map(|value| T::number(&value));
    // In a key of two columns, neither identifies the event.
    let is_one = map.column(MappedField::SecondId).is_none();
    let id = if is_one && map.column(MappedField::EventId).is_none() {
        MappedField::Id
    } else {
        MappedField::EventId
    };
    let noted =
        || format!("COALESCE((SELECT n.attempts FROM {} AS n WHERE n.row_id = {{c.id_text}}), 0)", T::NOTES);
    [
        ("{c.event_id}", text(id)),
        ("{c.type}", event_type::<T>(map)),
        ("{c.aggregate_type}", text(MappedField::AggregateType)),
        ("{c.aggregate_id}", text(MappedField::AggregateId)),
        ("{c.key}", text(MappedField::Key)),
        ("{c.headers}", text(MappedField::Headers)),
        ("{c.topic}", text(MappedField::Topic)),
        ("{c.max_attempts}", number(MappedField::MaxAttempts).unwrap_or_else(|| no_number.to_owned())),
        ("{c.attempts}", number(MappedField::Attempts).unwrap_or_else(noted)),
        ("{c.created}", time::<T>(map, MappedField::CreatedAt).unwrap_or_else(|| no_time.to_owned())),
        ("{c.rank}", rank::<T>(map)),
        ("{c.notes}", T::NOTES.to_owned()),
        ("{c.payload}", quoted::<T>(map, MappedField::Payload)),
        ("{c.id_text}", T::id_text(map).unwrap_or_else(|| text(MappedField::Id))),
        ("{c.row_id}", T::as_id(map, "n.row_id")),
        ("{c.id}", quoted::<T>(map, MappedField::Id)),
    ]
}

pub(super) fn quoted<T: Syntax>(map: &ColumnMap, field: MappedField) -> String {
    map.column(field).map_or_else(|| "NULL".to_owned(), T::name)
}

fn read<T: Syntax>(map: &ColumnMap, field: MappedField) -> Option<String> {
    map.column(field).map(|column| format!("t.{}", T::name(column)))
}

/// The time in a column.
pub(super) fn time<T: Syntax>(map: &ColumnMap, field: MappedField) -> Option<String> {
    read::<T>(map, field).map(|value| T::time(&value, map.type_of(field)))
}

/// `= 'value'`, or `IN (...)` for several values.
fn waiting(states: &States) -> String {
    let words: Vec<String> = states.waiting().map(ToString::to_string).collect();
    match words.as_slice() {
        [word] => format!("= {word}"),
        words => format!("IN ({})", words.join(", ")),
    }
}

/// The type of the event.
fn event_type<T: Syntax>(map: &ColumnMap) -> String {
    match (&map.event_type, read::<T>(map, MappedField::Headers)) {
        (Some(TypeSource::Constant(word)), _) => T::text(&word.to_string()),
        (Some(TypeSource::Header(name)), Some(headers)) => T::text(&T::member(&headers, name)),
        _ => {
            read::<T>(map, MappedField::Type).map_or_else(|| T::NULLS[0].to_owned(), |value| T::text(&value))
        }
    }
}

/// The position in the order of rows, as a time.
fn rank<T: Syntax>(map: &ColumnMap) -> String {
    let rank = match Family::of(map.type_of(MappedField::Order)) {
        Some(Family::Number) => read::<T>(map, MappedField::Order).map(|number| T::time_of_number(&number)),
        _ => time::<T>(map, MappedField::Order).or_else(|| time::<T>(map, MappedField::CreatedAt)),
    };
    rank.map_or_else(|| T::EPOCH.to_owned(), |rank| format!("COALESCE({rank}, {})", T::EPOCH))
}

/// `column = 'value'`, for a SET clause.
fn set_status<T: Syntax>(map: &ColumnMap, word: &StateWord) -> String {
    format!("{}{} = {word}", T::SET, quoted::<T>(map, MappedField::Status))
}

/// The SET clause for a delivered row; empty if the table has no column for it.
pub(super) fn set_done<T: Syntax>(map: &ColumnMap, now: &str) -> String {
    let state = match (map.delivery_record(), &map.states) {
        (DeliveryRecord::Status, Some(states)) => Some(set_status::<T>(map, &states.done)),
        _ => None,
    };
    let time = map.column(MappedField::DeliveredAt);
    let time = time.map(|column| format!("{}{} = {now}", T::SET, T::name(column)));
    state.into_iter().chain(time).collect::<Vec<_>>().join(", ")
}

/// The SET clause for a row after a failed attempt; with `is_given_up`, for a row that is given up now. `None` if the
/// table has no column for it.
pub(super) fn set_failed<T: Syntax>(
    map: &ColumnMap,
    attempts: &str,
    now: &str,
    is_given_up: bool,
) -> Option<String> {
    let count = map.column(MappedField::Attempts);
    let count = count.map(|column| format!("{}{} = {attempts}", T::SET, T::name(column)));
    // A row that was given up before and is retried must be pending again.
    let state = match (&map.states, map.failed()) {
        (Some(_), Some(failed)) if is_given_up => Some(set_status::<T>(map, failed)),
        (Some(states), Some(_)) if states.also_pending.is_empty() => {
            Some(set_status::<T>(map, &states.pending))
        }
        (Some(states), Some(failed)) => {
            let (column, pending) = (quoted::<T>(map, MappedField::Status), &states.pending);
            let kept = format!("CASE WHEN t.{column} = {failed} THEN {pending} ELSE t.{column} END");
            Some(format!("{}{column} = {kept}", T::SET))
        }
        _ => None,
    };
    let time = map.column(MappedField::GivenUpAt).map(|column| {
        let time = if is_given_up { now } else { "NULL" };
        format!("{}{} = {time}", T::SET, T::name(column))
    });
    let sets: Vec<String> = count.into_iter().chain(state).chain(time).collect();
    (!sets.is_empty()).then(|| sets.join(", "))
}

/// The largest number of attempts that their column can hold.
#[cfg(any(feature = "_mysql", feature = "_postgres"))]
pub(super) fn attempts_max(map: &ColumnMap) -> i32 {
    match map.type_of(MappedField::Attempts) {
        "tinyint" | "tinyint unsigned" => i8::MAX.into(),
        "smallint" | "smallint unsigned" => i16::MAX.into(),
        _ => i32::MAX,
    }
}

/// The time from which retention counts: the delivery, or the creation if the table has no column for the delivery.
#[cfg(any(feature = "_postgres", feature = "_sqlite"))]
pub(super) fn retention_time<T: Syntax>(map: &ColumnMap) -> Option<String> {
    time::<T>(map, MappedField::DeliveredAt).or_else(|| time::<T>(map, MappedField::CreatedAt))
}
