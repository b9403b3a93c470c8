//! On SQLite. Times are texts, ids are compared as texts: a column of numbers makes numbers of them.

use super::pieces::{Piece, Tongue, age, put_into, set_done, set_tried};
use super::{ColumnMap, ColumnName, Delivered, Field, StateWord};
use crate::layout::Family;

/// A moment as SQLite's own functions write it.
const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

/// Microseconds since 1970 of now.
const NOW_MICROS: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000";

struct Sqlite;

impl ColumnMap {
    /// The statement with every `{c....}` replaced by what the map has for it.
    pub(crate) fn put_into_sqlite(&self, statement: &str) -> String {
        put_into::<Sqlite>(self, statement)
    }
}

impl Tongue for Sqlite {
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

    fn actions(map: &ColumnMap) -> Vec<Piece> {
        vec![
            ("{c.done}", done(map)),
            ("{c.retried}", tried(map, false)),
            ("{c.ended}", tried(map, true)),
            ("{c.trim}", trim(map)),
            ("{c.order}", order(map)),
        ]
    }

    fn as_id(_: &ColumnMap, value: &str) -> String {
        value.to_owned()
    }
}

/// Rows with one creation stand in the order they were written in.
fn order(map: &ColumnMap) -> String {
    let is_number = Family::of(map.type_of(Field::Id)) == Some(Family::Number);
    let then = if map.found.has_rowid && !is_number { "t.rowid" } else { "t.{c.id}" };
    match map.column(Field::Order).or_else(|| map.column(Field::CreatedAt)) {
        Some(column) => format!("t.{column}, {then}"),
        None => then.to_owned(),
    }
}

/// The row `?1` was delivered.
fn done(map: &ColumnMap) -> String {
    let row = "t.{c.id} = ?1";
    match map.delivered() {
        Delivered::Status | Delivered::Time => format!(
            "UPDATE {{table}} AS t SET {} WHERE {row} AND {{c.is_open}}",
            set_done::<Sqlite>(map, NOW)
        ),
        Delivered::Deleted => format!("DELETE FROM {{table}} AS t WHERE {row} AND {{c.is_open}}"),
        Delivered::Noted => format!(
            "INSERT INTO postrider_row_done (row_id, done_at)
             SELECT ?1, {NOW_MICROS} FROM {{table}} AS t WHERE {row}
             ON CONFLICT (row_id) DO NOTHING"
        ),
    }
}

/// The row `?1` was tried `?4` times, or given up. Nothing where it does not say so.
fn tried(map: &ColumnMap, is_given_up: bool) -> String {
    set_tried::<Sqlite>(map, "?4", NOW, is_given_up).map_or_else(String::new, |sets| {
        format!("UPDATE {{table}} AS t SET {sets} WHERE t.{{c.id}} = ?1 AND {{c.is_open}}")
    })
}

/// `?2` rows that say that they are delivered and are older than `?1` go. Without any time in the table, none does.
fn trim(map: &ColumnMap) -> String {
    match (map.delivered(), age::<Sqlite>(map)) {
        (Delivered::Status | Delivered::Time, Some(time)) => format!(
            "DELETE FROM {{table}}
             WHERE {{c.id}} IN (SELECT t.{{c.id}} FROM {{table}} AS t
                                WHERE {{c.is_done}} AND {time} < ?1 ORDER BY {time} LIMIT ?2)"
        ),
        (Delivered::Deleted | Delivered::Noted, _) | (_, None) => {
            "DELETE FROM postrider_row_done WHERE 0 AND ?1 AND ?2".to_owned()
        }
    }
}
