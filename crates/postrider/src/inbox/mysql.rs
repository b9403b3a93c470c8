//! The statements of the inbox on MySQL and MariaDB.
//!
//! A duplicate is the error 1062 of a plain INSERT, after which the transaction goes on. `INSERT IGNORE` would hide every
//! other error of the row as well and lose its effect; what `ON DUPLICATE KEY UPDATE` reports depends on a flag of the
//! connection, which sqlx sets. See adr/0064-inbox.md.

/// Inserts the row of a group and an event, which expires after a number of microseconds. Waits for another transaction
/// that inserts the same row. Index: the primary key (consumer_group, event_id).
pub(crate) const RECEIVE: &str = "
    INSERT INTO {schema}.inbox (consumer_group, event_id, expires_at)
    VALUES (?, ?, TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)))";

/// Deletes rows that have expired, and that were processed more than a number of microseconds ago, up to a number of rows.
/// Index: inbox_expires_at (expires_at), from its begin.
pub(crate) const DELETE_EXPIRED: &str = "
    DELETE FROM {schema}.inbox
    WHERE expires_at < UTC_TIMESTAMP(6)
      AND processed_at <= TIMESTAMPADD(MICROSECOND, -?, UTC_TIMESTAMP(6))
    ORDER BY expires_at
    LIMIT ?";
