//! INSERTs for MySQL and MariaDB: many rows in one statement.

use std::sync::LazyLock;

use super::columns::{Kind, list, names};
use crate::Ident;

/// Uses no index. The database assigns the positions, in the order of the rows and without gaps: the number of rows is
/// known, so InnoDB reserves all positions at once in every `innodb_autoinc_lock_mode`.
static INSERT: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO {{schema}}.events ({}) VALUES ", names("`")));

/// One row. Times are sent as microseconds since 1970 and stored as UTC, independent of the session's time zone.
static ROW: LazyLock<String> = LazyLock::new(|| {
    let value = |kind| match kind {
        Kind::Time => "TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')".to_owned(),
        Kind::Id | Kind::Text | Kind::Json | Kind::Bytes | Kind::Number => "?".to_owned(),
    };
    format!("({})", list(|column| value(column.kind)))
});

/// The statement for this number of rows.
pub(super) fn statement(schema: &Ident, rows: usize) -> String {
    schema.put_into_mysql(&INSERT) + &vec![ROW.as_str(); rows].join(", ")
}
