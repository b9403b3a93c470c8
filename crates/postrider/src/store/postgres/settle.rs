//! Settling: progress and parked rows in one statement, fenced by the epoch.

use std::collections::{BTreeMap, HashSet};

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Guard;
use super::history::{Incarnation, on_server, started, timeline};
use super::park::{seal, storable};
use super::row::get;
use super::session::Tx;
use super::statement::{NamedParam, NamedStatement, Param};
use super::time::Time;
use crate::ledger::{KnownRows, ParkedRow, Progress, Trial};
use crate::store::{Epoch, Settled, Settlement};
use crate::{Position, Result};

/// The UPDATE that replaces the progress if the epoch is still the subscription's. Index: the primary key (name).
macro_rules! record {
    () => {
        "UPDATE {schema}.subscriptions
         SET floor = {floor}, done = {done}, highest_position = {highest_position}, highest_id = {highest_id},
             trial = {trial}, trial_deaths = {trial_deaths}, updated_at = clock_timestamp(),
             seen_tx = pg_snapshot_xmax(pg_current_snapshot())
         WHERE name = {subscription} AND epoch = {epoch}"
    };
}

/// One statement, so that a relay that dies in the middle leaves no lock and no partial settlement. It starts with
/// the lock on the progress row: either a takeover waits for it, or the takeover came first, `fence` is empty and
/// nothing is changed. Nothing is changed either on another server than the one on which the lease was taken: a
/// promoted standby may have the same epoch, and assigns positions that it never received to other events.
///
/// A parked row that another process has changed does not have the expected seal and is not written. Rows are removed
/// whatever their state is: their events were delivered.
///
/// Indexes: the primary keys (name), (subscription, position) and (position).
static SETTLE: NamedStatement = NamedStatement::new(concat!(
    "WITH fence AS (",
    record!(),
    " AND ",
    on_server!("{started}", "{timeline}"),
    "    RETURNING name
     ), r AS MATERIALIZED (
         SELECT * FROM unnest({parked_positions}::bigint[], {parked_keys}::text[], {parked_destinations}::text[],
                              {parked_states}::text[], {parked_attempts}::bigint[],
                              {parked_next_attempts_at}::timestamptz[], {parked_last_errors}::text[],
                              {parked_seals}::text[])
                       AS r (position, key, destination, state, attempts, next_attempt_at, last_error, seal)
     ), removed AS (
         DELETE FROM {schema}.parked AS p
         USING fence, unnest({removed_positions}::bigint[]) AS r (position)
         WHERE p.subscription = fence.name AND p.position = r.position
     ), changed AS (
         UPDATE {schema}.parked AS p
         SET key = coalesce(r.key, p.key), destination = coalesce(r.destination, p.destination),
             state = r.state, attempts = r.attempts, next_attempt_at = r.next_attempt_at,
             last_error = r.last_error, updated_at = clock_timestamp()
         FROM fence, r
         WHERE p.subscription = fence.name AND p.position = r.position
           AND (r.seal = '*' OR r.seal = ",
    seal!(),
    ")
         RETURNING 1
     ), put AS (
         INSERT INTO {schema}.parked (subscription, position, key, destination, state, attempts,
                                      next_attempt_at, last_error, event_id)
         SELECT fence.name, r.position, r.key, r.destination, r.state, r.attempts, r.next_attempt_at,
                r.last_error, (SELECT id FROM ONLY {schema}.events WHERE position = r.position)
         FROM fence, r
         WHERE r.seal IS NULL OR r.seal = '*'
         ON CONFLICT (subscription, position) DO NOTHING
         RETURNING 1
     )
     SELECT EXISTS (SELECT FROM fence), ",
    on_server!("{started}", "{timeline}"),
    ", (SELECT count(*) FROM changed) + (SELECT count(*) FROM put)",
));

/// The parameters of [`SETTLE`].
struct Values {
    subscription: String,
    epoch: i64,
    progress: ProgressValues,
    parked: ParkedValues,
    removed_positions: Vec<i64>,
    started: String,
    timeline: String,
}

/// A progress as parameters of [`record!`].
struct ProgressValues {
    floor: i64,
    done: String,
    highest_position: Option<i64>,
    highest_id: Option<Uuid>,
    trial: Option<String>,
    trial_deaths: i64,
}

/// Rows to write as one array per column, each position once: a statement cannot update a row twice.
#[derive(Default)]
struct ParkedValues {
    positions: Vec<i64>,
    keys: Vec<Option<String>>,
    destinations: Vec<Option<String>>,
    states: Vec<&'static str>,
    attempts: Vec<i64>,
    next_attempts_at: Vec<Option<Time>>,
    last_errors: Vec<Option<String>>,
    /// The seals that the rows must have now; `None` if there must be no row.
    seals: Vec<Option<String>>,
}

