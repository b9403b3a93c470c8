//! Steps within a transaction, on the thread that owns the connection.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::super::lease::{now, other_holder, take, unknown};
use super::super::ledger::Ledger;
use super::super::{adopt, lease, relays};
use super::sql::Names;
use super::{retention, settle};
use crate::adopt::Parcel;
use crate::store::row_state::dialect::{RowCounts, RowTx, SubscriptionState, WaitingRows};
use crate::store::row_state::load::{NotedRow, SubscriptionRow, WaitingRow};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::{RowClaim, RowId};
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Purge, RelayOverview, Settlement};
use crate::{Result, Timestamp};

/// An open transaction. The connection is borrowed as a whole, so that it may go to another thread with its verb.
pub(super) struct SqliteRowTx<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) names: &'a Names,
}

/// A time that may be missing.
fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// Ids of due rows in their order, at most so many.
pub(super) fn list_due(snapshot: &Connection, names: &Names, rows_max: usize) -> Attempt<Vec<RowId>> {
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.list))?;
    let most = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let ids = statement.query_map([most], |row| Ok(row.get::<_, String>(0)?.into()))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

impl SqliteRowTx<'_> {
    /// Runs a step, with errors as everywhere else.
    fn step<T>(&mut self, step: impl FnOnce(&Connection, &Names) -> Attempt<T>) -> Result<T> {
        Ok(step(self.connection, self.names)?)
    }
}

