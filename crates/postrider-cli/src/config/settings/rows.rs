//! The keys of `[outbox.NAME]` about a table with a state per row.

use std::time::Duration;

use postrider::layout::{
    Ability, ColumnMap, FanOutPolicy, MappedField, RowLayout, RowTable, StateWord, States,
};
use postrider::{Code, Error, Ident};

use super::ConfigTable;
use crate::config::problem::Problem;
use crate::config::suggest::did_you_mean;

/// The default table name of Debezium's outbox.
const DEBEZIUM_TABLE: &str = "outboxevent";

/// Keys of every table with a state per row, and keys of custom tables only.
const OF_ROWS: [&str; 5] = ["table", "table_schema", "max_attempts", "shared", "foreign_claim_timeout"];
const OF_CUSTOM: [&str; 7] =
    ["preset", "columns", "states", "also_pending", "event_type", "type_header", "delete_delivered"];

/// Keys of layouts with notifications.
const OF_NOTIFICATIONS: [&str; 4] =
    ["handle_within", "fan_out_events_max", "fan_out_poll", "search_missed_every"];

/// The table with a state per row, if the layout has one.
pub(super) fn read(table: &ConfigTable<'_>) -> Result<Option<RowTable>, Problem> {
    let layout = match table.required("layout", table.text("layout")?)?.as_str() {
        "custom" => Some(RowLayout::Custom),
        name => RowLayout::from_name(name),
    };
    if !layout.is_some_and(|layout| layout.has(Ability::Notifications)) {
        refuse_given(table, &OF_NOTIFICATIONS, "this key is only for `layout = \"eventlog\"`")?;
    }
    let Some(layout) = layout else {
        let why = "this key needs a table with a state per row: set `layout`";
        return refuse_given(table, &[&OF_ROWS[..], &OF_CUSTOM[..]].concat(), why).map(|()| None);
    };
    let mut rows = if layout == RowLayout::Custom {
        custom(table)?
    } else {
        refuse_given(table, &OF_CUSTOM, "this key is only for `layout = \"custom\"`")?;
        let rows = RowTable::new(layout);
        match table.text("table")? {
            Some(name) => rows.named(Ident::new(&name).map_err(invalid(table, "table"))?),
            None => rows,
        }
    };
    if let Some(name) = table.text("table_schema")? {
        rows = rows.in_schema(Ident::new(&name).map_err(invalid(table, "table_schema"))?);
    }
    if let Some(attempts) = table.optional_count("max_attempts")? {
        rows = rows.max_attempts(attempts);
    }
    let timeout = table.optional_duration("foreign_claim_timeout")?;
    if timeout.is_some() && !layout.has(Ability::PublishingState) {
        let why = "only layout outbox_events marks rows in progress";
        return Err(table.problem("foreign_claim_timeout", Code::ConfigValue, why));
    }
    let rows = rows.fan_out(fan_out(table)?);
    Ok(Some(rows.shared(table.bool("shared")?).foreign_claim_timeout(timeout)))
}

/// How events are fanned out. A key that is not set keeps the library's default.
fn fan_out(table: &ConfigTable<'_>) -> Result<FanOutPolicy, Problem> {
    let mut fan_out = FanOutPolicy::default();
    if let Some(time) = positive_duration(table, "handle_within")? {
        fan_out = fan_out.handle_within(time);
    }
    if let Some(events) = table.optional_count("fan_out_events_max")? {
        fan_out = fan_out.events_max(events);
    }
    if let Some(interval) = positive_duration(table, "fan_out_poll")? {
        fan_out = fan_out.poll(interval);
    }
    if let Some(interval) = positive_duration(table, "search_missed_every")? {
        fan_out = fan_out.search_missed_every(interval);
    }
    Ok(fan_out)
}

