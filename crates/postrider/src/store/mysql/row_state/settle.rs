//! Settling: all outcomes in one transaction, fenced by the epoch.

use serde::Serialize;

use super::super::row::get;
use super::super::session::{Access, Session, params};
use super::sql::{Ids, Sql};
use crate::store::Settlement;
use crate::store::row_state::plan::{Note, OutcomeRows, SettlePlan};
use crate::store::row_state::refused::Refused;
use crate::{Code, Error, Result, Timestamp};

/// Sets the variables that the transaction uses. The transaction can then be sent as a whole: a relay that stops
/// meanwhile leaves no lock behind.
const SET_VARIABLES: &str = "
    SET @postrider_name = ?, @postrider_epoch = ?, @postrider_trial = ?, @postrider_deaths = ?,
        @postrider_done = ?, @postrider_retried = ?, @postrider_given_up = ?, @postrider_unmarked = ?,
        @postrider_notes = ?, @postrider_changed = 0";

/// Locks the subscription's row: a takeover waits for it. If a takeover was first, the epoch has changed,
/// `@postrider_owns` is 0, and the other statements change nothing. Index: the primary key (name).
const FENCE: &str = "
    START TRANSACTION READ WRITE;
    UPDATE {schema}.subscriptions
    SET trial = @postrider_trial, trial_deaths = @postrider_deaths, updated_at = UTC_TIMESTAMP(6)
    WHERE name = @postrider_name AND epoch = @postrider_epoch;
    SELECT COUNT(*) INTO @postrider_owns
    FROM {schema}.subscriptions
    WHERE name = @postrider_name AND epoch = @postrider_epoch;";

/// Follows each statement that changes rows.
const COUNT: &str = "SET @postrider_changed = @postrider_changed + ROW_COUNT();";

/// Indexes: the primary keys (row_id) and (number).
const NOTES: &str = "
    DELETE FROM {schema}.row_notes WHERE @postrider_owns = 1 AND row_id IN ({obsolete});
    DELETE FROM {schema}.row_refused WHERE @postrider_owns = 1 AND row_id IN ({obsolete});
    DELETE FROM {schema}.row_claims WHERE @postrider_owns = 1 AND number IN ({claims});
    INSERT INTO {schema}.row_refused (row_id, outcome)
    SELECT r.i, r.r
    FROM JSON_TABLE(@postrider_notes, '$[*]' COLUMNS (i {id_type} PATH '$.i', r VARCHAR(16) PATH '$.r')) AS r
    WHERE @postrider_owns = 1 AND r.r IS NOT NULL
    ON DUPLICATE KEY UPDATE outcome = VALUES(outcome);
    INSERT INTO {schema}.row_notes (row_id, `key`, destination, state, attempts, next_attempt_at, last_error)
    SELECT r.i, r.k, r.d, r.s, r.a, TIMESTAMPADD(MICROSECOND, r.n, '1970-01-01'), r.e
    FROM JSON_TABLE(@postrider_notes, '$[*]' COLUMNS (
             i {id_type} PATH '$.i', k TEXT PATH '$.k', d TEXT PATH '$.d', s VARCHAR(16) PATH '$.s',
             a BIGINT PATH '$.a', n BIGINT PATH '$.n', e MEDIUMTEXT PATH '$.e')) AS r
    WHERE @postrider_owns = 1
    ON DUPLICATE KEY UPDATE
        `key` = COALESCE(VALUES(`key`), row_notes.`key`),
        destination = COALESCE(VALUES(destination), row_notes.destination),
        state = VALUES(state), attempts = VALUES(attempts), next_attempt_at = VALUES(next_attempt_at),
        last_error = VALUES(last_error), updated_at = UTC_TIMESTAMP(6);
    COMMIT;
    SELECT @postrider_owns, @postrider_changed";

/// A row of an outcome, as JSON that the server reads with JSON_TABLE: id, time of the mark, attempts when marked, new
/// attempts, time of the next attempt.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    i: Id<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<i64>,
    a: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
}

