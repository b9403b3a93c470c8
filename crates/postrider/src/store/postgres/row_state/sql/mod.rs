//! The statements, one file per layout, each with the same names.
//!
//! The statements of all layouts take the same parameters in the same order, whether they use each of them or not, so
//! that one function runs them all. Rows are identified by their id as text.
//!
//! Arrays are wrapped in a SELECT. If the planner knew how many elements they have, it would scan the whole table
//! instead of reading some thousand entries of its primary key.

mod custom;
mod event_outbox;
mod eventlog;
mod outbox;
mod outbox_events;

use super::super::history::{on_server, started, timeline};
use crate::Ident;
use crate::clock::micros;
use crate::layout::{RowLayout, RowTable};

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    /// Ids of due rows in their order. `$1` how many, `$2` limit of attempts, `$3` microseconds after which the mark of
    /// another publisher is considered abandoned, `$4` names and `$5` event types of the handler.
    pub(super) list: &'static str,
    /// Rows by id, due or not, in the requested order. `$1` bytes up to which a payload is included, `$2` ids, `$3`
    /// limit of attempts, `$4` as `$3` of `list`, `$5` types that the handler knows. The columns are those that [`read`](super::read) reads.
    pub(super) read: &'static str,
    /// Payloads by id (`$1`): id, payload.
    pub(super) payloads: &'static str,
    /// Marks rows as being published, if the layout has a state for that: `$1` name, `$2` epoch, `$3` ids, `$4`
    /// attempts seen, `$5` and `$6` the server, `$7` as `$3` of `list`. Returns id, time and number of the claim; no
    /// row if the epoch has changed, a row of NULLs if no row was marked.
    pub(super) claim: Option<&'static str>,
    /// Locks rows in a transaction that stays open, if the layout has no such state: `$1` name, `$2` epoch, `$3` ids,
    /// `$4` attempts seen. Returns id and time of the rows that were free.
    pub(super) lock: Option<&'static str>,
    /// Removes the marks from rows that are not settled: `$1` name, `$2` epoch. Returns how many.
    pub(super) remove_marks: Option<&'static str>,
    /// Rows that other publishers have marked: how many in the last ten minutes, and how many in total.
    pub(super) foreign_claims: Option<&'static str>,
    /// Records outcomes; see [`settle`](super::settle).
    pub(super) settle: &'static str,
    /// Records deliveries only, in parallel with a settle: `$1` name, `$2` epoch, `$3` and `$4` the server, `$5` ids,
    /// `$6` times of their marks. Returns the same columns as `settle`.
    pub(super) deliver: &'static str,
    /// Notes with the state of their rows in the table: `$1` limit of attempts, `$2` subscription, `$3` types that
    /// the handler knows.
    pub(super) notes: &'static str,
    /// Rows without a note whose next attempt is scheduled for later, if the table has a column for that: `$1`
    /// subscription, `$2` types that the handler knows.
    pub(super) scheduled: Option<&'static str>,
    /// Deletes rows that were delivered long ago, by any program: `$1` microseconds, `$2` how many.
    pub(super) delete_delivered: &'static str,
    /// Deletes rows that Postrider delivered before `$1`, in microseconds since 1970; `$2` how many. Returns how many rows, and how
    /// many notes.
    pub(super) delete_own: &'static str,
    /// The same for rows whose own `expires_at` has passed, if the layout has that column.
    pub(super) delete_own_expired: Option<&'static str>,
    /// Rows that are neither done nor noted: `$1` how many to count, `$2` limit of attempts, `$3` subscription. Returns their number, and
    /// the creation time of the first.
    pub(super) backlog: &'static str,
    /// Creation time of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state, as [`RowCounts`](crate::store::row_state::dialect::RowCounts) lists them: `$1` limit of
    /// attempts. No index: the whole table is read.
    pub(super) counts: &'static str,
    /// Creates the tables of the layout, in the order of its shapes.
    pub(super) create: &'static [&'static str],
    /// The newest rows that pass a filter: see [`list`](super::list).
    pub(super) search: &'static str,
    /// The same for one aggregate.
    pub(super) search_aggregate: &'static str,
    /// The same for the action `$9`, if the layout has an index for it.
    pub(super) search_action: Option<&'static str>,
    /// The state of every row: see [`event_states`]. No index: the whole table is read.
    event_states: &'static str,
    /// How events of another outbox are written to the table. Mapped tables are never written to.
    pub(super) adopt: AdoptSql,
}

