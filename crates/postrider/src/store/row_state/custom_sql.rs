//! Statements about a table of layout `custom` that read the same on every database. The column map replaces `{c....}`,
//! in the syntax of the database; see [`layout::custom`](crate::layout::ColumnMap).

/// Ids of due rows in their order. A row without an id is skipped: it could not be settled. Index: one over the state
/// and the order, if the table has it.
macro_rules! list {
    ($rows_max:literal) => {
        concat!(
            "SELECT {c.id_text}
             FROM {table} AS t
             WHERE {c.is_pending} AND {c.is_not_given_up} AND t.{c.id} IS NOT NULL
             ORDER BY {c.order}
             LIMIT ",
            $rows_max
        )
    };
}
pub(crate) use list;

/// The last row in the order of rows.
pub(crate) const NEWEST: &str = "SELECT max({c.rank}) FROM {table} AS t WHERE {c.is_pending}";

/// All rows by state. No row is being published: a mapped table has no such state. A row whose state the map does not
/// name belongs to another process and is not counted. No index: the whole table is read.
pub(crate) const COUNTS: &str = "
    SELECT count(CASE WHEN {c.is_pending} AND {c.is_not_given_up} AND coalesce({c.attempts}, 0) = 0 THEN 1 END),
           count(NULL),
           count(CASE WHEN {c.is_pending} AND {c.is_not_given_up} AND coalesce({c.attempts}, 0) > 0 THEN 1 END),
           count(CASE WHEN {c.was_given_up} AND NOT ({c.is_done}) THEN 1 END),
           count(CASE WHEN {c.is_done} THEN 1 END),
           (SELECT count(*) FROM {c.notes} AS u WHERE u.state = 'unrouted'),
           min(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END),
           max(CASE WHEN {c.is_pending} AND {c.is_not_given_up} THEN {c.created} END)
    FROM {table} AS t";

/// The state of a row, for [`event_counts`](crate::store::event_counts).
macro_rules! event_state {
    () => {
        "CASE WHEN {c.is_done} THEN 'done' WHEN {c.is_pending} AND {c.is_not_given_up} THEN 'pending'
              ELSE 'failed' END AS state"
    };
}
pub(crate) use event_state;
