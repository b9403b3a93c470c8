//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Row;
use serde::Serialize;

use super::connection::Guard;
use super::park::seal;
use super::ranges::listed;
use super::row::get;
use super::session::{Access, NamedParams, Tx, named};
use crate::ledger::{KnownRows, ParkedRow, Progress, Trial};
use crate::store::{Epoch, Settled, Settlement};
use crate::{Code, Error, Position, Result, Timestamp};

/// The UPDATE that replaces the progress if the epoch is still the subscription's, with the parameters of
/// [`recorded`]. Index: the primary key (name).
pub(super) const RECORD: &str = "
    UPDATE {schema}.subscriptions
    SET floor = :floor, done = :done, highest_position = :highest, highest_id = :highest_id,
        trial = :trial, trial_deaths = :trial_deaths, updated_at = UTC_TIMESTAMP(6)
    WHERE name = :name AND epoch = :epoch";

/// The parameters of [`RECORD`].
pub(super) fn recorded(name: &str, epoch: Epoch, progress: &Progress) -> NamedParams {
    let Progress { done, highest, trial } = progress;
    named! {
        "name" => name,
        "epoch" => epoch.0,
        "floor" => done.floor().get(),
        "done" => done.to_string(),
        "highest" => highest.map(|mark| mark.position.get()),
        "highest_id" => highest.map(|mark| mark.id.as_bytes().to_vec()),
        "trial" => trial.as_ref().map(Trial::to_string),
        "trial_deaths" => trial.as_ref().map_or(0, |trial| trial.deaths),
    }
}

/// Sets the variables of [`SETTLE`], so that it can be sent as a whole: a relay that dies in the middle leaves no lock
/// behind. The parameters are those of [`recorded`], and `:parked`, the rows to write as JSON of [`ParkedJson`].
const SET_VARIABLES: &str = "
    SET @postrider_name = :name, @postrider_epoch = :epoch,
        @postrider_floor = :floor, @postrider_done = :done,
        @postrider_highest = :highest, @postrider_highest_id = :highest_id,
        @postrider_trial = :trial, @postrider_deaths = :trial_deaths,
        @postrider_parked = :parked";

