//! Taking the lease, and the load that comes with it.

use std::collections::HashMap;

use mysql_async::Row;

use super::super::lease::{refusal, take, unknown};
use super::super::row::{self, count, get, get_opt, micros};
use super::super::session::{Params, Tx, params};
use super::read::text_id;
use super::sql::Sql;
use crate::layout::RowTable;
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::load::{
    NotedRow, SetAside, SubscriptionRow, WaitingRow, log_recovered, refuse_foreign_publisher,
};
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::{RowClaim, SessionRows};
use crate::store::{Acquired, Epoch, LeaseRequest};
use crate::{Result, Timestamp};

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease comes the rows of the session.
pub(super) async fn acquire(
    work: &mut Tx<'_>,
    lease: &LeaseRequest,
    sql: &Sql,
    table: &RowTable,
    marked: StaleMarks,
) -> Result<(Acquired, Option<SessionRows>)> {
    let name = lease.subscription.as_str();
    // Relays that stand by ask often; they must not lock the row that the owner settles on.
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    // Index: the primary key (name).
    let lock = "SELECT epoch, clean, paused, trial, trial_deaths
                FROM {schema}.subscriptions WHERE name = ? FOR UPDATE";
    let row = work.query_opt(lock, params![name]).await?.ok_or_else(|| unknown(name))?;
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    let epoch = Epoch(get::<i64>(&row, 0)? + 1);
    take(work, lease, epoch).await?;
    let mut kept = Vec::new();
    if let Some(marks) = &sql.marks {
        match marked {
            StaleMarks::Keep => kept = claimed(work).await?,
            StaleMarks::GiveBack => log_recovered(name, give_back(work, sql).await?),
        }
        if let Some(told) = work.query_opt(marks.foreign, Params::new()).await? {
            refuse_foreign_publisher(table, get(&told, 0)?, get(&told, 1)?)?;
        }
    }
    let owned = SubscriptionRow {
        clean: get(&row, 1)?,
        paused: get(&row, 2)?,
        trial: get(&row, 3)?,
        trial_deaths: count(&row, 4)?,
    };
    let aside = aside(work, sql, table).await?.keeping(kept);
    let (loaded, known) = aside.load(epoch, owned, table);
    Ok((Acquired::Granted(Box::new(loaded)), Some(known)))
}

/// Rows that the last owner had marked.
async fn claimed(work: &mut Tx<'_>) -> Result<Vec<(String, RowClaim)>> {
    let sql = concat!(
        "SELECT c.i, o.number, ",
        micros!("o.claimed_at"),
        ", c.m
         FROM {schema}.row_claims AS o
         JOIN JSON_TABLE(o.ids, '$[*]' COLUMNS (i BIGINT PATH '$[0]', m BIGINT PATH '$[1]')) AS c
         ORDER BY o.number, c.i"
    );
    let claim = |row: &Row| {
        let at = Timestamp::from_micros(get(row, 2)?);
        Ok((text_id(row)?, RowClaim { number: get(row, 1)?, at, attempts: get(row, 3)? }))
    };
    work.query(sql, Params::new()).await?.iter().map(claim).collect()
}

/// Gives back the rows that were claimed and not settled, for whoever has locked the row of the subscription. Answers
/// how many.
pub(super) async fn give_back(work: &mut Tx<'_>, sql: &Sql) -> Result<u64> {
    let Some(marks) = &sql.marks else { return Ok(0) };
    let returned = work.execute(marks.give_back, Params::new()).await?;
    work.execute("DELETE FROM {schema}.row_claims", Params::new()).await?;
    Ok(returned)
}

/// Gives back what this epoch has claimed, if it is still the subscription's.
pub(super) async fn give_back_as_owner(work: &mut Tx<'_>, sql: &Sql, name: &str, epoch: Epoch) -> Result<()> {
    // Index: the primary key (name).
    let lock = "SELECT epoch FROM {schema}.subscriptions WHERE name = ? AND epoch = ? FOR UPDATE";
    if !work.query(lock, params![name, epoch.0]).await?.is_empty() {
        give_back(work, sql).await?;
    }
    Ok(())
}

/// Everything that left the straight way, in the order of the table. Notes that say nothing any more are deleted.
async fn aside(work: &mut Tx<'_>, sql: &Sql, table: &RowTable) -> Result<SetAside> {
    let waiting = match sql.waiting {
        Some(statement) => {
            work.query(statement, Params::new()).await?.iter().map(waiting).collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    let aside = SetAside::of(notes(work, sql).await?, waiting, table)?;
    if !aside.stale.is_empty() {
        // Index: the primary key (row_id).
        let stale = sql.ids.listed(aside.stale.iter().map(String::as_str));
        for of in ["row_notes", "row_refused"] {
            let forget = format!("DELETE FROM {{schema}}.{of} WHERE row_id IN ({stale})");
            work.execute(&forget, Params::new()).await?;
        }
    }
    Ok(aside)
}

/// All notes, beside what the table says of their rows.
pub(super) async fn notes(work: &mut Tx<'_>, sql: &Sql) -> Result<Vec<NotedRow>> {
    let mut notes =
        work.query(sql.load, Params::new()).await?.iter().map(note).collect::<Result<Vec<_>>>()?;
    let mut refused = HashMap::new();
    for row in work.query("SELECT row_id, outcome FROM {schema}.row_refused", Params::new()).await? {
        refused.insert(text_id(&row)?, Refused::from_word(&get::<String>(&row, 1)?));
    }
    notes.iter_mut().for_each(|note| note.refused = refused.remove(&note.id));
    Ok(notes)
}

fn note(row: &Row) -> Result<NotedRow> {
    let time = |column| get_opt::<i64>(row, column).map(|time| time.map(Timestamp::from_micros));
    let holds = |column| get_opt::<i64>(row, column).map(|answer| answer == Some(1));
    Ok(NotedRow {
        id: text_id(row)?,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state: get(row, 3)?,
        attempts: count(row, 4)?,
        next_attempt_at: time(5)?,
        last_error: get(row, 6)?,
        created: time(7)?,
        is_done: holds(8)?,
        is_given_up: holds(9)?,
        limit: get(row, 10)?,
        refused: None,
    })
}

fn waiting(row: &Row) -> Result<WaitingRow> {
    Ok(WaitingRow {
        id: text_id(row)?,
        key: get(row, 1)?,
        attempts: get(row, 2)?,
        next_attempt_at: row::time(row, 3)?,
        created: row::time(row, 4)?,
    })
}