impl Values {
    fn params(&self) -> Vec<NamedParam<'_>> {
        let Self { progress, parked, .. } = self;
        let mut params = progress.params(&self.subscription, &self.epoch).to_vec();
        params.extend::<[NamedParam<'_>; 11]>([
            ("parked_positions", &parked.positions),
            ("parked_keys", &parked.keys),
            ("parked_destinations", &parked.destinations),
            ("parked_states", &parked.states),
            ("parked_attempts", &parked.attempts),
            ("parked_next_attempts_at", &parked.next_attempts_at),
            ("parked_last_errors", &parked.last_errors),
            ("parked_seals", &parked.seals),
            ("removed_positions", &self.removed_positions),
            ("started", &self.started),
            ("timeline", &self.timeline),
        ]);
        params
    }

    fn of(settlement: Settlement, server: &Incarnation, known: &KnownRows) -> Self {
        let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
        let parked = ParkedValues::of(park, epoch, known);
        // One statement cannot both delete a row and write it again; the row that is written wins.
        let kept: HashSet<i64> = parked.positions.iter().copied().collect();
        let removed = unpark.into_iter().filter(|position| !kept.contains(&position.get()));
        let removed_positions = removed.map(Position::get).collect();
        Self {
            subscription,
            epoch: epoch.0,
            progress: ProgressValues::of(&Progress { done, highest, trial }),
            parked,
            removed_positions,
            started: server.started.clone(),
            timeline: server.timeline().to_owned(),
        }
    }
}

impl ProgressValues {
    fn of(progress: &Progress) -> Self {
        Self {
            floor: progress.done.floor().get(),
            done: progress.done.to_string(),
            highest_position: progress.highest.map(|mark| mark.position.get()),
            highest_id: progress.highest.map(|mark| mark.id),
            trial: progress.trial.as_ref().map(Trial::to_string),
            trial_deaths: progress.trial.as_ref().map_or(0, |trial| trial.deaths.into()),
        }
    }

    /// The parameters of [`record!`].
    fn params<'a>(&'a self, subscription: &'a dyn Param, epoch: &'a i64) -> [NamedParam<'a>; 8] {
        [
            ("subscription", subscription),
            ("epoch", epoch),
            ("floor", &self.floor),
            ("done", &self.done),
            ("highest_position", &self.highest_position),
            ("highest_id", &self.highest_id),
            ("trial", &self.trial),
            ("trial_deaths", &self.trial_deaths),
        ]
    }
}

impl ParkedValues {
    /// If there are several rows for one position, the last is used.
    fn of(rows: Vec<ParkedRow>, epoch: Epoch, known: &KnownRows) -> Self {
        let rows: BTreeMap<Position, ParkedRow> = rows.into_iter().map(|row| (row.position, row)).collect();
        let mut arrays = Self::default();
        for (position, row) in rows {
            arrays.positions.push(position.get());
            arrays.keys.push(row.key.map(storable));
            arrays.destinations.push(row.destination.map(storable));
            arrays.states.push(row.state.as_str());
            arrays.attempts.push(row.attempts.into());
            arrays.next_attempts_at.push(row.next_attempt_at.map(Time));
            arrays.last_errors.push(row.last_error.map(storable));
            arrays.seals.push(known.expected(epoch, position).map(str::to_owned));
        }
        arrays
    }
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(conn: &mut Guard<'_>, settlement: Settlement) -> Result<Settled> {
    let server = conn.server()?;
    let name = settlement.subscription.clone();
    let values = Values::of(settlement, &server, conn.known(&name));
    let (statement, params) = SETTLE.with(&values.params());
    let rows = conn.query(statement, &params).await?;
    match settled(&rows, values.parked.positions.len())? {
        Some(settled) => Ok(settled),
        None => Err(conn.give_up()),
    }
}

/// The same as a part of a larger transaction.
pub(super) async fn settle_in(tx: &Tx<'_>, settlement: Settlement, server: &Incarnation) -> Result<Settled> {
    let values = Values::of(settlement, server, &KnownRows::default());
    let (statement, params) = SETTLE.with(&values.params());
    // Unlike a single statement, a transaction stays on the server where it began: no connection has to be given up.
    let rows = tx.query(statement, &params).await?;
    Ok(settled(&rows, values.parked.positions.len())?.unwrap_or(Settled::Fenced))
}

/// The result of [`SETTLE`] with this many rows to park; `None` on another server than the one on which the lease was
/// taken.
fn settled(rows: &[Row], parked: usize) -> Result<Option<Settled>> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(match (get(row, 0)?, get(row, 1)?) {
        (true, _) if get::<i64>(row, 2)? == parked as i64 => Some(Settled::Done),
        (true, _) => Some(Settled::ParkedChanged),
        (false, true) => Some(Settled::Fenced),
        (false, false) => None,
    })
}

static RECORD: NamedStatement = NamedStatement::new(record!());

/// Replaces the progress of a subscription whose row is locked.
pub(super) async fn put_progress(tx: &Tx<'_>, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
    let progress = ProgressValues::of(progress);
    let (statement, params) = RECORD.with(&progress.params(&name, &epoch.0));
    tx.execute(statement, &params).await.map(|_| ())
}