fn positive_duration(table: &ConfigTable<'_>, key: &'static str) -> Result<Option<Duration>, Problem> {
    match table.optional_duration(key)? {
        Some(Duration::ZERO) => Err(table.problem(key, Code::ConfigValue, "use a duration above 0")),
        duration => Ok(duration),
    }
}

/// A user-defined table.
fn custom(table: &ConfigTable<'_>) -> Result<RowTable, Problem> {
    let is_debezium = table.text("preset")?.is_some();
    let mut map = if is_debezium { ColumnMap::debezium() } else { ColumnMap::new() };
    for (holds, column) in table.map("columns")?.unwrap_or_default() {
        let Some(field) = MappedField::from_name(&holds) else {
            let meant = did_you_mean(&holds, MappedField::ALL.iter().map(|field| field.name()));
            let meant = meant.unwrap_or_else(|| "see docs/src/layouts.md".to_owned());
            let why = format!("there is no field `{holds}`; {meant}");
            return Err(table.problem("columns", Code::ConfigValue, &why));
        };
        map = map.with(field, &column).map_err(invalid(table, "columns"))?;
    }
    if let Some(states) = states(table)? {
        map = map.states(states);
    }
    if let Some(event_type) = table.text("event_type")? {
        map = map.typed(&event_type).map_err(invalid(table, "event_type"))?;
    }
    if let Some(header) = table.text("type_header")? {
        if table.is_given("event_type") {
            let why = "`event_type` already sets the type of all events";
            return Err(table.problem("type_header", Code::ConfigValue, why));
        }
        map = map.typed_by_header(&header).map_err(invalid(table, "type_header"))?;
    }
    if table.bool("delete_delivered")? {
        map = map.deleting();
    }
    let name = match table.text("table")? {
        Some(name) => name,
        None if is_debezium => DEBEZIUM_TABLE.to_owned(),
        None => return Err(table.table_problem(Code::ConfigValue, "set the name of the `table`")),
    };
    let name = Ident::new(&name).map_err(invalid(table, "table"))?;
    let key = if table.is_given("states") { "states" } else { "columns" };
    RowTable::custom(name, map).map_err(invalid(table, key))
}

fn states(table: &ConfigTable<'_>) -> Result<Option<States>, Problem> {
    let Some(mut words) = table.map("states")? else {
        let why = "this key needs `states`";
        return refuse_given(table, &["also_pending"], why).map(|()| None);
    };
    let mut word = |name: &str| words.remove(name).map(|word| StateWord::new(&word)).transpose();
    let reported = (word("pending"), word("done"), word("failed"));
    let (pending, done, failed) = match reported {
        (Ok(pending), Ok(done), Ok(failed)) => (pending, done, failed),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            return Err(invalid(table, "states")(error));
        }
    };
    if let Some(other) = words.keys().next() {
        let why = format!("there is no state `{other}`: the states are `pending`, `done` and `failed`");
        return Err(table.problem("states", Code::ConfigValue, &why));
    }
    let also = table.list("also_pending")?.unwrap_or_default();
    let also = also.iter().map(|word| StateWord::new(word)).collect::<postrider::Result<Vec<_>>>();
    let also_pending = also.map_err(invalid(table, "also_pending"))?;
    match (pending, done) {
        (Some(pending), Some(done)) => Ok(Some(States { pending, also_pending, done, failed })),
        _ => Err(table.problem("states", Code::ConfigValue, "set the values for `pending` and `done`")),
    }
}

/// Rejects keys that do not apply to this layout.
fn refuse_given(table: &ConfigTable<'_>, keys: &[&'static str], why: &str) -> Result<(), Problem> {
    match keys.iter().find(|key| table.is_given(key)) {
        Some(key) => Err(table.problem(key, Code::ConfigValue, why)),
        None => Ok(()),
    }
}

fn invalid<'a>(table: &'a ConfigTable<'_>, key: &'static str) -> impl Fn(Error) -> Problem + 'a {
    move |error| table.problem(key, Code::ConfigValue, error.message())
}
