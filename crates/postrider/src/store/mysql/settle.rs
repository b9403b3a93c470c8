//! Settling: progress and parked rows in one transaction, fenced by the epoch.

use super::line::Turn;
use super::park;
use super::progress::{RECORD, recorded};
use super::ranges::listed;
use super::row::get;
use super::session::{Alone, params};
use crate::ledger::Progress;
use crate::store::{Settled, Settlement};
use crate::{Code, Error, Result};

/// What the transaction needs, put down beforehand: so that it goes out as a whole and a relay that stops in the
/// middle leaves no lock behind.
const REMEMBER: &str = "
    SET @postrider_floor = ?, @postrider_done = ?, @postrider_highest = ?, @postrider_highest_id = ?,
        @postrider_trial = ?, @postrider_deaths = ?, @postrider_name = ?, @postrider_epoch = ?,
        @postrider_parked = ?";

/// It begins with the lock on the progress row: a takeover waits for it, or makes it find nothing, and then
/// nothing else finds the epoch either.
///
/// Indexes: the primary keys (name), (subscription, position) and (position).
const SETTLE: &str = "
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
    INSERT INTO {schema}.parked (subscription, position, `key`, destination, state, attempts,
                                 next_attempt_at, last_error, event_id)
    SELECT @postrider_name, r.p, r.k, r.d, r.s, r.a, TIMESTAMPADD(MICROSECOND, r.n, '1970-01-01'), r.e,
           (SELECT id FROM {schema}.events WHERE position = r.p)
    FROM JSON_TABLE(@postrider_parked, '$[*]' COLUMNS (
             p BIGINT PATH '$.p', k TEXT PATH '$.k', d TEXT PATH '$.d', s VARCHAR(16) PATH '$.s',
             a BIGINT PATH '$.a', n BIGINT PATH '$.n', e MEDIUMTEXT PATH '$.e')) AS r
    WHERE @postrider_owns = 1
    ON DUPLICATE KEY UPDATE
        `key` = COALESCE(VALUES(`key`), parked.`key`),
        destination = COALESCE(VALUES(destination), parked.destination),
        state = VALUES(state), attempts = VALUES(attempts), next_attempt_at = VALUES(next_attempt_at),
        last_error = VALUES(last_error), updated_at = UTC_TIMESTAMP(6);
    COMMIT;
    SELECT @postrider_owns";

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(turn: &mut Turn<'_>, settlement: Settlement) -> Result<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    let mut values = recorded(&subscription, epoch, &Progress { done, highest, trial });
    if park.is_empty() && unpark.is_empty() {
        // One statement is enough, and it finds the row or not.
        let found = turn.session()?.alone_changes(RECORD, values).await?;
        return Ok(if found > 0 { Settled::Done } else { Settled::Fenced });
    }
    // What is written stays, whether it is also to be removed or not: the removal comes first.
    values.extend(params![park::to_json(park)?]);
    turn.session()?.alone(Alone::Reads, REMEMBER, values).await?;
    let statements = SETTLE.replace("{removed}", &listed(unpark));
    let session = turn.session()?;
    let answers = match session.several(Alone::Writes, &statements).await {
        Ok(answers) => answers,
        Err(error) => {
            // An error leaves out what follows, the end of the transaction as well.
            _ = session.several(Alone::Reads, "ROLLBACK").await;
            return Err(error);
        }
    };
    let owns = answers.iter().rev().find_map(|rows| rows.first());
    let owns = owns.ok_or_else(|| Error::new(Code::OutcomeUnknown, "the database left out an answer"))?;
    Ok(if get::<i64>(owns, 0)? == 1 { Settled::Done } else { Settled::Fenced })
}
