//! Who may still commit an event at a position that was taken long ago.
//!
//! Every writer of a table holds a metadata lock on it, from before it takes a position until after its
//! transaction has ended. The list of the holders is therefore a list of writers, once a name stands for one
//! transaction and every transaction keeps its name; see [`Names`]. Why each part of it is needed is explained in
//! ADR 18. Where the locks are not told there is [`Engine`].

use std::time::Duration;

use super::engine::Engine;
use super::history::{self, last_row};
use super::locks::{Holders, Locks};
use super::names::Names;
use super::ranges::within;
use super::row::{get_opt, position};
use super::session::{Access, Params, Session, Tx};
use crate::store::holes::Holes;
use crate::store::writer_watch::Writers;
use crate::{Position, Result};

/// The next position the counter would give, if the server tells. Index: the dictionary's own, by name.
const COUNTER: &str = "
    SELECT auto_increment
    FROM information_schema.tables
    WHERE table_schema = '{name}' AND table_name = 'events'";

/// Asks for the writers, time and again.
#[derive(Debug, Default)]
pub(super) struct Lister {
    names: Names,
    engine: Engine,
    /// Whether the operator was told that the list cannot be had.
    has_warned: bool,
}

/// What a list says.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) writers: Writers,
    /// Every position up to here was taken when they had been listed, committed or not. Higher ones were taken later.
    pub(super) taken: Position,
    /// Positions of old holes at which a row stands that is not committed, whichever process wrote it.
    pub(super) held: Vec<Position>,
}

impl Lister {
    /// The writers at this moment, on a connection that is in no transaction, if there are holes worth it.
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
            // A name that is given is kept: the list counts even if what follows fails.
            Some(locks) => {
                let found = holders(session, locks).await?;
                self.warned(found).map(|(holders, taken)| (self.names.of(holders), taken))
            }
            None => {
                let writers = self.engine.list(session, now).await?;
                writers.map(|writers| (writers, Position::new(i64::MAX)))
            }
        };
        let Some((writers, taken)) = listed else { return Ok(None) };
        let held = match session.server.locks {
            Some(Locks::MySql) => Vec::new(),
            _ => uncommitted(session, holes, now).await?,
        };
        Ok(Some(Listed { writers, taken, held }))
    }

    /// Says once what a list that cannot be had means.
    fn warned<T>(&mut self, listed: Option<T>) -> Option<T> {
        if listed.is_none() && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                "the server does not report all metadata locks (performance_schema_metadata_lock_lost, \
                 performance_schema_thread_instances_lost, or the instrument was turned off): rolled-back \
                 positions stay undecided"
            );
        }
        listed
    }
}

/// The holders of locks, and a position up to which every one was taken by then.
async fn holders(session: &mut Session, locks: Locks) -> Result<Option<(Holders, Position)>> {
    let counter = COUNTER.replace("{name}", session.schema().as_str());
    let statements = format!("{};\n{counter}", locks.statements(session.schema()));
    let mut answers = session.several(Access::Reads, &statements).await?;
    let next = answers.pop().and_then(|rows| rows.into_iter().next());
    // A server that does not tell its counter has given nothing yet, or is being altered: then nothing is known.
    let next = next.map(|row| get_opt::<u64>(&row, 0)).transpose()?.flatten();
    let taken = next.map_or(Position::LAST, history::below);
    Ok(locks.read(answers)?.map(|holders| (holders, taken)))
}

/// How many hold a lock, or are prepared.
pub(super) async fn count(session: &mut Session) -> Result<Option<usize>> {
    let Some(locks) = session.server.locks else { return Ok(None) };
    let found = holders(session, locks).await?;
    Ok(found.map(|(holders, _)| holders.locks.len() + holders.prepared.len()))
}

/// Rows in old holes that are not committed. On MariaDB and with the engine's list a transaction may be
/// unknown to every list and have its rows all the same (ADR 26); then its holes stay.
///
/// Reads without a lock and without a snapshot, so nothing waits for it and it is not taken for a writer.
pub(super) async fn uncommitted(
    session: &mut Session,
    holes: &Holes,
    now: Duration,
) -> Result<Vec<Position>> {
    let old = within(holes.old(now).map(|(first, last)| (first.get(), last.get())));
    // For the next statement alone.
    let level = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
    session.autocommit(Access::Reads, level, Params::new()).await?;
    // Index: the primary key (position), one range per hole.
    let sql =
        format!("SELECT position FROM {{schema}}.events FORCE INDEX (PRIMARY) WHERE {old} ORDER BY position");
    let rows = session.autocommit(Access::Reads, &sql, Params::new()).await.inspect_err(|_| {
        // The level may still be there, and the next statement would read what is not committed.
        _ = session.give_up();
    })?;
    rows.iter().map(|row| position(row, 0)).collect()
}

/// Looks for writers to end, at most, and how long between two of them. Most transactions are shorter than that;
/// a lease is longer.
const LOOKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction has ended: an event that a later snapshot does not show there was deleted
/// or rolled back, and will never appear. Zero if some writer takes too long.
///
/// Never above the last event there is: a crash of the server may take back positions that nothing was
/// committed at or above, and give them again.
pub(super) async fn decided_up_to(tx: &mut Tx<'_>) -> Result<Position> {
    let last = last_row(tx).await?;
    let mut names = Names::default();
    let Some(mut awaited) = listed(tx, &mut names).await? else { return Ok(Position::ZERO) };
    for _ in 0..LOOKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let Some(present) = listed(tx, &mut names).await? else { return Ok(Position::ZERO) };
        awaited.retain(|name, _| present.contains_key(name));
    }
    Ok(Position::ZERO)
}

async fn listed(tx: &mut Tx<'_>, names: &mut Names) -> Result<Option<Writers>> {
    let Some(locks) = tx.server().locks else { return Ok(None) };
    let statements = locks.statements(tx.schema());
    let mut answers = Vec::new();
    for statement in statements.split(";\n") {
        answers.push(tx.query(statement, Params::new()).await?);
    }
    Ok(locks.read(answers)?.map(|holders| names.of(holders)))
}
