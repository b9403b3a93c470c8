//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use std::collections::BTreeSet;

use mysql_async::Row;

use super::connection::Guard;
use super::park::{self, seal};
use super::progress::{RECORD, recorded};
use super::ranges::listed;
use super::row::get;
use super::session::{Access, params};
use crate::ledger::Progress;
use crate::store::{Settled, Settlement};
use crate::{Code, Error, Position, Result};

/// What the transaction needs, put down beforehand: so that it goes out as a whole and a relay that stops in the
/// middle leaves no lock behind.
const REMEMBER: &str = "
    SET @postrider_floor = ?, @postrider_done = ?, @postrider_highest = ?, @postrider_highest_id = ?,
        @postrider_trial = ?, @postrider_deaths = ?, @postrider_name = ?, @postrider_epoch = ?,
        @postrider_parked = ?, @postrider_removed = ?";

/// It begins with the lock on the progress row: a takeover waits for it, or makes it find nothing, and then
/// nothing else finds the epoch either. Of the parked rows, one that another process has changed is left alone.
/// Tables made of JSON belong to the current database, so there has to be one.
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
    DELETE {schema}.parked FROM {schema}.parked
    JOIN (SELECT * FROM JSON_TABLE(@postrider_removed, '$[*]' COLUMNS (
              p BIGINT PATH '$.p', w VARCHAR(64) PATH '$.w')) AS j) AS r ON r.p = parked.position
    WHERE @postrider_owns = 1 AND parked.subscription = @postrider_name AND parked.position IN ({removed})
      AND (CAST(r.w AS BINARY) = '*' OR CAST(r.w AS BINARY) = ",
    seal!("parked"),
    ");
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
    COMMIT;
    SELECT @postrider_owns"
);

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(conn: &mut Guard<'_>, settlement: Settlement) -> Result<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    let mut values = recorded(&subscription, epoch, &Progress { done, highest, trial });
    if park.is_empty() && unpark.is_empty() {
        // One statement is enough, and it finds the row or not.
        let found = conn.session()?.autocommit_changes(RECORD, values).await?;
        return Ok(if found > 0 { Settled::Done } else { Settled::Fenced });
    }
    // What is written stays, whether it is also to be removed or not.
    let written: BTreeSet<Position> = park.iter().map(|row| row.position).collect();
    let removed: Vec<Position> = unpark.into_iter().filter(|position| !written.contains(position)).collect();
    let known = conn.known(&subscription);
    values
        .extend(params![park::to_json(park, epoch, known)?, park::removed_to_json(&removed, epoch, known)?]);
    conn.session()?.autocommit(Access::Reads, REMEMBER, values).await?;
    let statements = SETTLE.replace("{removed}", &listed(removed)).replace("{written}", &listed(written));
    let session = conn.session()?;
    let settled = owns(session.several(Access::Writes, &statements).await);
    if settled.is_err() && session.several(Access::Reads, "ROLLBACK").await.is_err() {
        // An error leaves out what follows, the end of the transaction as well. The next one would commit it.
        _ = session.give_up();
    }
    settled
}

/// The last answer, without which the transaction was not committed.
fn owns(answers: Result<Vec<Vec<Row>>>) -> Result<Settled> {
    let answers = answers?;
    let owns = answers.iter().rev().find_map(|rows| rows.first());
    let owns =
        owns.ok_or_else(|| Error::new(Code::OutcomeUnknown, "the database returned an incomplete result"))?;
    Ok(if get::<i64>(owns, 0)? == 1 { Settled::Done } else { Settled::Fenced })
}