/// The statements that moving events into the table needs, in addition to the writer's INSERT.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::postgres) struct AdoptSql {
    /// Deletes delivered rows with the event ids `$1`, if the table requires unique event ids. An event that returns to
    /// the table it came from would otherwise conflict with its old row.
    pub(in crate::store::postgres) delete_returned: Option<&'static str>,
    /// Records attempts: `$1` id, `$2` how many, `$3` limit. A row at its limit keeps one attempt; otherwise it would
    /// count as given up. Index: the primary key (id).
    pub(in crate::store::postgres) set_attempts: &'static str,
}

/// How events of another outbox are written to a table of this layout.
pub(in crate::store::postgres) const fn adopt(layout: RowLayout) -> AdoptSql {
    Sql::of(layout).adopt
}

impl Sql {
    pub(super) const fn of(layout: RowLayout) -> Self {
        match layout {
            RowLayout::Eventlog => eventlog::SQL,
            RowLayout::EventOutbox => event_outbox::SQL,
            RowLayout::Outbox => outbox::SQL,
            RowLayout::OutboxEvents => outbox_events::SQL,
            RowLayout::Custom => custom::SQL,
        }
    }
}

/// The SELECT of the states of all rows, for [`event_counts`](crate::store::event_counts). In it, `{limit}` is the
/// number of attempts after which a row is given up, and `{abandoned}` whether the mark of another publisher on the row
/// `t` is abandoned.
pub(super) fn event_states(schema: &Ident, table: &RowTable) -> String {
    let abandoned = match table.foreign_claim_timeout {
        Some(timeout) => format!(
            "t.status = 'PUBLISHING'
               AND t.last_attempt_at < statement_timestamp() - {} * interval '1 microsecond'",
            micros(timeout)
        ),
        None => "false".to_owned(),
    };
    let statement = Sql::of(table.layout)
        .event_states
        .replace("{limit}", &table.max_attempts.to_string())
        .replace("{abandoned}", &abandoned);
    schema.put_into(&table.put_into(&statement))
}

/// A payload as text if it is small enough, and its length if it is large. A value below 2,000 bytes is never
/// compressed, so its stored size is its real size.
macro_rules! payload {
    () => {
        "CASE WHEN pg_column_size(t.payload) < 2000 OR octet_length(t.payload::text) <= $1 THEN t.payload::text END,
         CASE WHEN pg_column_size(t.payload) >= 2000 THEN octet_length(t.payload::text)::bigint END"
    };
}
use payload;

/// The beginning of every settle: locks the subscription's row, on the server where the lease was taken. If it finds no
/// row, the rest of the statement changes nothing. Index: the primary key (name).
macro_rules! fence {
    () => {
        concat!(
            "WITH fence AS (
                 UPDATE {schema}.subscriptions
                 SET trial = $3, trial_deaths = $4, updated_at = clock_timestamp()
                 WHERE name = $1 AND epoch = $2 AND ",
            on_server!("$5", "$6"),
            "    RETURNING name
             )"
        )
    };
}
use fence;

/// The beginning of a statement that runs in parallel with a settle: a takeover waits for it, a settle does not. Index:
/// the primary key (name).
macro_rules! shared_fence {
    ($started:literal, $timeline:literal) => {
        concat!(
            "WITH fence AS (
                 SELECT name FROM {schema}.subscriptions
                 WHERE name = $1 AND epoch = $2 AND ",
            on_server!($started, $timeline),
            "    FOR KEY SHARE
             )"
        )
    };
}
use shared_fence;

