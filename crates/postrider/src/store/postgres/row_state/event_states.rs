//! The state of every row, one SELECT per layout; [`event_counts`](crate::store::event_counts) counts what it returns.
//!
//! `{limit}` stands for tries after which a row is given up, `{abandoned}` for whether the claim of another publisher on the
//! row `t` is over. Index of all: none, the table is read.

use super::sql::Sql;
use crate::Ident;
use crate::layout::RowTable;

/// The SELECT about a table.
pub(super) fn events(schema: &Ident, table: &RowTable) -> String {
    let events = Sql::of(table.layout).event_states;
    let abandoned = match table.foreign_claim_timeout {
        Some(timeout) => format!(
            "t.status = 'PUBLISHING'
               AND t.last_attempt_at < statement_timestamp() - {} * interval '1 microsecond'",
            i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX)
        ),
        None => "false".to_owned(),
    };
    let events =
        events.replace("{limit}", &table.max_attempts.to_string()).replace("{abandoned}", &abandoned);
    schema.put_into(&table.put_into(&events))
}
