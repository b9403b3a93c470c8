//! Taking the lease, and the load that comes with it.

use rusqlite::{Connection, Row, params};

use super::super::failure::Attempt;
use super::super::lease::{now, other_holder, take, unknown};
use super::super::ledger::Ledger;
use super::super::progress;
use super::read::number;
use super::sql::{FOREIGN, GIVE_BACK, LOAD, Names};
use crate::Timestamp;
use crate::store::rows::book::Book;
use crate::store::rows::load::{Aside, NotedRow, Owned, refuse_strangers, tell_recovered};
use crate::store::{Acquired, Epoch, LeaseRequest};

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease comes the book of the session.
pub(super) fn acquire(
    tx: &Connection,
    names: &Names,
    lease: &LeaseRequest,
) -> Attempt<(Acquired, Option<Book>)> {
    let name = &lease.subscription;
    let row = progress::load(tx, Ledger::Rows, name)?.ok_or_else(|| unknown(name))?;
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
    tell_recovered(name, give_back(tx, names)?);
    let (recent, all) = tx.query_row(&names.put_into(FOREIGN), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    refuse_strangers(&names.table, recent, all)?;
    let aside = Aside::of(notes(tx, names)?, [], &names.table)?;
    for id in &aside.stale {
        // Index: the primary key (row_id).
        tx.prepare_cached("DELETE FROM postrider_row_notes WHERE row_id = ?1")?.execute([number(id)])?;
    }
    let (trial, trial_deaths) = tx.query_row(
        "SELECT trial, trial_deaths FROM postrider_row_subscriptions WHERE name = ?1",
        [name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let owned = Owned { clean: row.clean, paused: row.paused, trial, trial_deaths };
    let (loaded, book) = aside.load(epoch, owned, &names.table);
    Ok((Acquired::Granted(Box::new(loaded)), Some(book)))
}

/// Gives back the rows that were claimed and not settled. Answers how many.
fn give_back(tx: &Connection, names: &Names) -> Attempt<u64> {
    let returned = tx.prepare_cached(&names.put_into(GIVE_BACK))?.execute([])?;
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
    let mut statement = snapshot.prepare_cached(&names.put_into(LOAD))?;
    let notes = statement.query_map([], note)?.collect::<Result<_, _>>()?;
    Ok(notes)
}

fn note(row: &Row<'_>) -> rusqlite::Result<NotedRow> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|time| time.map(Timestamp::from_micros));
    Ok(NotedRow {
        id: row.get::<_, i64>(0)?.to_string(),
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
    })
}
