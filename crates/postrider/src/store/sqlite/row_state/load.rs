//! Taking the lease, and the load that comes with it.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::super::lease::{now, other_holder, take, unknown};
use super::super::ledger::Ledger;
use super::sql::Names;
use crate::Timestamp;
use crate::store::row_state::load::StaleMarks;
use crate::store::row_state::load::{
    NotedRow, SetAside, SubscriptionRow, log_recovered, refuse_foreign_publisher,
};
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::{RowClaim, SessionRows};
use crate::store::{Acquired, Epoch, LeaseRequest};

/// The row of a subscription, whose progress is in the rows of its table.
pub(super) struct Worked {
    pub(super) epoch: i64,
    pub(super) halted: Option<String>,
    pub(super) owned: SubscriptionRow,
}

impl Worked {
    /// If there is one of this name. Index: the primary key (name).
    pub(super) fn load(tx: &Connection, name: &str) -> Attempt<Option<Self>> {
        let sql = "SELECT epoch, halted, clean, paused, trial, trial_deaths
                   FROM postrider_row_subscriptions WHERE name = ?1";
        let worked = tx.prepare_cached(sql)?.query_row([name], |row| {
            let owned = SubscriptionRow {
                clean: row.get(2)?,
                paused: row.get(3)?,
                trial: row.get(4)?,
                trial_deaths: row.get(5)?,
            };
            Ok(Self { epoch: row.get(0)?, halted: row.get(1)?, owned })
        });
        Ok(worked.optional()?)
    }
}

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease comes the rows of the session.
pub(super) fn acquire(
    tx: &Connection,
    names: &Names,
    lease: &LeaseRequest,
    marked: StaleMarks,
) -> Attempt<(Acquired, Option<SessionRows>)> {
    let name = &lease.subscription;
    let row = Worked::load(tx, name)?.ok_or_else(|| unknown(name))?;
    if let Some(reason) = row.halted {
        return Ok((Acquired::Halted(reason), None));
    }
    let now = now(tx)?;
    if let Some((holder, expires_at)) = other_holder(tx, Ledger::Rows, lease, now)? {
        let remaining = Timestamp::from_micros(now).until(Timestamp::from_micros(expires_at));
        return Ok((Acquired::Held { holder, remaining }, None));
    }
    let epoch = Epoch(row.epoch + 1);
    take(tx, Ledger::Rows, lease, epoch, now)?;
    let claimed = match marked {
        StaleMarks::Keep => claimed(tx)?,
        StaleMarks::GiveBack => {
            log_recovered(name, give_back(tx, names)?);
            Vec::new()
        }
    };
    if let Some(marks) = &names.sql.marks {
        let foreign = names.put_into(marks.foreign);
        let (recent, all) = tx.query_row(&foreign, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        refuse_foreign_publisher(&names.table, recent, all)?;
    }
    let aside = SetAside::of(notes(tx, names)?, [], &names.table)?.keeping(claimed);
    for id in &aside.stale {
        // Index: the primary key (row_id).
        tx.prepare_cached("DELETE FROM postrider_row_notes WHERE row_id = ?1")?.execute([id])?;
        tx.prepare_cached("DELETE FROM postrider_row_refused WHERE row_id = ?1")?.execute([id])?;
    }
    let (loaded, known) = aside.load(epoch, row.owned, &names.table);
    Ok((Acquired::Granted(Box::new(loaded)), Some(known)))
}

/// Rows that the last owner had marked.
fn claimed(tx: &Connection) -> Attempt<Vec<(String, RowClaim)>> {
    let sql = "SELECT CAST(json_extract(e.value, '$[0]') AS TEXT), o.number, o.claimed_at, json_extract(e.value, '$[1]')
               FROM postrider_row_claims AS o, json_each(o.ids) AS e
               ORDER BY o.number, e.id";
    let mut statement = tx.prepare_cached(sql)?;
    let claims = statement.query_map([], |row| {
        let at = Timestamp::from_micros(row.get(2)?);
        Ok((row.get(0)?, RowClaim { number: row.get(1)?, at, attempts: row.get(3)? }))
    })?;
    Ok(claims.collect::<Result<_, _>>()?)
}

/// Gives back the rows that were claimed and not settled. Answers how many.
fn give_back(tx: &Connection, names: &Names) -> Attempt<u64> {
    let Some(marks) = &names.sql.marks else { return Ok(0) };
    let returned = tx.prepare_cached(&names.put_into(marks.give_back))?.execute([])?;
    tx.prepare_cached("DELETE FROM postrider_row_claims")?.execute([])?;
    Ok(returned as u64)
}

/// Gives back what this epoch has claimed, if it is still the subscription's.
pub(super) fn give_back_as_owner(tx: &Connection, names: &Names, name: &str, epoch: Epoch) -> Attempt<()> {
    // Index: the primary key (name).
    let owns = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
    if tx.prepare_cached(owns)?.exists(params![name, epoch.0])? {
        give_back(tx, names)?;
    }
    Ok(())
}

/// All notes, beside what the table says of their rows.
pub(super) fn notes(snapshot: &Connection, names: &Names) -> Attempt<Vec<NotedRow>> {
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.load))?;
    let mut notes = statement.query_map([], note)?.collect::<Result<Vec<_>, _>>()?;
    let mut statement = snapshot.prepare_cached("SELECT row_id, outcome FROM postrider_row_refused")?;
    let refused = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let mut refused = refused.collect::<Result<HashMap<String, String>, _>>()?;
    for note in &mut notes {
        note.refused = refused.remove(&note.id).map(|word| Refused::from_word(&word));
    }
    Ok(notes)
}

fn note(row: &Row<'_>) -> rusqlite::Result<NotedRow> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|time| time.map(Timestamp::from_micros));
    Ok(NotedRow {
        id: row.get(0)?,
        key: row.get(1)?,
        destination: row.get(2)?,
        state: row.get(3)?,
        attempts: row.get(4)?,
        next_attempt_at: time(5)?,
        last_error: row.get(6)?,
        created: time(7)?,
        is_done: row.get(8)?,
        is_given_up: row.get(9)?,
        limit: row.get(10)?,
        refused: None,
    })
}
