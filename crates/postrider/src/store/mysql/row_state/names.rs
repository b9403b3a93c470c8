//! What is written into statements about a table with a state per row.

use crate::layout::RowTable;

/// The table, and what is known of it.
#[derive(Debug, Clone)]
pub(in crate::store::mysql) struct Names {
    pub(super) table: RowTable,
    /// It has the column `max_attempts`.
    pub(super) has_own_limit: bool,
}

impl Names {
    /// The statement with all of it put in.
    pub(in crate::store::mysql) fn put_into(&self, statement: &str) -> String {
        let abandoned = match self.table.foreign_claim_timeout {
            Some(timeout) => format!(
                "(t.status = 'PUBLISHING' AND t.last_attempt_at < UTC_TIMESTAMP(6) - INTERVAL {} MICROSECOND)",
                i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX / 2)
            ),
            None => "FALSE".to_owned(),
        };
        self.table
            .put_into_mysql(statement)
            .replace("{limit}", &self.table.limit_of_row(self.has_own_limit))
            .replace("{abandoned}", &abandoned)
    }
}
