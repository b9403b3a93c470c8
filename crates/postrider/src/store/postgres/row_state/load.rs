//! Taking the lease, and the load that comes with it.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::super::lease::{refusal, take, unknown};
use super::super::row::{count, get};
use super::super::session::Tx;
use super::super::time::Time;
use super::sql::Sql;
use crate::Result;
use crate::layout::RowTable;
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::load::{
    NotedRow, SetAside, SubscriptionRow, WaitingRow, log_recovered, refuse_foreign_publisher,
};
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::{RowClaim, SessionRows};
use crate::store::{Acquired, Epoch, LeaseRequest};

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease comes the rows of the session.
pub(super) async fn acquire(
    work: &Tx<'_>,
    lease: &LeaseRequest,
    table: &RowTable,
    marked: StaleMarks,
) -> Result<(Acquired, Option<SessionRows>)> {
    let sql = Sql::of(table.layout);
    let name = &lease.subscription;
    // Relays that stand by ask often; they must not lock the row that the owner settles on.
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    // Index: the primary key (name).
    let lock = "SELECT epoch, clean, paused, trial, trial_deaths
                FROM {schema}.subscriptions WHERE name = $1 FOR UPDATE";
    let row = work.query_opt(lock, &[name]).await?.ok_or_else(|| unknown(name))?;
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    let epoch = Epoch(get::<i64>(&row, 0)? + 1);
    take(work, lease, epoch).await?;
    let claimed = match marked {
        StaleMarks::Keep => claimed(work).await?,
        StaleMarks::GiveBack => {
            let recovered = give_back(work, &sql, name, epoch).await?;
            log_recovered(name, recovered.unsigned_abs());
            Vec::new()
        }
    };
    if let Some(statement) = sql.foreign
        && let Some(row) = work.query_opt(statement, &[]).await?
    {
        refuse_foreign_publisher(table, get(&row, 0)?, get(&row, 1)?)?;
    }
    let aside = aside(work, &sql, table).await?.keeping(claimed);
    let owned = SubscriptionRow {
        clean: get(&row, 1)?,
        paused: get(&row, 2)?,
        trial: get(&row, 3)?,
        trial_deaths: count(&row, 4)?,
    };
    let (loaded, known) = aside.load(epoch, owned, table);
    Ok((Acquired::Granted(Box::new(loaded)), Some(known)))
}

/// Gives back the rows that were claimed and not settled. Answers how many.
pub(super) async fn give_back(work: &Tx<'_>, sql: &Sql, name: &str, epoch: Epoch) -> Result<i64> {
    let Some(statement) = sql.give_back else { return Ok(0) };
    let row = work.query_opt(statement, &[&name, &epoch.0]).await?;
    row.map_or(Ok(0), |row| get(&row, 0))
}

/// Rows that the last owner had marked.
async fn claimed(work: &Tx<'_>) -> Result<Vec<(String, RowClaim)>> {
    let sql = "SELECT unnest(ids), number, claimed_at FROM {schema}.row_claims ORDER BY number";
    let claim = |row: &Row| {
        let claim = RowClaim { number: get(row, 1)?, at: get::<Time>(row, 2)?.0, attempts: 0 };
        Ok((get(row, 0)?, claim))
    };
    work.query(sql, &[]).await?.iter().map(claim).collect()
}

/// Everything that left the straight way, in the order of the table. Notes that say nothing any more are deleted.
async fn aside(work: &Tx<'_>, sql: &Sql, table: &RowTable) -> Result<SetAside> {
    let waiting = match sql.waiting {
        Some(statement) => work.query(statement, &[]).await?.iter().map(waiting).collect::<Result<_>>()?,
        None => Vec::new(),
    };
    let aside = SetAside::of(notes(work, sql, table).await?, waiting, table)?;
    if !aside.stale.is_empty() {
        // Index: the primary key (row_id).
        let forget = "DELETE FROM {schema}.row_notes WHERE row_id = ANY ($1)";
        work.execute(forget, &[&aside.stale]).await?;
        let forget = "DELETE FROM {schema}.row_refused WHERE row_id = ANY ($1)";
        work.execute(forget, &[&aside.stale]).await?;
    }
    Ok(aside)
}

/// All notes, beside what the table says of their rows.
pub(super) async fn notes(work: &Tx<'_>, sql: &Sql, table: &RowTable) -> Result<Vec<NotedRow>> {
    let limit = i64::from(table.max_attempts);
    let mut notes = work.query(sql.load, &[&limit]).await?.iter().map(note).collect::<Result<Vec<_>>>()?;
    let mut refused = HashMap::new();
    for row in work.query("SELECT row_id, outcome FROM {schema}.row_refused", &[]).await? {
        refused.insert(get::<String>(&row, 0)?, Refused::from_word(get(&row, 1)?));
    }
    notes.iter_mut().for_each(|note| note.refused = refused.remove(&note.id));
    Ok(notes)
}

fn note(row: &Row) -> Result<NotedRow> {
    let time = |column| get::<Option<Time>>(row, column).map(|time| time.map(|time| time.0));
    Ok(NotedRow {
        id: get(row, 0)?,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state: get(row, 3)?,
        attempts: count(row, 4)?,
        next_attempt_at: time(5)?,
        last_error: get(row, 6)?,
        created: time(7)?,
        is_done: get::<Option<bool>>(row, 8)?.unwrap_or(false),
        is_given_up: get::<Option<bool>>(row, 9)?.unwrap_or(false),
        limit: get(row, 10)?,
        refused: None,
    })
}

fn waiting(row: &Row) -> Result<WaitingRow> {
    Ok(WaitingRow {
        id: get(row, 0)?,
        key: get(row, 1)?,
        attempts: get(row, 2)?,
        next_attempt_at: get::<Time>(row, 3)?.0,
        created: get::<Time>(row, 4)?.0,
    })
}
