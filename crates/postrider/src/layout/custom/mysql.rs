//! The placeholders on MySQL and MariaDB.

use super::placeholders::{Placeholder, Syntax, attempts_max, put_into, quoted, set_done, set_failed};
use super::{ColumnMap, ColumnName, DeliveryRecord, MappedField, StateWord};
use crate::layout::Family;

struct MySql;

impl ColumnMap {
    /// The statement with every `{c....}` replaced.
    pub(crate) fn put_into_mysql(&self, statement: &str) -> String {
        put_into::<MySql>(self, statement)
    }
}

impl Syntax for MySql {
    const NOTES: &'static str = "{schema}.row_notes";
    const DONE: &'static str = "{schema}.row_done";
    const NULLS: [&'static str; 3] = ["NULL", "NULL", "NULL"];
    const EPOCH: &'static str = "0";
    /// The UPDATE joins a list of rows, so columns of the table need a prefix.
    const SET: &'static str = "t.";
    const TRUE: &'static str = "TRUE";
    const FALSE: &'static str = "FALSE";

    fn name(column: &ColumnName) -> String {
        column.in_backticks()
    }

    /// In the collation of Postrider's own tables.
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

    fn statements(map: &ColumnMap) -> Vec<Placeholder> {
        let [delivered_at, delivered_order, is_deletable] = retention(map);
        vec![
            ("{c.done}", done(map)),
            ("{c.retried}", failed(map, "@postrider_retried", false)),
            ("{c.given_up}", failed(map, "@postrider_given_up", true)),
            ("{c.delivered_order}", delivered_order),
            ("{c.delivered_at}", delivered_at),
            ("{c.is_deletable}", is_deletable),
            ("{c.order}", order(map)),
            ("{c.created_at}", created_at(map)),
        ]
    }

    /// In the type and collation of the column, so that its index can be used.
    fn as_id(map: &ColumnMap, value: &str) -> String {
        match (Family::of(map.type_of(MappedField::Id)), &map.found.id_collation) {
            (Some(Family::Number), _) if map.type_of(MappedField::Id).ends_with(" unsigned") => {
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
    match map.column(MappedField::Order).or_else(|| map.column(MappedField::CreatedAt)) {
        Some(column) => format!("t.{}, t.{{c.id}}", column.in_backticks()),
        None => "t.{c.id}".to_owned(),
    }
}

/// The creation time, in the type of its column.
fn created_at(map: &ColumnMap) -> String {
    map.column(MappedField::CreatedAt)
        .map_or_else(|| "NULL".to_owned(), |column| format!("t.{}", column.in_backticks()))
}

/// The rows of an outcome, joined with the table.
fn rows_of(map: &ColumnMap, variable: &str) -> String {
    format!(
        "JSON_TABLE({variable}, '$[*]' COLUMNS (i VARCHAR(255) PATH '$.i', a BIGINT PATH '$.a')) AS c
         STRAIGHT_JOIN {{table}} AS t ON t.{{c.id}} = {}",
        MySql::as_id(map, "c.i")
    )
}

fn done(map: &ColumnMap) -> String {
    let rows = rows_of(map, "@postrider_done");
    match map.delivery_record() {
        DeliveryRecord::Status | DeliveryRecord::Time => {
            let sets = set_done::<MySql>(map, "UTC_TIMESTAMP(6)");
            format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND {{c.is_open}}")
        }
        DeliveryRecord::Deleted => {
            format!("DELETE t FROM {rows} WHERE @postrider_owns = 1 AND {{c.is_open}}")
        }
        DeliveryRecord::Noted => format!(
            "INSERT IGNORE INTO {{schema}}.row_done (row_id) SELECT c.i FROM {rows} WHERE @postrider_owns = 1"
        ),
    }
}

/// Records a failed attempt, or that rows are given up. If the table has no column for it, the rows are only counted.
fn failed(map: &ColumnMap, variable: &str, is_given_up: bool) -> String {
    let rows = rows_of(map, variable);
    let count = format!("LEAST(c.a, {})", attempts_max(map));
    match set_failed::<MySql>(map, &count, "UTC_TIMESTAMP(6)", is_given_up) {
        Some(sets) => format!("UPDATE {rows} SET {sets} WHERE @postrider_owns = 1 AND {{c.is_open}}"),
        None => format!("SET @postrider_changed = @postrider_changed + JSON_LENGTH({variable})"),
    }
}

/// For retention: the time from which it counts, the order of rows, and whether a row may be deleted. No row may be
/// deleted if the table cannot show deliveries: then retention uses the notes.
fn retention(map: &ColumnMap) -> [String; 3] {
    let time = [MappedField::DeliveredAt, MappedField::CreatedAt]
        .into_iter()
        .find(|field| map.column(*field).is_some());
    match (map.delivery_record(), time) {
        (DeliveryRecord::Status | DeliveryRecord::Time, Some(time)) => {
            let at = format!("t.{}", quoted::<MySql>(map, time));
            let order = format!("{at}, t.{{c.id}}");
            [at, order, "{c.is_done}".to_owned()]
        }
        (DeliveryRecord::Deleted | DeliveryRecord::Noted, _) | (_, None) => {
            ["NULL", "t.{c.id}", "FALSE"].map(str::to_owned)
        }
    }
}
