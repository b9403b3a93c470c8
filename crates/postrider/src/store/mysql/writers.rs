//! Which transactions may still commit an event at a position that was taken earlier.
//!
//! Every writer of a table holds a metadata lock on it, from before it takes a position until after its transaction has
//! ended. The holders are therefore the writers, if every transaction keeps one name; see [`WriterNames`]. ADR 18 explains
//! why each part is needed. On a server that does not report metadata locks, [`Engine`] lists the transactions.

use std::time::Duration;

use super::engine::Engine;
use super::history::{self, last_row};
use super::locks::{Holders, Locks};
use super::names::WriterNames;
use super::ranges::within;
use super::row::{get_opt, position};
use super::session::{Access, Params, Session, Tx};
use crate::store::holes::Holes;
use crate::store::writer_watch::Writers;
use crate::{Position, Result};

/// The next position that the counter will assign, if the server reports it. Index: that of the dictionary, by name.
const COUNTER: &str = "
    SELECT auto_increment
    FROM information_schema.tables
    WHERE table_schema = '{name}' AND table_name = 'events'";

/// Lists the writers repeatedly.
#[derive(Debug, Default)]
pub(super) struct Lister {
    names: WriterNames,
    engine: Engine,
    /// The warning that the list is incomplete was logged.
    has_warned: bool,
}

/// One list of the writers.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) writers: Writers,
    /// The highest position that was assigned when the writers had been listed. Higher ones were assigned later.
    pub(super) assigned_up_to: Position,
    /// Positions in old holes with an uncommitted row of any transaction.
    pub(super) held: Vec<Position>,
}

impl Lister {
    /// The current writers, if there are holes that need the list. The connection must not be in a transaction.
    pub(super) async fn list(
        &mut self,
        session: &mut Session,
        holes: &Holes,
        now: Duration,
    ) -> Result<Option<Listed>> {
        if !holes.wants_writers(now) {
            return Ok(None);
        }
        let listed = match session.server.locks {
            // WriterNames are assigned here, so that they stay the same even if a later query fails.
            Some(locks) => {
                let found = holders(session, locks).await?;
                self.warn_if_incomplete(found)
                    .map(|(holders, assigned_up_to)| (self.names.of(holders), assigned_up_to))
            }
            None => {
                let writers = self.engine.list(session, now).await?;
                writers.map(|writers| (writers, Position::new(i64::MAX)))
            }
        };
        let Some((writers, assigned_up_to)) = listed else { return Ok(None) };
        let held = match session.server.locks {
            Some(Locks::MySql) => Vec::new(),
            _ => uncommitted(session, holes, now).await?,
        };
        Ok(Some(Listed { writers, assigned_up_to, held }))
    }

    /// Logs a warning once if the list is incomplete.
    fn warn_if_incomplete<T>(&mut self, listed: Option<T>) -> Option<T> {
        if listed.is_none() && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                "the server does not report all metadata locks (performance_schema_metadata_lock_lost, \
                 performance_schema_thread_instances_lost, or the instrument was turned off): rolled-back \
                 positions stay holes"
            );
        }
        listed
    }
}

/// The holders of locks, and the highest position taken after they were listed.
async fn holders(session: &mut Session, locks: Locks) -> Result<Option<(Holders, Position)>> {
    let counter = COUNTER.replace("{name}", session.schema().as_str());
    let statements = format!("{};\n{counter}", locks.statements(session.schema()));
    let mut answers = session.several(Access::Reads, &statements).await?;
    let next = answers.pop().and_then(|rows| rows.into_iter().next());
    // Without a counter no position was assigned yet, or the table is being altered: then nothing is known.
    let next = next.map(|row| get_opt::<u64>(&row, 0)).transpose()?.flatten();
    let assigned_up_to = next.map_or(Position::LAST, history::below);
    Ok(locks.read(answers)?.map(|holders| (holders, assigned_up_to)))
}

/// The number of locks and prepared transactions.
pub(super) async fn count(session: &mut Session) -> Result<Option<usize>> {
    let Some(locks) = session.server.locks else { return Ok(None) };
    let found = holders(session, locks).await?;
    Ok(found.map(|(holders, _)| holders.locks.len() + holders.prepared.len()))
}

/// Uncommitted rows in old holes. On MariaDB, and with the list of the engine, a transaction may be in no list and
/// still have rows (ADR 26); then its holes stay open.
///
/// Reads without a lock and without a snapshot, so that nothing waits for it, and it does not count as a writer.
pub(super) async fn uncommitted(
    session: &mut Session,
    holes: &Holes,
    now: Duration,
) -> Result<Vec<Position>> {
    let old = within(holes.old(now).map(|(first, last)| (first.get(), last.get())));
    // For the next statement only.
    let level = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
    session.autocommit(Access::Reads, level, Params::new()).await?;
    // Index: the primary key (position), one range per hole.
    let sql =
        format!("SELECT position FROM {{schema}}.events FORCE INDEX (PRIMARY) WHERE {old} ORDER BY position");
    let rows = session.autocommit(Access::Reads, &sql, Params::new()).await.inspect_err(|_| {
        // The isolation level may still be set, and the next statement would read uncommitted rows.
        _ = session.give_up();
    })?;
    rows.iter().map(|row| position(row, 0)).collect()
}

/// How many times, and how often, [`decided_up_to`] checks whether the writers have ended. Most transactions are
/// shorter than that, and a lease is longer.
const CHECKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction has ended: an event that a later snapshot does not show there was deleted
/// or rolled back, and will never appear. Zero if some writer takes too long.
///
/// Never above the last event: after a crash, the server may assign positions above it a second time.
pub(super) async fn decided_up_to(tx: &mut Tx<'_>) -> Result<Position> {
    let last = last_row(tx).await?;
    let mut names = WriterNames::default();
    let Some(mut awaited) = listed(tx, &mut names).await? else { return Ok(Position::ZERO) };
    for _ in 0..CHECKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let Some(present) = listed(tx, &mut names).await? else { return Ok(Position::ZERO) };
        awaited.retain(|name, _| present.contains_key(name));
    }
    Ok(Position::ZERO)
}

async fn listed(tx: &mut Tx<'_>, names: &mut WriterNames) -> Result<Option<Writers>> {
    let Some(locks) = tx.server().locks else { return Ok(None) };
    let statements = locks.statements(tx.schema());
    let mut answers = Vec::new();
    for statement in statements.split(";\n") {
        answers.push(tx.query(statement, Params::new()).await?);
    }
    Ok(locks.read(answers)?.map(|holders| names.of(holders)))
}
