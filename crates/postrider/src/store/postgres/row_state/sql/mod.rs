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
    /// claim of somebody else is over.
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
    /// Rows that somebody else is publishing: how many since ten minutes ago, and how many in all.
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
    /// delivered from here is deleted by [`own`](super::own).
    pub(super) trim: &'static str,
    /// What is neither done nor noted: `$1` how many to count, `$2` limit of attempts. Answers their number, and the
    /// creation of the first.
    pub(super) backlog: &'static str,
    /// Creation of the newest row.
    pub(super) newest: &'static str,
    /// All rows by state: `$1` limit of attempts. Answers how many are pending, being published, failed and due again,
    /// given up, delivered; how many of those given up wait for a route; the creation of the first and the last that is
    /// undelivered. No index: all of the table is read.
    pub(super) counts: &'static str,
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
