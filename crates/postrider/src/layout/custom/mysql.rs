//! On MySQL and MariaDB.

use super::pieces::{Piece, Tongue, attempts_max, put_into, quoted, set_done, set_tried};
use super::{ColumnMap, ColumnName, Delivered, Field};
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

    fn joined(one: &str, other: &str) -> String {
        format!("CONCAT({one}, '/', {other})")
    }

    fn actions(map: &ColumnMap) -> Vec<Piece> {
        let [old_rows, old_id, old_at, is_old, is_noted] = old(map);
        vec![
            ("{c.done}", done(map)),
            ("{c.retried}", tried(map, "@postrider_retried", false)),
            ("{c.ended}", tried(map, "@postrider_ended", true)),
            ("{c.old_rows}", old_rows),
            ("{c.old_id}", old_id),
            ("{c.old_at}", old_at),
            ("{c.is_old}", is_old),
            ("{c.is_noted}", is_noted),
            ("{c.order}", order(map)),
        ]
    }

    /// As the column has it, so that its index can be used.
    fn as_id(map: &ColumnMap, value: &str) -> String {
        match (Family::of(map.type_of(Field::Id)), &map.found.id_collation) {
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
            format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND NOT ({{c.is_done}})")
        }
        Delivered::Deleted => format!("DELETE t FROM {rows} WHERE @postrider_owns = 1"),
        Delivered::Noted => format!(
            "INSERT IGNORE INTO {{schema}}.row_done (row_id) SELECT c.i FROM {rows} WHERE @postrider_owns = 1"
        ),
    }
}

/// Rows were tried once more, or given up. Where they do not say so, they are only counted.
fn tried(map: &ColumnMap, variable: &str, is_given_up: bool) -> String {
    let rows = rows_of(map, variable);
    match set_tried::<MySql>(map, &format!("LEAST(c.a, {})", attempts_max(map)), is_given_up) {
        Some(sets) => format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND NOT ({{c.is_done}})"),
        None => format!("SET @postrider_changed = @postrider_changed + JSON_LENGTH({variable})"),
    }
}

/// What is delivered and may be old: from where, by which id, since when, and whether at all.
fn old(map: &ColumnMap) -> [String; 5] {
    let word = str::to_owned;
    let time = [Field::DeliveredAt, Field::CreatedAt].into_iter().find(|field| map.column(*field).is_some());
    match (map.delivered(), time) {
        (Delivered::Noted, _) => [
            word("{schema}.row_done AS n"),
            word("{c.row_id}"),
            word("n.done_at"),
            word("TRUE"),
            word("TRUE"),
        ],
        (Delivered::Status | Delivered::Time, Some(time)) => {
            let at = format!("t.{}", quoted::<MySql>(map, time));
            [word("{table} AS t"), word("t.{c.id}"), at, word("{c.is_done}"), word("FALSE")]
        }
        (Delivered::Deleted, _) | (_, None) => {
            [word("{table} AS t"), word("t.{c.id}"), word("NULL"), word("FALSE"), word("FALSE")]
        }
    }
}
