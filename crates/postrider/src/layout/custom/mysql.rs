//! On MySQL and MariaDB.

use super::pieces::{Piece, Tongue, attempts_max, put_into, quoted, set_done, set_tried};
use super::{ColumnMap, ColumnName, Delivered, Field, StateWord};
use crate::layout::Family;

struct MySql;

impl ColumnMap {
    /// The statement with every `{c....}` replaced by what the map has for it.
    pub(crate) fn put_into_mysql(&self, statement: &str) -> String {
        put_into::<MySql>(self, statement)
    }
}

impl Tongue for MySql {
    const NOTES: &'static str = "{schema}.row_notes";
    const DONE: &'static str = "{schema}.row_done";
    const NULLS: [&'static str; 3] = ["NULL", "NULL", "NULL"];
    const EPOCH: &'static str = "0";
    /// A column of the table, not one of the list beside it.
    const SET: &'static str = "t.";
    const TRUE: &'static str = "TRUE";
    const FALSE: &'static str = "FALSE";

    fn name(column: &ColumnName) -> String {
        column.in_backticks()
    }

    /// In the collation of our own tables, whatever the column's.
    fn text(value: &str) -> String {
        format!("(CONVERT({value} USING utf8mb4) COLLATE utf8mb4_bin)")
    }

    fn number(value: &str) -> String {
        format!("CAST({value} AS SIGNED)")
    }

    fn time(value: &str, _: &str) -> String {
        format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})")
    }

    fn time_of_number(value: &str) -> String {
        value.to_owned()
    }

    fn member(value: &str, name: &StateWord) -> String {
        let path = name.as_str();
        format!("CASE WHEN JSON_VALID({value}) THEN JSON_UNQUOTE(JSON_EXTRACT({value}, '$.\"{path}\"')) END")
    }

    fn actions(map: &ColumnMap) -> Vec<Piece> {
        let [old_at, old_order, is_old] = old(map);
        vec![
            ("{c.done}", done(map)),
            ("{c.retried}", tried(map, "@postrider_retried", false)),
            ("{c.ended}", tried(map, "@postrider_ended", true)),
            ("{c.old_order}", old_order),
            ("{c.old_at}", old_at),
            ("{c.is_old}", is_old),
            ("{c.order}", order(map)),
            ("{c.made}", made(map)),
        ]
    }

    /// As the column has it, so that its index can be used.
    fn as_id(map: &ColumnMap, value: &str) -> String {
        match (Family::of(map.type_of(Field::Id)), &map.found.id_collation) {
            (Some(Family::Number), _) if map.type_of(Field::Id).ends_with(" unsigned") => {
                format!("CAST({value} AS UNSIGNED)")
            }
            (Some(Family::Number), _) => format!("CAST({value} AS SIGNED)"),
            (Some(Family::Uuid), _) => format!("CAST({value} AS UUID)"),
            (_, Some(collation)) => {
                let charset = collation.split('_').next().unwrap_or_default();
                format!("(CONVERT({value} USING {charset}) COLLATE {collation})")
            }
            _ => value.to_owned(),
        }
    }
}

fn order(map: &ColumnMap) -> String {
    match map.column(Field::Order).or_else(|| map.column(Field::CreatedAt)) {
        Some(column) => format!("t.{}, t.{{c.id}}", column.in_backticks()),
        None => "t.{c.id}".to_owned(),
    }
}

/// When a row was made, as its column has it.
fn made(map: &ColumnMap) -> String {
    map.column(Field::CreatedAt)
        .map_or_else(|| "NULL".to_owned(), |column| format!("t.{}", column.in_backticks()))
}

/// Rows of an outcome, and those of the table that they are.
fn rows_of(map: &ColumnMap, variable: &str) -> String {
    format!(
        "JSON_TABLE({variable}, '$[*]' COLUMNS (i VARCHAR(255) PATH '$.i', a BIGINT PATH '$.a')) AS c
         STRAIGHT_JOIN {{table}} AS t ON t.{{c.id}} = {}",
        MySql::as_id(map, "c.i")
    )
}

fn done(map: &ColumnMap) -> String {
    let rows = rows_of(map, "@postrider_done");
    match map.delivered() {
        Delivered::Status | Delivered::Time => {
            let sets = set_done::<MySql>(map, "UTC_TIMESTAMP(6)");
            format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND {{c.is_open}}")
        }
        Delivered::Deleted => format!("DELETE t FROM {rows} WHERE @postrider_owns = 1 AND {{c.is_open}}"),
        Delivered::Noted => format!(
            "INSERT IGNORE INTO {{schema}}.row_done (row_id) SELECT c.i FROM {rows} WHERE @postrider_owns = 1"
        ),
    }
}

/// Rows were tried once more, or given up. Where they do not say so, they are only counted.
fn tried(map: &ColumnMap, variable: &str, is_given_up: bool) -> String {
    let rows = rows_of(map, variable);
    let count = format!("LEAST(c.a, {})", attempts_max(map));
    match set_tried::<MySql>(map, &count, "UTC_TIMESTAMP(6)", is_given_up) {
        Some(sets) => format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND {{c.is_open}}"),
        None => format!("SET @postrider_changed = @postrider_changed + JSON_LENGTH({variable})"),
    }
}

/// What is delivered and may be old: since when, in which order, and whether at all. Where a note is all that tells of a
/// delivery, retention goes by the notes.
fn old(map: &ColumnMap) -> [String; 3] {
    let time = [Field::DeliveredAt, Field::CreatedAt].into_iter().find(|field| map.column(*field).is_some());
    match (map.delivered(), time) {
        (Delivered::Status | Delivered::Time, Some(time)) => {
            let at = format!("t.{}", quoted::<MySql>(map, time));
            let order = format!("{at}, t.{{c.id}}");
            [at, order, "{c.is_done}".to_owned()]
        }
        (Delivered::Deleted | Delivered::Noted, _) | (_, None) => {
            ["NULL", "t.{c.id}", "FALSE"].map(str::to_owned)
        }
    }
}
