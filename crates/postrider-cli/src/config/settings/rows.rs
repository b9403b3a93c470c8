//! The keys of `[outbox.NAME]` about a table with a state per row.

use postrider::layout::{ColumnMap, Field, RowLayout, RowTable, StateWord, States};
use postrider::{Code, Error, Ident};

use super::Read;
use crate::config::nearest::advice;
use crate::config::problem::Problem;

const LAYOUTS: [(&str, Option<RowLayout>); 5] = [
    ("postrider", None),
    ("event_outbox", Some(RowLayout::EventOutbox)),
    ("outbox", Some(RowLayout::Outbox)),
    ("outbox_events", Some(RowLayout::OutboxEvents)),
    ("custom", Some(RowLayout::Custom)),
];

/// The table of Debezium's outbox, where nothing else is said.
const DEBEZIUM_TABLE: &str = "outboxevent";

/// Keys that any table with a state per row takes, and those that only a custom one does.
const OF_ROWS: [&str; 5] = ["table", "table_schema", "max_attempts", "shared", "foreign_claim_timeout"];
const OF_CUSTOM: [&str; 7] =
    ["preset", "columns", "states", "also_pending", "event_type", "type_header", "delete_delivered"];

/// The table with a state per row, if the layout is one of those.
pub(super) fn read(read: &Read<'_>) -> Result<Option<RowTable>, Problem> {
    let Some(layout) = read.choice("layout", &LAYOUTS)? else {
        let why = "it is about a table with a state per row; give its `layout`";
        return refuse_given(read, &[&OF_ROWS[..], &OF_CUSTOM[..]].concat(), why).map(|()| None);
    };
    let mut rows = if layout == RowLayout::Custom {
        custom(read)?
    } else {
        refuse_given(read, &OF_CUSTOM, "it is about a table with `layout = \"custom\"`")?;
        let rows = RowTable::new(layout).map_err(wrong(read, "layout"))?;
        match read.text("table")? {
            Some(name) => rows.named(Ident::new(&name).map_err(wrong(read, "table"))?),
            None => rows,
        }
    };
    if let Some(name) = read.text("table_schema")? {
        rows = rows.in_schema(Ident::new(&name).map_err(wrong(read, "table_schema"))?);
    }
    if let Some(attempts) = read.count_if_given("max_attempts")? {
        rows = rows.max_attempts(attempts);
    }
    let timeout = read.duration_if_given("foreign_claim_timeout")?;
    if timeout.is_some() && layout != RowLayout::OutboxEvents {
        let why = "only outbox_events says which rows are at work";
        return Err(read.problem("foreign_claim_timeout", Code::ConfigValue, why));
    }
    Ok(Some(rows.shared(read.bool("shared")?).foreign_claim_timeout(timeout)))
}

/// A table of anybody's.
fn custom(read: &Read<'_>) -> Result<RowTable, Problem> {
    let is_debezium = read.text("preset")?.is_some();
    let mut map = if is_debezium { ColumnMap::debezium() } else { ColumnMap::new() };
    for (holds, column) in read.map("columns")?.unwrap_or_default() {
        let Some(field) = Field::from_name(&holds) else {
            let meant = advice(&holds, Field::ALL.iter().map(|field| field.name()));
            let meant = meant.unwrap_or_else(|| "see docs/src/layouts.md".to_owned());
            let why = format!("nothing is called `{holds}`; {meant}");
            return Err(read.problem("columns", Code::ConfigValue, &why));
        };
        map = map.with(field, &column).map_err(wrong(read, "columns"))?;
    }
    if let Some(states) = states(read)? {
        map = map.states(states);
    }
    if let Some(event_type) = read.text("event_type")? {
        map = map.typed(&event_type).map_err(wrong(read, "event_type"))?;
    }
    if let Some(header) = read.text("type_header")? {
        if read.is_given("event_type") {
            let why = "`event_type` gives all events their type already";
            return Err(read.problem("type_header", Code::ConfigValue, why));
        }
        map = map.typed_by_header(&header).map_err(wrong(read, "type_header"))?;
    }
    if read.bool("delete_delivered")? {
        map = map.deleting();
    }
    let name = match read.text("table")? {
        Some(name) => name,
        None if is_debezium => DEBEZIUM_TABLE.to_owned(),
        None => return Err(read.problem_of_all(Code::ConfigValue, "give the name of the `table`")),
    };
    let name = Ident::new(&name).map_err(wrong(read, "table"))?;
    let key = if read.is_given("states") { "states" } else { "columns" };
    RowTable::custom(name, map).map_err(wrong(read, key))
}

fn states(read: &Read<'_>) -> Result<Option<States>, Problem> {
    let Some(mut words) = read.map("states")? else {
        let why = "it is about the words of `states`, and they are not given";
        return refuse_given(read, &["also_pending"], why).map(|()| None);
    };
    let mut word = |name: &str| words.remove(name).map(|word| StateWord::new(&word)).transpose();
    let told = (word("pending"), word("done"), word("failed"));
    let (pending, done, failed) = match told {
        (Ok(pending), Ok(done), Ok(failed)) => (pending, done, failed),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => return Err(wrong(read, "states")(error)),
    };
    if let Some(other) = words.keys().next() {
        let why = format!("there is no state `{other}`: they are `pending`, `done` and `failed`");
        return Err(read.problem("states", Code::ConfigValue, &why));
    }
    let also = read.list("also_pending")?.unwrap_or_default();
    let also = also.iter().map(|word| StateWord::new(word)).collect::<postrider::Result<Vec<_>>>();
    let also_pending = also.map_err(wrong(read, "also_pending"))?;
    match (pending, done) {
        (Some(pending), Some(done)) => Ok(Some(States { pending, also_pending, done, failed })),
        _ => Err(read.problem("states", Code::ConfigValue, "give the words for `pending` and `done`")),
    }
}

/// Refuses keys that are not for this layout.
fn refuse_given(read: &Read<'_>, keys: &[&'static str], why: &str) -> Result<(), Problem> {
    match keys.iter().find(|key| read.is_given(key)) {
        Some(key) => Err(read.problem(key, Code::ConfigValue, why)),
        None => Ok(()),
    }
}

fn wrong<'a>(read: &'a Read<'_>, key: &'static str) -> impl Fn(Error) -> Problem + 'a {
    move |error| read.problem(key, Code::ConfigValue, error.message())
}
