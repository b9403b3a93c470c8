//! The placeholders on SQLite. Times are texts. Ids are passed as texts; a column of numbers converts them.

use super::placeholders::{Placeholder, Syntax, put_into, retention_time, set_done, set_failed};
use super::{ColumnMap, ColumnName, DeliveryRecord, MappedField, StateWord};
use crate::layout::Family;

/// The current time, in the format of SQLite's functions.
const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

/// The current time in microseconds since 1970.
const NOW_MICROS: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000";

struct Sqlite;

impl ColumnMap {
    /// The statement with every `{c....}` replaced.
    pub(crate) fn put_into_sqlite(&self, statement: &str) -> String {
        put_into::<Sqlite>(self, statement)
    }
}

impl Syntax for Sqlite {
    const NOTES: &'static str = "postrider_row_notes";
    const DONE: &'static str = "postrider_row_done";
    const NULLS: [&'static str; 3] = ["NULL", "NULL", "NULL"];
    const EPOCH: &'static str = "0";
    const SET: &'static str = "";
    const TRUE: &'static str = "1";
    const FALSE: &'static str = "0";

    fn name(column: &ColumnName) -> String {
        column.to_string()
    }

    fn text(value: &str) -> String {
        format!("CAST({value} AS TEXT)")
    }

    fn number(value: &str) -> String {
        format!("CAST({value} AS INTEGER)")
    }

    fn time(value: &str, _: &str) -> String {
        format!("CAST(round((julianday({value}) - 2440587.5) * 86400000) AS INTEGER) * 1000")
    }

    fn time_of_number(value: &str) -> String {
        value.to_owned()
    }

    fn member(value: &str, name: &StateWord) -> String {
        let path = name.as_str();
        format!("CASE WHEN json_valid({value}) THEN json_extract({value}, '$.\"{path}\"') END")
    }

    fn statements(map: &ColumnMap) -> Vec<Placeholder> {
        vec![
            ("{c.done}", done(map)),
            ("{c.retried}", failed(map, false)),
            ("{c.given_up}", failed(map, true)),
            ("{c.delete_delivered}", delete_delivered(map)),
            ("{c.order}", order(map)),
        ]
    }

    fn as_id(_: &ColumnMap, value: &str) -> String {
        value.to_owned()
    }
}

/// Rows with the same creation time are ordered as they were written.
fn order(map: &ColumnMap) -> String {
    let is_number = Family::of(map.type_of(MappedField::Id)) == Some(Family::Number);
    let then = if map.found.has_rowid && !is_number { "t.rowid" } else { "t.{c.id}" };
    match map.column(MappedField::Order).or_else(|| map.column(MappedField::CreatedAt)) {
        Some(column) => format!("t.{column}, {then}"),
        None => then.to_owned(),
    }
}

/// Records the delivery of the row `?1`.
fn done(map: &ColumnMap) -> String {
    let row = "t.{c.id} = ?1";
    match map.delivery_record() {
        DeliveryRecord::Status | DeliveryRecord::Time => format!(
            "UPDATE {{table}} AS t SET {} WHERE {row} AND {{c.is_open}}",
            set_done::<Sqlite>(map, NOW)
        ),
        DeliveryRecord::Deleted => format!("DELETE FROM {{table}} AS t WHERE {row} AND {{c.is_open}}"),
        DeliveryRecord::Noted => format!(
            "INSERT INTO postrider_row_done (row_id, done_at)
             SELECT ?1, {NOW_MICROS} FROM {{table}} AS t WHERE {row}
             ON CONFLICT (row_id) DO NOTHING"
        ),
    }
}

/// Records `?4` failed attempts of the row `?1`, or that it is given up. Empty if the table has no column for it.
fn failed(map: &ColumnMap, is_given_up: bool) -> String {
    set_failed::<Sqlite>(map, "?4", NOW, is_given_up).map_or_else(String::new, |sets| {
        format!("UPDATE {{table}} AS t SET {sets} WHERE t.{{c.id}} = ?1 AND {{c.is_open}}")
    })
}

/// Deletes at most `?2` rows that were delivered before `?1`; none if the table has no time.
fn delete_delivered(map: &ColumnMap) -> String {
    match (map.delivery_record(), retention_time::<Sqlite>(map)) {
        (DeliveryRecord::Status | DeliveryRecord::Time, Some(time)) => format!(
            "DELETE FROM {{table}}
             WHERE {{c.id}} IN (SELECT t.{{c.id}} FROM {{table}} AS t
                                WHERE {{c.is_done}} AND {time} < ?1 ORDER BY {time} LIMIT ?2)"
        ),
        (DeliveryRecord::Deleted | DeliveryRecord::Noted, _) | (_, None) => {
            "DELETE FROM postrider_row_done WHERE 0 AND ?1 AND ?2".to_owned()
        }
    }
}
