//! The pieces of statements that a map stands for. A row of the table is `t`, a note of ours `n`.
//!
//! What every database says, each in its own [`Tongue`], is put together here; what is done to rows differs too much and
//! is passed together with the dialect.

use super::{ColumnMap, ColumnName, Delivered, Field, StateWord, States, TypeFrom};
use crate::layout::Family;

/// A note that says that a row was given up.
const GIVEN_UP: &str = "n.state IN ('dead', 'expired', 'unrouted')";

/// A name in a statement, and what stands for it.
pub(super) type Piece = (&'static str, String);

/// How a database says what all of them can say.
pub(super) trait Tongue {
    /// Our table of notes.
    const NOTES: &'static str;
    /// Our table of rows that were delivered.
    const DONE: &'static str;
    /// NULL, as a text, a number, a time.
    const NULLS: [&'static str; 3];
    /// The begin of time.
    const EPOCH: &'static str;
    /// What stands before a column that is set.
    const SET: &'static str;
    const TRUE: &'static str;
    const FALSE: &'static str;

    fn name(column: &ColumnName) -> String;
    fn text(value: &str) -> String;
    fn number(value: &str) -> String;
    /// A moment, from a column of this type.
    fn time(value: &str, sql_type: &str) -> String;
    /// The place of a number among times.
    fn time_of_number(value: &str) -> String;
    /// A member of a JSON object; NULL if it is none.
    fn member(value: &str, name: &StateWord) -> String;
    /// What is done to rows, and in which order they stand. May hold other pieces.
    fn actions(map: &ColumnMap) -> Vec<Piece>;
    /// The id of a row as text, where its key has two columns.
    fn id_text(_: &ColumnMap) -> Option<String> {
        None
    }
    /// Tells an id in this expression as the table's column has it.
    fn as_id(map: &ColumnMap, value: &str) -> String;
}

/// The statement with every `{c....}` replaced by what the map has for it.
pub(super) fn put_into<T: Tongue>(map: &ColumnMap, statement: &str) -> String {
    let mut text = statement.to_owned();
    // What is made of others comes before them.
    for (name, piece) in T::actions(map).into_iter().chain(conditions::<T>(map)).chain(values::<T>(map)) {
        if text.contains(name) {
            text = text.replace(name, &piece);
        }
    }
    text
}

/// What rows say of themselves.
fn conditions<T: Tongue>(map: &ColumnMap) -> [Piece; 6] {
    let (status, time) = (quoted::<T>(map, Field::Status), quoted::<T>(map, Field::DeliveredAt));
    let noted = format!("(SELECT 1 FROM {} AS d WHERE d.row_id = {{c.id_text}})", T::DONE);
    let (pending, done) = match (map.delivered(), &map.states) {
        (Delivered::Status, Some(states)) => {
            (format!("t.{status} {}", waiting(states)), format!("t.{status} = {}", states.done))
        }
        (Delivered::Time, _) => (format!("t.{time} IS NULL"), format!("t.{time} IS NOT NULL")),
        (Delivered::Noted, _) => (format!("NOT EXISTS {noted}"), format!("EXISTS {noted}")),
        // A row that is there is to be delivered, unless its state says otherwise.
        (_, Some(states)) => (format!("t.{status} {}", waiting(states)), T::FALSE.to_owned()),
        _ => (T::TRUE.to_owned(), T::FALSE.to_owned()),
    };
    // A row in a state that the map does not name is another process's.
    let is_open = match map.failed() {
        Some(word) => format!("({pending} OR t.{status} = {word})"),
        None => format!("({pending})"),
    };
    let was_given_up = match map.failed() {
        Some(_) => "{c.is_given_up}",
        None => "NOT ({c.is_not_given_up})",
    };
    let given_up_at = read::<T>(map, Field::GivenUpAt);
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
        // Without a note beside it.
        ("{c.was_given_up}", was_given_up.to_owned()),
        ("{c.is_open}", is_open),
        ("{c.is_pending}", pending),
        ("{c.is_done}", done),
        ("{c.is_given_up}", given_up),
        ("{c.is_not_given_up}", not_given_up),
    ]
}

/// What rows hold.
fn values<T: Tongue>(map: &ColumnMap) -> [Piece; 15] {
    let [no_text, no_number, no_time] = T::NULLS;
    let text = |field| read::<T>(map, field).map_or_else(|| no_text.to_owned(), |value| T::text(&value));
    let number = |field| read::<T>(map, field).map(|value| T::number(&value));
    // Of a key of two columns none tells the event apart.
    let is_one = map.column(Field::SecondId).is_none();
    let id = if is_one && map.column(Field::EventId).is_none() { Field::Id } else { Field::EventId };
    let noted =
        || format!("COALESCE((SELECT n.attempts FROM {} AS n WHERE n.row_id = {{c.id_text}}), 0)", T::NOTES);
    [
        ("{c.event_id}", text(id)),
        ("{c.type}", kind::<T>(map)),
        ("{c.aggregate_type}", text(Field::AggregateType)),
        ("{c.aggregate_id}", text(Field::AggregateId)),
        ("{c.key}", text(Field::Key)),
        ("{c.headers}", text(Field::Headers)),
        ("{c.topic}", text(Field::Topic)),
        ("{c.max_attempts}", number(Field::MaxAttempts).unwrap_or_else(|| no_number.to_owned())),
        ("{c.attempts}", number(Field::Attempts).unwrap_or_else(noted)),
        ("{c.created}", time::<T>(map, Field::CreatedAt).unwrap_or_else(|| no_time.to_owned())),
        ("{c.rank}", rank::<T>(map)),
        ("{c.payload}", quoted::<T>(map, Field::Payload)),
        ("{c.id_text}", T::id_text(map).unwrap_or_else(|| text(Field::Id))),
        ("{c.row_id}", T::as_id(map, "n.row_id")),
        ("{c.id}", quoted::<T>(map, Field::Id)),
    ]
}

pub(super) fn quoted<T: Tongue>(map: &ColumnMap, field: Field) -> String {
    map.column(field).map_or_else(|| "NULL".to_owned(), T::name)
}

fn read<T: Tongue>(map: &ColumnMap, field: Field) -> Option<String> {
    map.column(field).map(|column| format!("t.{}", T::name(column)))
}

/// A column with a time.
pub(super) fn time<T: Tongue>(map: &ColumnMap, field: Field) -> Option<String> {
    read::<T>(map, field).map(|value| T::time(&value, map.type_of(field)))
}

/// ` = word`, or one of several.
fn waiting(states: &States) -> String {
    let words: Vec<String> = states.waiting().map(ToString::to_string).collect();
    match words.as_slice() {
        [word] => format!("= {word}"),
        words => format!("IN ({})", words.join(", ")),
    }
}

/// The type of the event.
fn kind<T: Tongue>(map: &ColumnMap) -> String {
    match (&map.kind, read::<T>(map, Field::Headers)) {
        (Some(TypeFrom::Constant(word)), _) => T::text(&word.to_string()),
        (Some(TypeFrom::Header(name)), Some(headers)) => T::text(&T::member(&headers, name)),
        _ => read::<T>(map, Field::Type).map_or_else(|| T::NULLS[0].to_owned(), |value| T::text(&value)),
    }
}

/// The place in the order of rows, as a time.
fn rank<T: Tongue>(map: &ColumnMap) -> String {
    let rank = match Family::of(map.type_of(Field::Order)) {
        Some(Family::Number) => read::<T>(map, Field::Order).map(|number| T::time_of_number(&number)),
        _ => time::<T>(map, Field::Order).or_else(|| time::<T>(map, Field::CreatedAt)),
    };
    rank.map_or_else(|| T::EPOCH.to_owned(), |rank| format!("COALESCE({rank}, {})", T::EPOCH))
}

/// `column = word`, to set.
fn has_state<T: Tongue>(map: &ColumnMap, word: &StateWord) -> String {
    format!("{}{} = {word}", T::SET, quoted::<T>(map, Field::Status))
}

/// What an UPDATE sets when a row was delivered; nothing where rows do not say so.
pub(super) fn set_done<T: Tongue>(map: &ColumnMap, now: &str) -> String {
    let state = match (map.delivered(), &map.states) {
        (Delivered::Status, Some(states)) => Some(has_state::<T>(map, &states.done)),
        _ => None,
    };
    let time = map.column(Field::DeliveredAt);
    let time = time.map(|column| format!("{}{} = {now}", T::SET, T::name(column)));
    state.into_iter().chain(time).collect::<Vec<_>>().join(", ")
}

/// What an UPDATE sets when a row was tried `attempts` times, and was given up, `now`, or not. `None` where it says neither.
pub(super) fn set_tried<T: Tongue>(
    map: &ColumnMap,
    attempts: &str,
    now: &str,
    is_given_up: bool,
) -> Option<String> {
    let count = map.column(Field::Attempts);
    let count = count.map(|column| format!("{}{} = {attempts}", T::SET, T::name(column)));
    // One that was given up before, and is tried again, must be due again.
    let state = match (&map.states, map.failed()) {
        (Some(_), Some(failed)) if is_given_up => Some(has_state::<T>(map, failed)),
        (Some(states), Some(_)) if states.also_pending.is_empty() => {
            Some(has_state::<T>(map, &states.pending))
        }
        (Some(states), Some(failed)) => {
            let (column, pending) = (quoted::<T>(map, Field::Status), &states.pending);
            let kept = format!("CASE WHEN t.{column} = {failed} THEN {pending} ELSE t.{column} END");
            Some(format!("{}{column} = {kept}", T::SET))
        }
        _ => None,
    };
    let time = map.column(Field::GivenUpAt).map(|column| {
        let time = if is_given_up { now } else { "NULL" };
        format!("{}{} = {time}", T::SET, T::name(column))
    });
    let sets: Vec<String> = count.into_iter().chain(state).chain(time).collect();
    (!sets.is_empty()).then(|| sets.join(", "))
}

/// The largest number of attempts that their column can hold.
#[cfg(any(feature = "_mysql", feature = "_postgres"))]
pub(super) fn attempts_max(map: &ColumnMap) -> i32 {
    match map.type_of(Field::Attempts) {
        "tinyint" | "tinyint unsigned" => i8::MAX.into(),
        "smallint" | "smallint unsigned" => i16::MAX.into(),
        _ => i32::MAX,
    }
}

/// When a row that was delivered counts as old: since its delivery, else since it was made.
#[cfg(any(feature = "_postgres", feature = "_sqlite"))]
pub(super) fn age<T: Tongue>(map: &ColumnMap) -> Option<String> {
    time::<T>(map, Field::DeliveredAt).or_else(|| time::<T>(map, Field::CreatedAt))
}