impl RowTx for SqliteRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        self.step(|tx, _| {
            let create = "INSERT INTO postrider_row_subscriptions (name, created_at, updated_at)
                          SELECT ?1, ?2, ?2 WHERE NOT EXISTS (SELECT 1 FROM postrider_row_subscriptions)";
            Ok(tx.execute(create, params![name, now(tx)?])? > 0)
        })
    }

    async fn subscriptions(&mut self) -> Result<Vec<SubscriptionState>> {
        self.step(|tx, _| {
            let sql =
                "SELECT name, epoch, clean, paused, halted FROM postrider_row_subscriptions ORDER BY name";
            let mut statement = tx.prepare_cached(sql)?;
            let all = statement.query_map([], |row| {
                Ok(SubscriptionState {
                    name: row.get(0)?,
                    epoch: Epoch(row.get(1)?),
                    clean: row.get(2)?,
                    paused: row.get(3)?,
                    halted: row.get(4)?,
                })
            })?;
            Ok(all.collect::<Result<_, _>>()?)
        })
    }

    async fn accept_history(&mut self, name: &str) -> Result<bool> {
        self.step(|tx, _| {
            // Index: the primary key (name).
            let accept =
                "UPDATE postrider_row_subscriptions SET epoch = epoch + 1, halted = NULL WHERE name = ?1";
            Ok(tx.execute(accept, [name])? > 0)
        })
    }

    async fn delete_lease(&mut self, name: &str) -> Result<()> {
        self.step(|tx, _| {
            // Index: the primary key (name).
            tx.execute("DELETE FROM postrider_row_leases WHERE name = ?1", [name])?;
            Ok(())
        })
    }

    async fn has_due_row(&mut self) -> Result<bool> {
        self.step(|tx, names| Ok(!list_due(tx, names, 1)?.is_empty()))
    }

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        self.step(|tx, _| {
            // Index: the primary key (name).
            let sql = "SELECT halted FROM postrider_row_subscriptions WHERE name = ?1";
            let halted: Option<Option<String>> =
                tx.prepare_cached(sql)?.query_row([&lease.subscription], |row| row.get(0)).optional()?;
            if let Some(reason) = halted.ok_or_else(|| unknown(&lease.subscription))? {
                return Ok(Some(Acquired::Halted(reason)));
            }
            let now = now(tx)?;
            let held = other_holder(tx, Ledger::Rows, lease, now)?;
            Ok(held.map(|(holder, expires_at)| {
                let remaining = Timestamp::from_micros(now).until(Timestamp::from_micros(expires_at));
                Acquired::Held { holder, remaining }
            }))
        })
    }

    /// The transaction is the only one that writes: there is nothing to lock.
    async fn lock_subscription(&mut self, name: &str) -> Result<Option<(Epoch, SubscriptionRow)>> {
        self.step(|tx, _| {
            // Index: the primary key (name).
            let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                       FROM postrider_row_subscriptions WHERE name = ?1";
            let found = tx.prepare_cached(sql)?.query_row([name], |row| {
                let subscription = SubscriptionRow {
                    clean: row.get(1)?,
                    paused: row.get(2)?,
                    trial: row.get(3)?,
                    trial_deaths: row.get(4)?,
                };
                Ok((Epoch(row.get(0)?), subscription))
            });
            Ok(found.optional()?)
        })
    }

    async fn take_lease(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        self.step(|tx, _| take(tx, Ledger::Rows, lease, epoch, now(tx)?))
    }

    async fn give_back(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        self.step(|tx, names| {
            let Some(marks) = &names.sql.marks else { return Ok(0) };
            // Index: the primary key (name).
            let owns = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
            if !tx.prepare_cached(owns)?.exists(params![name, epoch.0])? {
                return Ok(0);
            }
            let given_back = tx.prepare_cached(&names.put_into(marks.give_back))?.execute([])?;
            tx.prepare_cached("DELETE FROM postrider_row_claims")?.execute([])?;
            Ok(given_back as u64)
        })
    }

    async fn marked_rows(&mut self) -> Result<Vec<(String, RowClaim)>> {
        self.step(|tx, _| {
            let sql = "SELECT CAST(json_extract(e.value, '$[0]') AS TEXT), o.number, o.claimed_at,
                              json_extract(e.value, '$[1]')
                       FROM postrider_row_claims AS o, json_each(o.ids) AS e
                       ORDER BY o.number, e.id";
            let mut statement = tx.prepare_cached(sql)?;
            let claims = statement.query_map([], |row| {
                let at = Timestamp::from_micros(row.get(2)?);
                Ok((row.get(0)?, RowClaim { number: row.get(1)?, at, attempts: row.get(3)? }))
            })?;
            Ok(claims.collect::<Result<_, _>>()?)
        })
    }

    async fn foreign_marks(&mut self) -> Result<Option<(i64, i64)>> {
        self.step(|tx, names| {
            let Some(marks) = &names.sql.marks else { return Ok(None) };
            let foreign = names.put_into(marks.foreign);
            Ok(Some(tx.query_row(&foreign, [], |row| Ok((row.get(0)?, row.get(1)?)))?))
        })
    }

    async fn notes(&mut self) -> Result<Vec<NotedRow>> {
        self.step(|tx, names| {
            let mut statement = tx.prepare_cached(&names.put_into(names.sql.load))?;
            let mut notes = statement.query_map([], note)?.collect::<Result<Vec<_>, _>>()?;
            let mut statement = tx.prepare_cached("SELECT row_id, outcome FROM postrider_row_refused")?;
            let refused = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
            let mut refused = refused.collect::<Result<HashMap<String, String>, _>>()?;
            for note in &mut notes {
                note.refused = refused.remove(&note.id).map(|word| Refused::from_word(&word));
            }
            Ok(notes)
        })
    }

    /// No table here says that a row waits.
    async fn waiting(&mut self) -> Result<Vec<WaitingRow>> {
        Ok(Vec::new())
    }

    async fn forget(&mut self, ids: &[String]) -> Result<()> {
        self.step(|tx, _| settle::forget(tx, ids))
    }

    async fn now(&mut self) -> Result<Timestamp> {
        self.step(|tx, _| now(tx).map(Timestamp::from_micros))
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        self.step(|tx, names| Ok(tx.query_row(&names.put_into(names.sql.newest), [], |row| time(row, 0))?))
    }

    async fn backlog(&mut self, rows_max: u64) -> Result<WaitingRows> {
        self.step(|tx, names| {
            let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
            let mut statement = tx.prepare_cached(&names.put_into(names.sql.backlog))?;
            // Only a mapped table tells the two times apart.
            let last = statement.column_count() - 1;
            Ok(statement.query_row([limit], |row| {
                let events = row.get::<_, i64>(0)?.unsigned_abs();
                Ok(WaitingRows { events, first: time(row, 1)?, oldest: time(row, last)? })
            })?)
        })
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        self.step(|tx, _| lease::load(tx, Ledger::Rows, name))
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        self.step(|tx, _| relays::load(tx, Ledger::Rows, name))
    }

    async fn counts(&mut self) -> Result<RowCounts> {
        self.step(|tx, names| {
            let counts = tx.query_row(&names.put_into(names.sql.counts), [], |row| {
                let mut by_state = [0; 6];
                for (at, rows) in by_state.iter_mut().enumerate() {
                    *rows = row.get::<_, i64>(at)?.unsigned_abs();
                }
                Ok(RowCounts { by_state, undelivered: [time(row, 6)?, time(row, 7)?] })
            });
            Ok(counts?)
        })
    }

    async fn delete_own(&mut self, purge: &Purge) -> Result<(u64, u64)> {
        self.step(|tx, names| retention::delete_own(tx, names, purge))
    }

    async fn delete_delivered(&mut self, purge: &Purge) -> Result<u64> {
        self.step(|tx, names| retention::delete_delivered(tx, names, purge))
    }

    async fn record(&mut self, settlement: &Settlement, plan: &SettlePlan) -> Result<Option<usize>> {
        self.step(|tx, names| settle::record(tx, names, &settlement.subscription, settlement.epoch, plan))
    }

    async fn keep(&mut self, ids: &[String]) -> Result<()> {
        self.step(|tx, _| retention::keep(tx, ids))
    }

    async fn write(&mut self, parcel: Parcel) -> Result<()> {
        self.step(|tx, _| adopt::write(tx, parcel))
    }
}

fn note(row: &Row<'_>) -> rusqlite::Result<NotedRow> {
    Ok(NotedRow {
        id: row.get(0)?,
        key: row.get(1)?,
        destination: row.get(2)?,
        state: row.get(3)?,
        attempts: row.get(4)?,
        next_attempt_at: time(row, 5)?,
        last_error: row.get(6)?,
        created: time(row, 7)?,
        is_done: row.get(8)?,
        is_given_up: row.get(9)?,
        limit: row.get(10)?,
        refused: None,
    })
}
