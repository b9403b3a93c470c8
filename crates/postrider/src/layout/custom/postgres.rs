//! On PostgreSQL.

use super::field::is_without_zone;
use super::pieces::{Piece, Tongue, age, attempts_max, put_into, set_done, set_tried};
use super::{ColumnMap, ColumnName, Delivered, Field, StateWord};
use crate::layout::Family;

/// Microseconds of `$1` ago.
const CUTOFF: &str = "statement_timestamp() - $1::bigint * interval '1 microsecond'";

struct Postgres;

impl ColumnMap {
    /// The statement with every `{c....}` replaced by what the map has for it.
    pub(crate) fn put_into_postgres(&self, statement: &str) -> String {
        put_into::<Postgres>(self, statement)
    }
}

impl Tongue for Postgres {
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

    /// In two parts: an interval is multiplied in floating point.
    fn time_of_number(value: &str) -> String {
        format!(
            "timestamptz 'epoch' + ({value} / 1000000) * interval '1 second'
                                 + ({value} % 1000000) * interval '1 microsecond'"
        )
    }

    /// A column that is not JSON is refused before.
    fn member(value: &str, name: &StateWord) -> String {
        format!("({value} ->> {name})")
    }

    fn actions(map: &ColumnMap) -> Vec<Piece> {
        let is_bytes = Family::of(map.type_of(Field::Payload)) == Some(Family::Bytes);
        let mut all = vec![
            ("{c.done 7}", done(map, "$7")),
            ("{c.done 5}", done(map, "$5")),
            ("{c.retried}", tried(map, "$9", "$11", false)),
            ("{c.ended}", tried(map, "$13", "$15", true)),
            ("{c.trim}", trim(map)),
            ("{c.order}", order(map)),
            ("{c.body}", if is_bytes { "t.{c.payload}" } else { "t.{c.payload}::text" }.to_owned()),
            ("{c.no_body}", if is_bytes { "''::bytea" } else { "''" }.to_owned()),
            (
                "{c.shown_body}",
                if is_bytes { "encode(t.{c.payload}, 'escape')" } else { "t.{c.payload}::text" }.to_owned(),
            ),
            ("{c.asked}", Self::as_id(map, "asked.id")),
            ("{c.each}", Self::as_id(map, "c.id")),
        ];
        all.extend(key_of_two(map));
        all
    }

    fn id_text(map: &ColumnMap) -> Option<String> {
        let (one, two) = (map.column(Field::Id)?, map.column(Field::SecondId)?);
        Some(format!("jsonb_build_array(t.{one}::text, t.{two}::text)::text"))
    }

    /// Of a key of two columns, the row of both.
    fn as_id(map: &ColumnMap, value: &str) -> String {
        match map.column(Field::SecondId) {
            None => format!("{value}::{}", type_of_id(map, Field::Id)),
            Some(_) => {
                let part = |place, field| format!("({value}::jsonb ->> {place})::{}", type_of_id(map, field));
                format!("({}, {})", part(0, Field::Id), part(1, Field::SecondId))
            }
        }
    }
}

/// Where the key has two columns, its id as text is a JSON array of both, and it is compared as a row of both.
fn key_of_two(map: &ColumnMap) -> Vec<Piece> {
    let (Some(one), Some(two)) = (map.column(Field::Id), map.column(Field::SecondId)) else {
        return Vec::new();
    };
    vec![
        ("t.{c.id} IS NOT NULL", format!("(t.{one} IS NOT NULL AND t.{two} IS NOT NULL)")),
        ("SELECT t.{c.id}", format!("SELECT t.{one}, t.{two}")),
        ("t.{c.id}", format!("(t.{one}, t.{two})")),
        ("{c.id}", format!("({one}, {two})")),
    ]
}

/// A type that the id can be compared with on its index.
fn type_of_id(map: &ColumnMap, field: Field) -> &'static str {
    let found = map.type_of(field);
    match Family::of(found) {
        _ if found == "xid8" => "xid8",
        Some(Family::Number) => "bigint",
        Some(Family::Uuid) => "uuid",
        _ if found.starts_with("character(") => "bpchar",
        _ => "text",
    }
}