/// Begins with the lock on the progress row: either a takeover waits for it, or the takeover came first, the epoch is
/// not found and nothing is changed. A parked row that another process has changed does not have the expected seal `w`
/// and is not written: `@postrider_written` counts the others. Rows are removed whatever their state is: their events were
/// delivered. JSON_TABLE needs a current database, hence `USE`.
///
/// `{removed}` and `{written}` are the positions of these rows, with which the server uses the index.
///
/// Indexes: the primary keys (name), (subscription, position) and (position).
const SETTLE: &str = concat!(
    "USE {schema};
    START TRANSACTION READ WRITE;
    UPDATE {schema}.subscriptions
    SET floor = @postrider_floor, done = @postrider_done, highest_position = @postrider_highest,
        highest_id = @postrider_highest_id, trial = @postrider_trial, trial_deaths = @postrider_deaths,
        updated_at = UTC_TIMESTAMP(6)
    WHERE name = @postrider_name AND epoch = @postrider_epoch;
    SELECT COUNT(*) INTO @postrider_owns
    FROM {schema}.subscriptions
    WHERE name = @postrider_name AND epoch = @postrider_epoch;
    DELETE FROM {schema}.parked
    WHERE @postrider_owns = 1 AND subscription = @postrider_name AND position IN ({removed});
    UPDATE {schema}.parked AS p
    JOIN (SELECT * FROM JSON_TABLE(@postrider_parked, '$[*]' COLUMNS (
              p BIGINT PATH '$.p', k TEXT PATH '$.k', d TEXT PATH '$.d', s VARCHAR(16) PATH '$.s',
              a BIGINT PATH '$.a', n BIGINT PATH '$.n', e MEDIUMTEXT PATH '$.e', w VARCHAR(64) PATH '$.w')) AS j) AS r
      ON r.p = p.position
    SET p.`key` = COALESCE(r.k, p.`key`), p.destination = COALESCE(r.d, p.destination), p.state = r.s,
        p.attempts = r.a, p.next_attempt_at = TIMESTAMPADD(MICROSECOND, r.n, '1970-01-01'), p.last_error = r.e,
        p.updated_at = UTC_TIMESTAMP(6)
    WHERE @postrider_owns = 1 AND p.subscription = @postrider_name AND p.position IN ({written})
      AND (CAST(r.w AS BINARY) = '*' OR CAST(r.w AS BINARY) = ",
    seal!("p"),
    ");
    INSERT INTO {schema}.parked (subscription, position, `key`, destination, state, attempts,
                                 next_attempt_at, last_error, event_id)
    SELECT @postrider_name, r.p, r.k, r.d, r.s, r.a, TIMESTAMPADD(MICROSECOND, r.n, '1970-01-01'), r.e,
           (SELECT id FROM {schema}.events WHERE position = r.p)
    FROM JSON_TABLE(@postrider_parked, '$[*]' COLUMNS (
             p BIGINT PATH '$.p', k TEXT PATH '$.k', d TEXT PATH '$.d', s VARCHAR(16) PATH '$.s',
             a BIGINT PATH '$.a', n BIGINT PATH '$.n', e MEDIUMTEXT PATH '$.e', w VARCHAR(64) PATH '$.w')) AS r
    WHERE @postrider_owns = 1 AND (r.w IS NULL OR CAST(r.w AS BINARY) = '*')
    ON DUPLICATE KEY UPDATE position = parked.position;
    SELECT COUNT(*) INTO @postrider_written
    FROM {schema}.parked AS p
    JOIN (SELECT * FROM JSON_TABLE(@postrider_parked, '$[*]' COLUMNS (
              p BIGINT PATH '$.p', s VARCHAR(16) PATH '$.s', a BIGINT PATH '$.a', n BIGINT PATH '$.n')) AS j) AS r
      ON r.p = p.position
    WHERE p.subscription = @postrider_name AND p.position IN ({written})
      AND CAST(CONCAT(r.s, ' ', r.a, ' ', COALESCE(r.n, '-')) AS BINARY) = ",
    seal!("p"),
    ";
    COMMIT;
    SELECT @postrider_owns, @postrider_written"
);

/// A row to write. JSON_TABLE reads it by these names.
#[derive(Debug, Serialize)]
struct ParkedJson {
    /// Its position.
    p: i64,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<String>,
    /// Its destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<String>,
    /// Its state.
    s: &'static str,
    /// Its attempts.
    a: u32,
    /// Its next attempt, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    /// The seal it must have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    w: Option<String>,
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(conn: &mut Guard<'_>, settlement: Settlement) -> Result<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    let mut values = recorded(&subscription, epoch, &Progress { done, highest, trial });
    if park.is_empty() && unpark.is_empty() {
        // One statement is enough.
        let found = conn.session()?.autocommit_changes(RECORD, values).await?;
        return Ok(if found > 0 { Settled::Done } else { Settled::Fenced });
    }
    // If a row is both removed and written, it is written.
    let written: BTreeSet<Position> = park.iter().map(|row| row.position).collect();
    let removed: Vec<Position> = unpark.into_iter().filter(|position| !written.contains(position)).collect();
    values.extend(named! { "parked" => parked_json(park, epoch, conn.known(&subscription))? });
    let parked = written.len();
    let session = conn.session()?;
    session.autocommit(Access::Reads, SET_VARIABLES, values).await?;
    let statements = SETTLE.replace("{removed}", &listed(removed)).replace("{written}", &listed(written));
    let settled = settled(session.several(Access::Writes, &statements).await, parked);
    if settled.is_err() && session.several(Access::Reads, "ROLLBACK").await.is_err() {
        // After an error, the COMMIT was not run and the transaction is open: the next transaction would commit it.
        _ = session.give_up();
    }
    settled
}

/// The last answer, with this many rows to park. Without it, the transaction was not committed.
fn settled(answers: Result<Vec<Vec<Row>>>, parked: usize) -> Result<Settled> {
    let answers = answers?;
    let owns = answers.iter().rev().find_map(|rows| rows.first());
    let owns =
        owns.ok_or_else(|| Error::new(Code::OutcomeUnknown, "the database returned an incomplete result"))?;
    Ok(match get::<i64>(owns, 0)? {
        1 if get::<i64>(owns, 1)? == parked as i64 => Settled::Done,
        1 => Settled::ParkedChanged,
        _ => Settled::Fenced,
    })
}

/// Replaces the progress of a subscription whose row is locked.
pub(super) async fn put_progress(
    tx: &mut Tx<'_>,
    name: &str,
    epoch: Epoch,
    progress: &Progress,
) -> Result<()> {
    tx.execute(RECORD, recorded(name, epoch, progress)).await.map(|_| ())
}

/// Rows to write as one JSON text. If there are several rows for one position, the last is used.
fn parked_json(rows: Vec<ParkedRow>, epoch: Epoch, known: &KnownRows) -> Result<String> {
    let rows: BTreeMap<Position, ParkedRow> = rows.into_iter().map(|row| (row.position, row)).collect();
    let written = rows.into_values().map(|row| ParkedJson {
        p: row.position.get(),
        k: row.key,
        d: row.destination,
        s: row.state.as_str(),
        a: row.attempts,
        n: row.next_attempt_at.map(Timestamp::as_micros),
        e: row.last_error,
        w: known.expected(epoch, row.position).map(str::to_owned),
    });
    json(&written.collect::<Vec<_>>())
}

fn json(rows: &[ParkedJson]) -> Result<String> {
    serde_json::to_string(rows).map_err(|cause| {
        Error::new(Code::StoreFailed, "parked rows cannot be written as JSON").with_source(cause)
    })
}
