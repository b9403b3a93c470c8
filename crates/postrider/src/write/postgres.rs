//! The INSERT for PostgreSQL: one statement for any number of events.

#[cfg(feature = "_postgres_driver")]
use std::sync::LazyLock;

use uuid::Uuid;

use super::Written;
#[cfg(feature = "_postgres_driver")]
use super::columns::{Columns, EVENT_COLUMNS, Value};
use super::columns::{Kind, list, names, positions_missing};
use crate::{Position, Result};

/// The INSERT of any number of events:
///
/// ```sql
/// INSERT INTO {schema}.events (id, type, ...)
/// SELECT id, type, headers::json, ... FROM unnest($1::uuid[], $2::text[], ...)
///     WITH ORDINALITY AS event (id, type, ..., ordinal)
/// ORDER BY ordinal RETURNING id, position
/// ```
///
/// One array per column; a row has its values at the same index of every array. The database assigns the positions, in
/// the order of the arrays. Uses no index.
#[cfg(feature = "_postgres_driver")]
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let mut number = 0;
    let arrays = list(|column| {
        number += 1;
        format!("${number}::{}[]", parameter_type(column.kind))
    });
    let names = names("");
    let values = list(|column| value(column.kind, column.name));
    format!(
        "INSERT INTO {{schema}}.events ({names}) SELECT {values} \
         FROM unnest({arrays}) WITH ORDINALITY AS event ({names}, ordinal) \
         ORDER BY ordinal RETURNING id, position"
    )
});

/// The same for one event, the usual case. If a statement is planned at every use, the one with arrays costs the server
/// three times as much. Uses no index.
#[cfg(feature = "tokio-postgres")]
pub(super) static INSERT_ONE: LazyLock<String> = LazyLock::new(|| {
    let mut number = 0;
    let values = list(|column| {
        number += 1;
        value(column.kind, &format!("${number}::{}", parameter_type(column.kind)))
    });
    format!("INSERT INTO {{schema}}.events ({}) VALUES ({values}) RETURNING id, position", names(""))
});

/// The statement for this number of rows, for drivers without arrays.
#[cfg(feature = "sea-orm")]
pub(super) fn statement(schema: &crate::Ident, rows: usize) -> String {
    let mut number = 0;
    let mut row = || {
        let values = list(|column| {
            number += 1;
            match column.kind {
                // Sent as text: SeaORM without `with-uuid` has no type for it.
                Kind::Id => format!("${number}::text::uuid"),
                kind => value(kind, &format!("${number}::{}", parameter_type(kind))),
            }
        });
        format!("({values})")
    };
    let rows: Vec<String> = (0..rows).map(|_| row()).collect();
    let insert = format!("INSERT INTO {{schema}}.events ({}) VALUES ", names(""));
    schema.put_into(&insert) + &rows.join(", ") + " RETURNING id::text, position"
}

/// The type that a value of a column is sent as.
fn parameter_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Id => "uuid",
        Kind::Text | Kind::Json => "text",
        Kind::Bytes => "bytea",
        Kind::Number | Kind::Time => "bigint",
    }
}

/// The expression that converts a parameter to the column's type. Microseconds since 1970 are split, so that the
/// arithmetic of intervals loses no digit. Operators are qualified with their schema, because the application's session
/// may have any `search_path`.
fn value(kind: Kind, sent: &str) -> String {
    match kind {
        Kind::Id | Kind::Text | Kind::Bytes | Kind::Number => sent.to_owned(),
        Kind::Json => format!("{sent}::json"),
        Kind::Time => format!(
            "(timestamptz 'epoch' OPERATOR(pg_catalog.+) \
             (({sent} OPERATOR(pg_catalog./) 1000000) OPERATOR(pg_catalog.*) interval '1 second')) \
             OPERATOR(pg_catalog.+) \
             (({sent} OPERATOR(pg_catalog.%) 1000000) OPERATOR(pg_catalog.*) interval '1 microsecond')"
        ),
    }
}

/// The values of one column of a batch.
#[cfg(feature = "_postgres_driver")]
pub(super) enum Array<'a> {
    Ids(Vec<Uuid>),
    Texts(Vec<Option<&'a str>>),
    Bytes(Vec<&'a [u8]>),
    Numbers(Vec<Option<i64>>),
}

/// The columns of a batch, in the order of the parameters of [`INSERT`].
#[cfg(feature = "_postgres_driver")]
pub(super) fn arrays<'a>(rows: &'a [Columns<'a>]) -> impl Iterator<Item = Array<'a>> {
    EVENT_COLUMNS.iter().map(move |column| {
        let values = rows.iter().map(|row| column.value(row));
        match column.kind {
            Kind::Id => Array::Ids(rows.iter().map(|row| row.event.id).collect()),
            Kind::Text | Kind::Json => Array::Texts(values.map(Value::text).collect()),
            Kind::Bytes => Array::Bytes(values.map(Value::bytes).collect()),
            Kind::Number | Kind::Time => Array::Numbers(values.map(Value::number).collect()),
        }
    })
}

/// The written events, if the answer contains the events of these rows in this order.
#[cfg(feature = "_postgres_driver")]
pub(super) fn written_rows(rows: &[Columns<'_>], answer: Vec<(Uuid, i64)>) -> Result<Vec<Written>> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.event.id).collect();
    written(&ids, answer)
}

/// The written events, if the answer contains these ids in this order.
pub(super) fn written(ids: &[Uuid], answer: Vec<(Uuid, i64)>) -> Result<Vec<Written>> {
    let is_complete = answer.iter().map(|(id, _)| id).eq(ids)
        && answer.is_sorted_by(|(_, before), (_, after)| before < after);
    if !is_complete {
        return Err(positions_missing());
    }
    let written = |(id, position)| Written { id, position: Position::new(position) };
    Ok(answer.into_iter().map(written).collect())
}