/// A note as JSON: id, key, destination, state, attempts, time of the next attempt, error, refused outcome.
#[derive(Debug, Serialize)]
struct Noted<'a> {
    i: Id<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<&'a str>,
    s: &'static str,
    a: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<&'static str>,
}

/// The id of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Number(i64),
    Text(&'a str),
}

impl<'a> Id<'a> {
    fn of(ids: Ids, id: &'a str) -> Self {
        match ids {
            Ids::Numbers => Self::Number(id.parse().unwrap_or(-1)),
            Ids::Texts => Self::Text(id),
        }
    }
}

/// The rows of an outcome, in the order of the primary key: a claim locks rows in the same order.
pub(super) fn outcome(ids: Ids, outcome: &OutcomeRows) -> Result<String> {
    let mut rows: Vec<Changed<'_>> = (0..outcome.ids.len())
        .map(|index| Changed {
            i: Id::of(ids, &outcome.ids[index]),
            s: outcome.marked_at[index].map(Timestamp::as_micros),
            m: outcome.marked_attempts[index],
            a: outcome.attempts[index],
            n: outcome.next_attempt_at[index].map(Timestamp::as_micros),
        })
        .collect();
    rows.sort_by_key(|row| row.i);
    json(&rows)
}

fn notes(ids: Ids, notes: &[Note]) -> Result<String> {
    let notes = notes.iter().map(|note| Noted {
        i: Id::of(ids, &note.id),
        k: note.key.as_deref(),
        d: note.destination.as_deref(),
        s: note.state,
        a: note.attempts,
        n: note.next_attempt_at.map(Timestamp::as_micros),
        e: note.last_error.as_deref(),
        r: note.refused.map(Refused::as_str),
    });
    json(&notes.collect::<Vec<_>>())
}

fn json(rows: &impl Serialize) -> Result<String> {
    serde_json::to_string(rows)
        .map_err(|cause| Error::new(Code::StoreFailed, "rows cannot be written as JSON").with_source(cause))
}

/// Records a plan. Returns how many rows were changed; `None` if the lease was lost.
pub(super) async fn record(
    sql: &Sql,
    session: &mut Session,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    let ids = sql.ids;
    let values = params![
        settlement.subscription.as_str(),
        settlement.epoch.0,
        plan.trial.as_deref(),
        plan.trial_deaths,
        outcome(ids, &plan.done)?,
        outcome(ids, &plan.retried)?,
        outcome(ids, &plan.given_up)?,
        outcome(ids, &plan.unmarked)?,
        notes(ids, &plan.notes)?,
    ];
    session.autocommit(Access::Reads, SET_VARIABLES, values).await?;
    let answers = match session.several(Access::Writes, &statements(sql, plan)).await {
        Ok(answers) => answers,
        Err(error) => {
            // After an error the server skips the other statements, including the COMMIT.
            _ = session.several(Access::Reads, "ROLLBACK").await;
            return Err(error);
        }
    };
    let last = answers.iter().rev().find_map(|rows| rows.first());
    let last =
        last.ok_or_else(|| Error::new(Code::OutcomeUnknown, "the database returned an incomplete result"))?;
    if get::<i64>(last, 0)? != 1 {
        return Ok(None);
    }
    Ok(Some(usize::try_from(get::<i64>(last, 1)?).unwrap_or(0)))
}

/// The transaction that records a plan, as one text.
fn statements(sql: &Sql, plan: &SettlePlan) -> String {
    let ids = sql.ids;
    let mut statements = String::from(FENCE);
    let outcomes = plan.outcomes().into_iter().zip(sql.outcomes);
    for (_, statement) in outcomes.filter(|(rows, _)| !rows.ids.is_empty()) {
        statements.push_str(statement);
        statements.push(';');
        statements.push_str(COUNT);
    }
    let claims: Vec<String> = plan.finished_claims.iter().map(i64::to_string).collect();
    statements.push_str(
        &NOTES
            .replace("{id_type}", ids.sql_type())
            .replace("{obsolete}", &ids.listed(plan.obsolete_notes.iter().map(String::as_str)))
            .replace("{claims}", &Ids::Numbers.listed(claims.iter().map(String::as_str))),
    );
    statements
}
