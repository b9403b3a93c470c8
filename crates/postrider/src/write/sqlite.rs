//! Events as INSERTs of SQLite.

/// The INSERT of one event, with the values of an event in their order. Uses no index; the position is the
/// database's to give.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
pub(super) const INSERT: &str = "
    INSERT INTO postrider_events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                  topic, max_attempts, expires_at, action, namespace, producer)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// The INSERT of so many events. There is one writer at a time, so their positions are neighbours.
#[cfg(feature = "sea-orm")]
pub(super) fn statement(rows: usize) -> String {
    const INSERT: &str = "
        INSERT INTO postrider_events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                      topic, max_attempts, expires_at, action, namespace, producer)
        VALUES ";
    INSERT.to_owned() + &vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ")
}