/// Rows of one transaction have one creation; numbers tell their order. Where there are none `cmin` does, and of rows of
/// one statement ids that grow (UUIDs of version 7), else the place in the table: adr/0040-rows-of-one-statement.md.
fn order(map: &ColumnMap) -> String {
    let is_number = map.column(Field::SecondId).is_some() || type_of_id(map, Field::Id) == "bigint";
    match map.column(Field::Order).or_else(|| map.column(Field::CreatedAt)) {
        Some(column) if is_number => format!("t.{column}, t.{{c.id}}"),
        Some(column) if type_of_id(map, Field::Id) == "uuid" => format!(
            "t.{column}, t.cmin::text::bigint,
             CASE WHEN get_byte(uuid_send(t.{{c.id}}), 6) >> 4 = 7 THEN t.{{c.id}} END, t.ctid, t.{{c.id}}"
        ),
        Some(column) => format!("t.{column}, t.cmin::text::bigint, t.ctid, t.{{c.id}}"),
        None => "t.{c.id}".to_owned(),
    }
}

/// The time now, as a column has it.
fn now(map: &ColumnMap, field: Field) -> String {
    let zone = if is_without_zone(map.type_of(field)) { " AT TIME ZONE 'UTC'" } else { "" };
    format!("clock_timestamp(){zone}")
}

/// Rows of a parameter were delivered.
fn done(map: &ColumnMap, ids: &str) -> String {
    let rows = format!("fence, unnest((SELECT {ids}::text[])) AS c (id)");
    let row = "t.{c.id} = {c.each}";
    let sets = set_done::<Postgres>(map, &now(map, Field::DeliveredAt));
    match map.delivered() {
        Delivered::Status | Delivered::Time => format!(
            "UPDATE {{table}} AS t SET {sets} FROM {rows} WHERE {row} AND {{c.is_open}} RETURNING c.id"
        ),
        Delivered::Deleted => {
            format!("DELETE FROM {{table}} AS t USING {rows} WHERE {row} AND {{c.is_open}} RETURNING c.id")
        }
        Delivered::Noted => format!(
            "INSERT INTO {{schema}}.row_done (row_id)
             SELECT c.id FROM {rows} JOIN {{table}} AS t ON {row}
             ON CONFLICT (row_id) DO NOTHING
             RETURNING row_id"
        ),
    }
}

/// Rows of a parameter were tried once more, or given up.
fn tried(map: &ColumnMap, ids: &str, attempts: &str, is_given_up: bool) -> String {
    let rows =
        format!("fence, unnest((SELECT {ids}::text[]), (SELECT {attempts}::bigint[])) AS c (id, attempts)");
    let (count, now) = (format!("least(c.attempts, {})", attempts_max(map)), now(map, Field::GivenUpAt));
    match set_tried::<Postgres>(map, &count, &now, is_given_up) {
        Some(sets) => format!(
            "UPDATE {{table}} AS t SET {sets} FROM {rows}
             WHERE t.{{c.id}} = {{c.each}} AND {{c.is_open}}
             RETURNING c.id"
        ),
        None => format!("SELECT c.id FROM {rows}"),
    }
}

/// What says that it is delivered and is old goes. Without any time in the table, nothing does.
fn trim(map: &ColumnMap) -> String {
    match (map.delivered(), age::<Postgres>(map)) {
        (Delivered::Status | Delivered::Time, Some(time)) => format!(
            "DELETE FROM {{table}}
             WHERE {{c.id}} IN (SELECT t.{{c.id}}
                                FROM {{table}} AS t
                                WHERE {{c.is_done}} AND {time} < {CUTOFF}
                                ORDER BY {time}
                                LIMIT $2
                                FOR UPDATE SKIP LOCKED)"
        ),
        (Delivered::Deleted | Delivered::Noted, _) | (_, None) => "SELECT 1 WHERE false".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_unsaid_in_a_statement() {
        let maps = [ColumnMap::debezium(), ColumnMap::debezium().deleting()];
        for (map, (name, _)) in
            maps.iter().flat_map(|map| Postgres::actions(map).into_iter().map(move |p| (map, p)))
        {
            let text = map.put_into_postgres(name);
            assert!(!text.contains("{c."), "{name}: {text}");
        }
    }
}
