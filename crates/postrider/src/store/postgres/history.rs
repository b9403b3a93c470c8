//! The identity of the server, and the queries that show the history of its outbox.

use tokio_postgres::Client;

use super::failure::failed;
use super::row;
use super::session::Tx;
use super::statement::query_unnamed;
use crate::ledger::{Intervals, LastSeen};
use crate::store::Origin;
use crate::{Code, Error, Position, Result};

/// One run of one server: a restart begins another one, and so does a failover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Incarnation {
    /// The cluster and its timeline. A promoted standby has the same cluster and another timeline, which lacks what the
    /// old primary had not sent.
    pub(super) history: String,
    /// When its postmaster started.
    pub(super) started: String,
}

/// The properties of a server that decide whether it can be used.
#[derive(Debug, Clone)]
pub(super) struct ServerProperties {
    /// `server_version_num`: 150004 is 15.4.
    pub(super) version: i32,
    /// A standby that replays the history of another server.
    pub(super) in_recovery: bool,
    /// The encoding of the database, such as `UTF8`.
    pub(super) encoding: String,
}

/// The timeline: the first part of a WAL file's name.
macro_rules! timeline {
    () => {
        "left(pg_walfile_name(pg_current_wal_lsn()), 8)"
    };
}
pub(super) use timeline;

/// When the postmaster started, independent of the session's time zone.
macro_rules! started {
    () => {
        "extract(epoch FROM pg_postmaster_start_time())::text"
    };
}
pub(super) use started;

/// A condition that holds on the server with this start time and timeline.
macro_rules! on_server {
    ($started:literal, $timeline:literal) => {
        concat!(started!(), " = ", $started, " AND ", timeline!(), " = ", $timeline)
    };
}
pub(super) use on_server;

/// The identity of the server, for a pooled connection, whose server may change. Reads no table.
pub(super) const SERVER_IDENTITY: &str = concat!("SELECT ", started!(), ", ", timeline!());

impl Incarnation {
    pub(super) async fn of(client: &Client) -> Result<(Self, ServerProperties)> {
        // Reads no table.
        let sql = concat!(
            "SELECT current_setting('server_version_num')::int,
                    pg_is_in_recovery(),
                    system_identifier::text || '/' || CASE WHEN pg_is_in_recovery() THEN '' ELSE ",
            timeline!(),
            " END, ",
            started!(),
            ", current_setting('server_encoding') FROM pg_control_system()"
        );
        let rows = query_unnamed(client, sql, &[]).await.map_err(failed)?;
        let row = rows.first().ok_or_else(|| Error::new(Code::StoreFailed, "PostgreSQL gave no answer"))?;
        let kind = ServerProperties {
            version: row.try_get(0).map_err(failed)?,
            in_recovery: row.try_get(1).map_err(failed)?,
            encoding: row.try_get(4).map_err(failed)?,
        };
        let incarnation =
            Self { history: row.try_get(2).map_err(failed)?, started: row.try_get(3).map_err(failed)? };
        Ok((incarnation, kind))
    }

    /// The same as the public type.
    pub(super) fn origin(&self) -> Origin {
        Origin { history: self.history.clone(), started: self.started.clone() }
    }

    /// Whether this is the run with this start time and timeline.
    pub(super) fn is_same(&self, started: &str, timeline: &str) -> bool {
        started == self.started && timeline == self.timeline()
    }

    /// The timeline, without the cluster.
    pub(super) fn timeline(&self) -> &str {
        self.history.rsplit_once('/').map_or("", |(_, timeline)| timeline)
    }
}

impl From<Origin> for Incarnation {
    fn from(Origin { history, started }: Origin) -> Self {
        Self { history, started }
    }
}

/// The last position that the sequence assigned, for a SELECT from the sequence. Not its column `last_value`: that is
/// read without a lock, and may show 32 more for a moment while a writer logs ahead. The FROM requires the right to
/// read the sequence; without that right, newer servers return NULL here.
macro_rules! last_taken {
    () => {
        "coalesce(pg_sequence_last_value('{schema}.events_position_seq'::regclass), 0)"
    };
}
pub(super) use last_taken;

/// The highest position ever taken, committed or not.
pub(super) async fn last_position(tx: &Tx<'_>) -> Result<Position> {
    // No index: the one row of a sequence.
    let sql = concat!("SELECT ", last_taken!(), " FROM {schema}.events_position_seq");
    let row = tx.query_opt(sql, &[]).await?;
    row.map_or(Ok(Position::ZERO), |row| row::position(&row, 0))
}

/// The last event at or below a position.
pub(super) async fn last_at_or_below(tx: &Tx<'_>, position: Position) -> Result<Option<LastSeen>> {
    // Index: the primary key (position), read backwards by one row.
    let sql = "SELECT position, id
               FROM ONLY {schema}.events
               WHERE position <= $1
               ORDER BY position DESC
               LIMIT 1";
    let row = tx.query_opt(sql, &[&position.get()]).await?;
    row.map(|row| Ok(LastSeen { position: row::position(&row, 0)?, id: row::get(&row, 1)? })).transpose()
}

/// The number of events that [`positions_reused`] examines, from the highest position down.
const TOP_EVENTS: i64 = 1_000;

/// Detects that the sequence was set back: a position that is `done` holds an event that was written later, which a
/// relay would never read. Returns a sentence for operators. A sequence that is still below the positions that are done
/// is detected elsewhere. One that has passed them has left events at the free positions on its way, of which the
/// highest are examined.
///
/// An event in a gap of the positions that are done proves nothing: its writer may have committed late, and it will be
/// read. Neither does an event from a dump of another server: its transaction id belongs to that server, and its row
/// was stored before the progress.
pub(super) async fn positions_reused(
    tx: &Tx<'_>,
    done: &Intervals,
    seen_tx: Option<&str>,
) -> Result<Option<String>> {
    let Some(seen_tx) = seen_tx else { return Ok(None) };
    // Index: the primary key (position), read backwards.
    let sql = "SELECT min(position), max(position), count(*)
               FROM (SELECT position, tx, xmin AS stored FROM ONLY {schema}.events
                     WHERE position <= $1
                     ORDER BY position DESC
                     LIMIT $2) AS top
               WHERE tx >= $3::text::xid8 AND tx < pg_snapshot_xmax(pg_current_snapshot())
                 AND age(stored) <= age($3::text::xid8::xid)
                 AND NOT EXISTS (SELECT FROM unnest($4::bigint[], $5::bigint[]) AS gap (first, last)
                                 WHERE top.position BETWEEN gap.first AND gap.last)";
    let highest = done.highest();
    let gaps = done.gaps(highest).into_iter().map(|(first, last)| (first.get(), last.get()));
    let (firsts, lasts): (Vec<i64>, Vec<i64>) = gaps.unzip();
    let row = tx.query_opt(sql, &[&highest.get(), &TOP_EVENTS, &seen_tx, &firsts, &lasts]).await?;
    let Some(row) = row else { return Ok(None) };
    let (first, last, count): (Option<i64>, Option<i64>, i64) =
        (row::get(&row, 0)?, row::get(&row, 1)?, row::get(&row, 2)?);
    let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
    Ok(Some(format!(
        "positions up to {highest} were assigned before, and {count} later events are at {first} to {last}: \
         the sequence was set back. `--from position:{first}` delivers them, and repeats all other events from \
         {first} on"
    )))
}
