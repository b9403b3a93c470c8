//! The placeholders on PostgreSQL.

use super::mapped_field::is_without_zone;
use super::placeholders::{
    Placeholder, Syntax, attempts_max, put_into, retention_time, set_done, set_failed,
};
use super::{ColumnMap, ColumnName, DeliveryRecord, MappedField, StateWord};
use crate::layout::Family;

/// `$1` microseconds after 1970.
const CUTOFF: &str = "to_timestamp(0) + $1::bigint * interval '1 microsecond'";

struct Postgres;

impl ColumnMap {
    /// The statement with every `{c....}` replaced.
    pub(crate) fn put_into_postgres(&self, statement: &str) -> String {
        put_into::<Postgres>(self, statement)
    }
}

impl Syntax for Postgres {
    const NOTES: &'static str = "{schema}.row_notes";
    const DONE: &'static str = "{schema}.row_done";
    const NULLS: [&'static str; 3] = ["NULL::text", "NULL::bigint", "NULL::timestamptz"];
    const EPOCH: &'static str = "timestamptz 'epoch'";
    const SET: &'static str = "";
    const TRUE: &'static str = "true";
    const FALSE: &'static str = "false";

    fn name(column: &ColumnName) -> String {
        column.to_string()
    }

    fn text(value: &str) -> String {
        format!("{value}::text")
    }

    fn number(value: &str) -> String {
        format!("{value}::bigint")
    }

    fn time(value: &str, sql_type: &str) -> String {
        if is_without_zone(sql_type) { format!("({value} AT TIME ZONE 'UTC')") } else { value.to_owned() }
    }

    /// In two parts, because PostgreSQL multiplies intervals in floating point.
    fn time_of_number(value: &str) -> String {
        format!(
            "timestamptz 'epoch' + ({value} / 1000000) * interval '1 second'
                                 + ({value} % 1000000) * interval '1 microsecond'"
        )
    }

    /// A column that is not JSON is refused when the table is checked.
    fn member(value: &str, name: &StateWord) -> String {
        format!("({value} ->> {name})")
    }

    fn statements(map: &ColumnMap) -> Vec<Placeholder> {
        let is_bytes = Family::of(map.type_of(MappedField::Payload)) == Some(Family::Bytes);
        let mut all = vec![
            ("{c.done 7}", done(map, "$7")),
            ("{c.done 5}", done(map, "$5")),
            ("{c.retried}", failed(map, "$9", "$11", false)),
            ("{c.given_up}", failed(map, "$13", "$15", true)),
            ("{c.delete_delivered}", delete_delivered(map)),
            ("{c.order}", order(map)),
            ("{c.body}", if is_bytes { "t.{c.payload}" } else { "t.{c.payload}::text" }.to_owned()),
            ("{c.no_body}", if is_bytes { "''::bytea" } else { "''" }.to_owned()),
            (
                "{c.shown_body}",
                if is_bytes { "encode(t.{c.payload}, 'escape')" } else { "t.{c.payload}::text" }.to_owned(),
            ),
            ("{c.wanted}", Self::as_id(map, "wanted.id")),
            ("{c.each}", Self::as_id(map, "c.id")),
        ];
        all.extend(key_of_two(map));
        all
    }

    fn id_text(map: &ColumnMap) -> Option<String> {
        let (one, two) = (map.column(MappedField::Id)?, map.column(MappedField::SecondId)?);
        Some(format!("jsonb_build_array(t.{one}::text, t.{two}::text)::text"))
    }

    /// For a key of two columns, a row value.
    fn as_id(map: &ColumnMap, value: &str) -> String {
        match map.column(MappedField::SecondId) {
            None => format!("{value}::{}", type_of_id(map, MappedField::Id)),
            Some(_) => {
                let part = |index, field| format!("({value}::jsonb ->> {index})::{}", type_of_id(map, field));
                format!("({}, {})", part(0, MappedField::Id), part(1, MappedField::SecondId))
            }
        }
    }
}

/// For a key of two columns: as text, the id is a JSON array; it is compared as a row value.
fn key_of_two(map: &ColumnMap) -> Vec<Placeholder> {
    let (Some(one), Some(two)) = (map.column(MappedField::Id), map.column(MappedField::SecondId)) else {
        return Vec::new();
    };
    vec![
        ("t.{c.id} IS NOT NULL", format!("(t.{one} IS NOT NULL AND t.{two} IS NOT NULL)")),
        ("SELECT t.{c.id}", format!("SELECT t.{one}, t.{two}")),
        ("t.{c.id}", format!("(t.{one}, t.{two})")),
        ("{c.id}", format!("({one}, {two})")),
    ]
}

/// The type to which ids are converted, so that the index of the column can be used.
fn type_of_id(map: &ColumnMap, field: MappedField) -> &'static str {
    let found = map.type_of(field);
    match Family::of(found) {
        _ if found == "xid8" => "xid8",
        Some(Family::Number) => "bigint",
        Some(Family::Uuid) => "uuid",
        _ if found.starts_with("character(") => "bpchar",
        _ => "text",
    }
}

