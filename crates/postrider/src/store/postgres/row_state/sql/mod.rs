//! The statements, one file per layout, each with the same names.
//!
//! All of them take their parameters in the same order, whether they use each or not, so that the code around them
//! is the same for every layout. Rows are known by their id as text.
//!
//! Arrays are wrapped in a SELECT: a planner that counts their elements reads a whole table instead of some thousand
//! entries of its primary key.

mod custom;
mod event_outbox;
mod outbox;
mod outbox_events;

use crate::layout::RowLayout;

/// The statements of a layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sql {
    /// Ids of due rows in their order. `$1` how many, `$2` limit of attempts, `$3` microseconds after which the
    /// claim of another process is over.
    pub(super) list: &'static str,
    /// Rows by id, in the order asked, due or not. `$1` bytes up to which a payload comes along, `$2` ids, `$3` limit
    /// of attempts, `$4` as `$3` of `list`. The columns are those of [`event`](super::event).
    pub(super) read: &'static str,
    /// Payloads by id (`$1`): id, payload.
    pub(super) payloads: &'static str,
    /// Marks rows as being published, where the layout can: `$1` name, `$2` epoch, `$3` ids, `$4` attempts seen,
    /// `$5` and `$6` the server, `$7` as `$3` of `list`. Answers id, time, number of the claim; no row at all if the
    /// epoch is not ours, a row of NULL if nothing was won.
    pub(super) claim: Option<&'static str>,
    /// Locks rows in a transaction that stays open, where the layout has no such mark: `$1` name, `$2` epoch, `$3` ids,
    /// `$4` attempts seen. Answers id and time of those that were free.
    pub(super) lock: Option<&'static str>,
    /// Gives back what was claimed and is not settled: `$1` name, `$2` epoch. Answers how many.
    pub(super) give_back: Option<&'static str>,
    /// Rows that another publisher is publishing: how many since ten minutes ago, and how many in all.
    pub(super) foreign: Option<&'static str>,
    /// Records outcomes; see [`settle`](super::settle).
    pub(super) settle: &'static str,
    /// Records deliveries alone, beside a settle: `$1` name, `$2` epoch, `$3` and `$4` the server, `$5` ids, `$6`
    /// times of their claims. Answers as `settle` does.
    pub(super) deliver: &'static str,
    /// Noted rows beside what the table says of them: `$1` limit of attempts. See [`load`](super::load).
    pub(super) load: &'static str,
    /// Rows without a note that must wait, where the table says so: id, key, attempts, time, creation.
    pub(super) waiting: Option<&'static str>,
    /// Deletes what is delivered and old, whichever program delivered it: `$1` microseconds, `$2` how many. What was
    /// delivered from here is deleted by `delete_own`.
    pub(super) delete_delivered: &'static str,
    /// Deletes what was delivered from here and is old: `$1` microseconds, `$2` how many. Answers how many rows, and how many
    /// notes.
    pub(super) delete_own: &'static str,
    /// The same for rows past their own `expires_at`, where the layout has it.
    pub(super) delete_own_expired: Option<&'static str>,
    /// What is neither done nor noted: `$1` how many to count, `$2` limit of attempts. Answers their number, and the
    /// creation of the first.
    pub(super) backlog: &'static str,
    /// Creation of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state: `$1` limit of attempts. Answers how many are pending, being published, failed and due again,
    /// given up, delivered; how many of those given up wait for a route; the creation of the first and the last that is
    /// undelivered. No index: all of the table is read.
    pub(super) counts: &'static str,
    /// Makes the tables of the layout, in the order of its shapes.
    pub(super) create: &'static [&'static str],
    /// The newest rows that pass a filter: see [`list`](super::list).
    pub(super) search: &'static str,
    /// The same of one aggregate.
    pub(super) search_aggregate: &'static str,
    /// The state of every row; see [`event_states`](super::event_states).
    pub(super) event_states: &'static str,
    /// How events of another outbox are written to the table. No mapped table is written to.
    pub(super) adopt: Adopt,
}

/// What the table needs beside its writer, when events are handed over to it.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::postgres) struct Adopt {
    /// Deletes delivered rows with the ids `$1`, where those are the rows' own: an event that came from this table and
    /// comes back finds the row it was handed over from.
    pub(in crate::store::postgres) make_way: Option<&'static str>,
    /// Records tries: `$1` id, `$2` how many, `$3` limit. A row that has used up its tries has one left, or it would count
    /// as given up. Index: the primary key (id).
    pub(in crate::store::postgres) tried: &'static str,
}