/// The end of a statement that records deliveries only.
macro_rules! count_deliveries {
    () => {
        concat!(
            " SELECT EXISTS (SELECT FROM fence), ",
            on_server!("$3", "$4"),
            ", (SELECT count(*) FROM done)"
        )
    };
}
use count_deliveries;

/// One outcome of a settle: updates these rows, if the fence found the subscription.
macro_rules! outcome {
    ($name:literal, SET $set:expr, FROM $rows:expr, WHERE $condition:expr) => {
        outcome!($name, UPDATE "{table}", SET $set, FROM $rows, WHERE $condition)
    };
    ($name:literal, UPDATE $table:literal, SET $set:expr, FROM $rows:expr, WHERE $condition:expr) => {
        concat!(
            ", ",
            $name,
            " AS (
                 UPDATE ",
            $table,
            " AS t
                 SET ",
            $set,
            "    FROM fence, ",
            $rows,
            "    WHERE ",
            $condition,
            "    RETURNING t.id
             )"
        )
    };
}
use outcome;

/// Ids and times of the marks of delivered rows.
macro_rules! delivered_rows {
    ($ids:literal, $marked_at:literal) => {
        concat!(
            "unnest((SELECT ",
            $ids,
            "::text[]), (SELECT ",
            $marked_at,
            "::timestamptz[])) AS c (id, marked_at)"
        )
    };
}
use delivered_rows;

/// In a layout without marks there is none to remove: each row counts as changed.
macro_rules! nothing_unmarked {
    () => {
        ", unmarked AS (SELECT c.id FROM fence, unnest((SELECT $16::text[])) AS c (id))"
    };
}
use nothing_unmarked;

/// Locks rows that no other publisher has locked and whose attempts are unchanged. Index: the primary key.
macro_rules! lock {
    ($id:literal, ON $row:literal, WHERE $is_open:literal, $attempts:literal) => {
        concat!(
            "SELECT ",
            $id,
            ", now()
             FROM unnest((SELECT $3::text[]), (SELECT $4::bigint[])) AS c (id, attempts)
             JOIN {table} AS t ON ",
            $row,
            " WHERE ",
            $is_open,
            " AND ",
            $attempts,
            " = c.attempts
               AND EXISTS (SELECT FROM {schema}.subscriptions WHERE name = $1 AND epoch = $2)
             FOR KEY SHARE OF t SKIP LOCKED"
        )
    };
}
use lock;

/// The end of a backlog: the number of open rows, and the creation time of the first.
macro_rules! count_open {
    () => {
        "SELECT (SELECT count(*) FROM (SELECT FROM open LIMIT $1) AS counted), (SELECT min(created_at) FROM open)"
    };
}
use count_open;

/// The end of every settle: writes and deletes notes, deletes finished claims, and counts the changed rows. Indexes:
/// the primary keys (row_id) and (number).
macro_rules! notes {
    () => {
        concat!(
            ", noted AS (
                 INSERT INTO {schema}.row_notes AS n (row_id, key, destination, state, attempts, next_attempt_at,
                                                      last_error)
                 SELECT r.*
                 FROM fence, unnest((SELECT $18::text[]), (SELECT $19::text[]), (SELECT $20::text[]), (SELECT $21::text[]), (SELECT $22::bigint[]),
                                    (SELECT $23::timestamptz[]), (SELECT $24::text[])) AS r
                 ON CONFLICT (row_id) DO UPDATE
                 SET key = coalesce(excluded.key, n.key),
                     destination = coalesce(excluded.destination, n.destination),
                     state = excluded.state, attempts = excluded.attempts,
                     next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error,
                     updated_at = excluded.updated_at
             ), refused AS (
                 INSERT INTO {schema}.row_refused AS n (row_id, outcome)
                 SELECT r.row_id, r.outcome
                 FROM fence, unnest((SELECT $18::text[]), (SELECT $27::text[])) AS r (row_id, outcome)
                 WHERE r.outcome IS NOT NULL
                 ON CONFLICT (row_id) DO UPDATE SET outcome = excluded.outcome
             ), obsolete AS (
                 DELETE FROM {schema}.row_notes AS n USING fence WHERE n.row_id = ANY ($25::text[])
             ), recorded AS (
                 DELETE FROM {schema}.row_refused AS n USING fence WHERE n.row_id = ANY ($25::text[])
             ), claimed AS (
                 DELETE FROM {schema}.row_claims AS c USING fence WHERE c.number = ANY ($26::bigint[])
             )
             SELECT EXISTS (SELECT FROM fence), ",
            on_server!("$5", "$6"),
            ", (SELECT count(*) FROM done) + (SELECT count(*) FROM retried) + (SELECT count(*) FROM given_up)
             + (SELECT count(*) FROM unmarked)"
        )
    };
}

