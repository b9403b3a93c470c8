//! Settling: all outcomes in one transaction, fenced by the epoch.

use serde::Serialize;

use super::super::row::get;
use super::super::session::{Access, Params, Session, Tx, params};
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
    UPDATE {schema}.subscriptions
    SET trial = @postrider_trial, trial_deaths = @postrider_deaths, updated_at = UTC_TIMESTAMP(6)
    WHERE name = @postrider_name AND epoch = @postrider_epoch;
    SELECT COUNT(*) INTO @postrider_owns
    FROM {schema}.subscriptions
    WHERE name = @postrider_name AND epoch = @postrider_epoch;";

/// How the statements of outcomes find their rows.
const ROWS: &str = "STRAIGHT_JOIN {table} AS t ON t.id = c.i";

/// Begins the transaction.
const BEGIN: &str = "START TRANSACTION READ WRITE;";

/// The lock of [`FENCE`], as a step of a transaction.
const RECORD_TRIAL: &str = "
    UPDATE {schema}.subscriptions
    SET trial = @postrider_trial, trial_deaths = @postrider_deaths, updated_at = UTC_TIMESTAMP(6)
    WHERE name = @postrider_name AND epoch = @postrider_epoch";

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
        last_error = VALUES(last_error), updated_at = UTC_TIMESTAMP(6);";

/// Ends the transaction and returns what it did.
const END: &str = "COMMIT; SELECT @postrider_owns, @postrider_changed";

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
fn outcome(ids: Ids, outcome: &OutcomeRows) -> Result<String> {
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

/// The values of [`SET_VARIABLES`].
fn values(sql: &Sql, settlement: &Settlement, plan: &SettlePlan) -> Result<Params> {
    let ids = sql.ids;
    let [done, retried, given_up, unmarked] = plan.outcomes();
    let of_variable = |statement: &str, rows: &OutcomeRows| match statement.contains("{ids}") {
        true => Ok(String::new()),
        false => outcome(ids, rows),
    };
    Ok(params![
        settlement.subscription.as_str(),
        settlement.epoch.0,
        plan.trial.as_deref(),
        plan.trial_deaths,
        of_variable(sql.outcomes[0], done)?,
        of_variable(sql.outcomes[1], retried)?,
        of_variable(sql.outcomes[2], given_up)?,
        of_variable(sql.outcomes[3], unmarked)?,
        notes(ids, &plan.notes)?,
    ])
}

/// The same as a step of a transaction.
pub(super) async fn record_in(
    sql: &Sql,
    tx: &mut Tx<'_>,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    tx.execute(SET_VARIABLES, values(sql, settlement, plan)?).await?;
    tx.execute("SET @postrider_owns = 1", Params::new()).await?;
    if tx.execute(RECORD_TRIAL, Params::new()).await? == 0 {
        return Ok(None);
    }
    for (rows, statement) in plan.outcomes().into_iter().zip(sql.outcomes) {
        for statement in outcome_statements(sql.ids, statement, rows) {
            tx.execute(&statement, Params::new()).await?;
            tx.execute(COUNT.trim_end_matches(';'), Params::new()).await?;
        }
    }
    let changed = tx.query_opt("SELECT @postrider_changed", Params::new()).await?;
    let changed = changed.map_or(Ok(0), |row| get::<i64>(&row, 0))?;
    // Split before ids are filled in: an id may contain a semicolon.
    for statement in NOTES.split(';').filter(|part| !part.trim().is_empty()) {
        tx.execute(&with_notes(statement, sql.ids, plan), Params::new()).await?;
    }
    Ok(Some(usize::try_from(changed).unwrap_or(0)))
}

/// Records a plan. Returns how many rows were changed; `None` if the lease was lost.
pub(super) async fn record(
    sql: &Sql,
    session: &mut Session,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    session.autocommit(Access::Reads, SET_VARIABLES, values(sql, settlement, plan)?).await?;
    run(session, &(BEGIN.to_owned() + &statements(sql, plan))).await
}

/// The same in a transaction that is open and has locked the rows.
pub(super) async fn record_locked(
    sql: &Sql,
    session: &mut Session,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    session.autocommit(Access::Reads, SET_VARIABLES, values(sql, settlement, plan)?).await?;
    // A scan of the table would wait for the locks of rows that are still in flight.
    let statements = statements(sql, plan).replace(ROWS, &ROWS.replace(" ON ", " FORCE INDEX (PRIMARY) ON "));
    run(session, &statements).await
}

async fn run(session: &mut Session, statements: &str) -> Result<Option<usize>> {
    let answers = match session.several(Access::Writes, statements).await {
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

/// The ids of one statement at most. With many thousands, MySQL would use more memory than it may for a range, and read
/// the whole table instead.
const STATEMENT_IDS_MAX: usize = 1_000;

/// The statements that record an outcome: one with a variable, or several with the ids of the rows in the order of the
/// primary key. A claim locks rows in the same order.
fn outcome_statements(ids: Ids, statement: &str, rows: &OutcomeRows) -> Vec<String> {
    if rows.ids.is_empty() {
        return Vec::new();
    }
    if !statement.contains("{ids}") {
        return vec![statement.to_owned()];
    }
    let mut sorted: Vec<&str> = rows.ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let of_some = |some: &[&str]| statement.replace("{ids}", &ids.listed(some.iter().copied()));
    sorted.chunks(STATEMENT_IDS_MAX).map(of_some).collect()
}

/// The transaction that records a plan, without its beginning, as one text.
fn statements(sql: &Sql, plan: &SettlePlan) -> String {
    let mut statements = String::from(FENCE);
    for (rows, statement) in plan.outcomes().into_iter().zip(sql.outcomes) {
        for statement in outcome_statements(sql.ids, statement, rows) {
            statements.push_str(&statement);
            statements.push(';');
            statements.push_str(COUNT);
        }
    }
    statements.push_str(&with_notes(NOTES, sql.ids, plan));
    statements.push_str(END);
    statements
}

/// [`NOTES`], or a part of it, with ids and claims filled in.
fn with_notes(statements: &str, ids: Ids, plan: &SettlePlan) -> String {
    let claims: Vec<String> = plan.finished_claims.iter().map(i64::to_string).collect();
    statements
        .replace("{id_type}", ids.sql_type())
        .replace("{obsolete}", &ids.listed(plan.obsolete_notes.iter().map(String::as_str)))
        .replace("{claims}", &Ids::Numbers.listed(claims.iter().map(String::as_str)))
}