/// Rows of one transaction have the same creation time, so they are ordered by number. Rows without a number are
/// ordered by `cmin`, the number of their statement; rows of one statement by ids that grow (UUIDs of version 7),
/// otherwise by their location in the table: adr/0040-rows-of-one-statement.md.
fn order(map: &ColumnMap) -> String {
    let is_number =
        map.column(MappedField::SecondId).is_some() || type_of_id(map, MappedField::Id) == "bigint";
    match map.column(MappedField::Order).or_else(|| map.column(MappedField::CreatedAt)) {
        Some(column) if is_number => format!("t.{column}, t.{{c.id}}"),
        Some(column) if type_of_id(map, MappedField::Id) == "uuid" => format!(
            "t.{column}, t.cmin::text::bigint,
             CASE WHEN get_byte(uuid_send(t.{{c.id}}), 6) >> 4 = 7 THEN t.{{c.id}} END, t.ctid, t.{{c.id}}"
        ),
        Some(column) => format!("t.{column}, t.cmin::text::bigint, t.ctid, t.{{c.id}}"),
        None => "t.{c.id}".to_owned(),
    }
}

/// The current time, in the type of a column.
fn now(map: &ColumnMap, field: MappedField) -> String {
    let zone = if is_without_zone(map.type_of(field)) { " AT TIME ZONE 'UTC'" } else { "" };
    format!("clock_timestamp(){zone}")
}

/// Records the delivery of the rows in a parameter.
fn done(map: &ColumnMap, ids: &str) -> String {
    let rows = format!("fence, unnest((SELECT {ids}::text[])) AS c (id)");
    let row = "t.{c.id} = {c.each}";
    let sets = set_done::<Postgres>(map, &now(map, MappedField::DeliveredAt));
    match map.delivery_record() {
        DeliveryRecord::Status | DeliveryRecord::Time => format!(
            "UPDATE {{table}} AS t SET {sets} FROM {rows} WHERE {row} AND {{c.is_open}} RETURNING c.id"
        ),
        DeliveryRecord::Deleted => {
            format!("DELETE FROM {{table}} AS t USING {rows} WHERE {row} AND {{c.is_open}} RETURNING c.id")
        }
        DeliveryRecord::Noted => format!(
            "INSERT INTO {{schema}}.row_done (row_id)
             SELECT c.id FROM {rows} JOIN {{table}} AS t ON {row}
             ON CONFLICT (row_id) DO NOTHING
             RETURNING row_id"
        ),
    }
}

/// Records a failed attempt of the rows in a parameter, or that they are given up.
fn failed(map: &ColumnMap, ids: &str, attempts: &str, is_given_up: bool) -> String {
    let rows =
        format!("fence, unnest((SELECT {ids}::text[]), (SELECT {attempts}::bigint[])) AS c (id, attempts)");
    let (count, now) =
        (format!("least(c.attempts, {})", attempts_max(map)), now(map, MappedField::GivenUpAt));
    match set_failed::<Postgres>(map, &count, &now, is_given_up) {
        Some(sets) => format!(
            "UPDATE {{table}} AS t SET {sets} FROM {rows}
             WHERE t.{{c.id}} = {{c.each}} AND {{c.is_open}}
             RETURNING c.id"
        ),
        None => format!("SELECT c.id FROM {rows}"),
    }
}

/// Deletes old delivered rows; none if the table has no time.
fn delete_delivered(map: &ColumnMap) -> String {
    match (map.delivery_record(), retention_time::<Postgres>(map)) {
        (DeliveryRecord::Status | DeliveryRecord::Time, Some(time)) => format!(
            "DELETE FROM {{table}}
             WHERE {{c.id}} IN (SELECT t.{{c.id}}
                                FROM {{table}} AS t
                                WHERE {{c.is_done}} AND {time} < {CUTOFF}
                                ORDER BY {time}
                                LIMIT $2
                                FOR UPDATE SKIP LOCKED)"
        ),
        (DeliveryRecord::Deleted | DeliveryRecord::Noted, _) | (_, None) => "SELECT 1 WHERE false".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_replaced() {
        let maps = [ColumnMap::debezium(), ColumnMap::debezium().deleting()];
        for (map, (name, _)) in
            maps.iter().flat_map(|map| Postgres::statements(map).into_iter().map(move |p| (map, p)))
        {
            let text = map.put_into_postgres(name);
            assert!(!text.contains("{c."), "{name}: {text}");
        }
    }
}