/// How events are handed over to a table of this layout.
pub(in crate::store::postgres) const fn adopt(layout: RowLayout) -> Adopt {
    Sql::of(layout).adopt
}

impl Sql {
    pub(super) const fn of(layout: RowLayout) -> Self {
        match layout {
            RowLayout::EventOutbox => event_outbox::SQL,
            RowLayout::Outbox => outbox::SQL,
            RowLayout::OutboxEvents => outbox_events::SQL,
            RowLayout::Custom => custom::SQL,
        }
    }
}

/// A payload as text if it is small enough, and its length if that is not cheaply known. A value below 2,000 bytes
/// is never compressed, so its size is no surprise.
macro_rules! body {
    () => {
        "CASE WHEN pg_column_size(t.payload) < 2000 OR octet_length(t.payload::text) <= $1 THEN t.payload::text END,
         CASE WHEN pg_column_size(t.payload) >= 2000 THEN octet_length(t.payload::text)::bigint END"
    };
}
use body;

/// The begin of every settle: the lock on the subscription's row, on the server where the lease was taken. Where it
/// finds nothing, nothing else happens. Index: the primary key (name).
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

/// The begin of a statement that runs beside a settle: a takeover waits for it, and no settle does. Index: the primary
/// key (name).
macro_rules! fence_beside {
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
use fence_beside;

/// The end of a statement that records deliveries alone.
macro_rules! delivered {
    () => {
        concat!(
            " SELECT EXISTS (SELECT FROM fence), ",
            on_server!("$3", "$4"),
            ", (SELECT count(*) FROM done)"
        )
    };
}
use delivered;

/// The end of every settle: notes written and removed, claims that are over, and how many rows were changed.
/// Indexes: the primary keys (row_id) and (number).
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
             ), forgotten AS (
                 DELETE FROM {schema}.row_notes AS n USING fence WHERE n.row_id = ANY ($25::text[])
             ), recorded AS (
                 DELETE FROM {schema}.row_refused AS n USING fence WHERE n.row_id = ANY ($25::text[])
             ), claimed AS (
                 DELETE FROM {schema}.row_claims AS c USING fence WHERE c.number = ANY ($26::bigint[])
             )
             SELECT EXISTS (SELECT FROM fence), ",
            on_server!("$5", "$6"),
            ", (SELECT count(*) FROM done) + (SELECT count(*) FROM retried) + (SELECT count(*) FROM ended)
             + (SELECT count(*) FROM returned)"
        )
    };
}

/// The end of a count: what waits for a route, and when the undelivered rows were made.
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
use undelivered;

use super::super::history::{on_server, started, timeline};
use notes;

/// What is asked, the same in all: `$1` and `$2` aggregate, `$3` type, `$4` and `$5` time, `$6` payload, `$7` status.
macro_rules! asked {
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
use asked;

/// The one subscription of the table, if it is there.
macro_rules! subscription {
    () => {
        "(SELECT min(name) FROM {schema}.subscriptions) AS subscription"
    };
}
use subscription;

/// A note does not say that the row waits.
macro_rules! backoff_is_over {
    () => {
        "NOT coalesce(noted.next_attempt_at > statement_timestamp(), false)"
    };
}
use backoff_is_over;

/// Deletes rows whose note is older than `$1` microseconds, `$2` at most, and these notes. Answers how many rows, and how
/// many notes. A row that was made a day after its note is another one, under a number that was given out again.
/// Indexes: row_done (done_at), from its begin, and the primary key of the table.
macro_rules! delete_own {
    ($row:literal, $is_done:literal, $made:literal, $is_ripe:literal) => {
        concat!(
            "WITH old AS (
                 SELECT n.row_id, n.done_at
                 FROM {schema}.row_done AS n
                 LEFT JOIN {table} AS t ON ",
            $row,
            "    WHERE n.done_at < statement_timestamp() - $1::bigint * interval '1 microsecond' AND ",
            $is_ripe,
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
            $made,
            " <= n.done_at + interval '1 day', true)
                 RETURNING 1
             ), forgotten AS (
                 DELETE FROM {schema}.row_done AS d USING old WHERE d.row_id = old.row_id RETURNING 1
             )
             SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)"
        )
    };
}
use delete_own;
