//! The statements of the inbox in a SQLite file. Times are microseconds since 1970.

/// Inserts the row of a group and an event, which expires after a number of microseconds. One transaction writes at a time,
/// so another with the same row has ended. Index: the primary key (consumer_group, event_id).
pub(crate) const RECEIVE: &str = "
    INSERT INTO postrider_inbox (consumer_group, event_id, expires_at)
    VALUES (?, ?, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + ?)
    ON CONFLICT (consumer_group, event_id) DO NOTHING";

/// Deletes rows that have expired, and that were processed more than a number of microseconds ago, up to a number of rows.
/// Indexes: postrider_inbox_expires_at (expires_at), from its begin, and the primary key.
pub(crate) const DELETE_EXPIRED: &str = "
    DELETE FROM postrider_inbox
    WHERE (consumer_group, event_id) IN (
        SELECT consumer_group, event_id
        FROM postrider_inbox
        WHERE expires_at < CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
          AND processed_at <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - ?
        ORDER BY expires_at
        LIMIT ?)";