/// The end of a count: the unrouted rows, and the creation times of the first and the last undelivered row.
macro_rules! undelivered {
    ($which:literal, $from:literal) => {
        concat!(
            " (SELECT count(*) FROM {schema}.row_notes WHERE state = 'unrouted'),
              min(t.created_at) FILTER (WHERE ",
            $which,
            "), max(t.created_at) FILTER (WHERE ",
            $which,
            ") FROM ",
            $from
        )
    };
}
use {notes, undelivered};

/// The conditions of a search: `$1` and `$2` aggregate, `$3` type, `$4` and `$5` time, `$6` payload, `$7` status.
macro_rules! filter {
    ($kind:literal, $id:literal, $id_type:literal) => {
        concat!(
            "($1::text IS NULL OR t.",
            $kind,
            " = $1) AND ($2::text IS NULL OR t.",
            $id,
            " = $2::text::",
            $id_type,
            ") AND ($3::text IS NULL OR t.event_type = $3)
             AND ($4::timestamptz IS NULL OR t.created_at >= $4)
             AND ($5::timestamptz IS NULL OR t.created_at <= $5)
             AND ($6::text IS NULL OR t.payload::jsonb @> $6::jsonb)
             AND ($7::text IS NULL OR t.status = $7)"
        )
    };
}
use filter;

/// The subscription of the table, if there is one.
macro_rules! subscription {
    () => {
        "(SELECT min(name) FROM {schema}.subscriptions) AS subscription"
    };
}
use subscription;

/// The row's note does not schedule its next attempt for later.
macro_rules! backoff_is_over {
    () => {
        "NOT coalesce(noted.next_attempt_at > statement_timestamp(), false)"
    };
}
use backoff_is_over;

/// Deletes rows whose note is from before `$1`, in microseconds since 1970, at most `$2`, and these notes. Returns how many rows, and
/// how many notes. A row that was created more than a day after its note is another row with a reused number. Indexes:
/// row_done (done_at), from its beginning, and the primary key of the table.
macro_rules! delete_own {
    ($row:literal, $is_done:literal, $created:literal, $may_delete:literal) => {
        concat!(
            "WITH old AS (
                 SELECT n.row_id, n.done_at
                 FROM {schema}.row_done AS n
                 LEFT JOIN {table} AS t ON ",
            $row,
            "    WHERE n.done_at < to_timestamp(0) + $1::bigint * interval '1 microsecond' AND ",
            $may_delete,
            "    ORDER BY n.done_at
                 LIMIT $2::bigint
                 FOR UPDATE OF n SKIP LOCKED
             ), gone AS (
                 DELETE FROM {table} AS t
                 USING old AS n
                 WHERE ",
            $row,
            " AND ",
            $is_done,
            " AND coalesce(",
            $created,
            " <= n.done_at + interval '1 day', true)
                 RETURNING 1
             ), deleted_notes AS (
                 DELETE FROM {schema}.row_done AS d USING old WHERE d.row_id = old.row_id RETURNING 1
             )
             SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM deleted_notes)"
        )
    };
}
use delete_own;
