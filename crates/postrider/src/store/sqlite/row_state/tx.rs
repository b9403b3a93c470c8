//! Steps within a transaction, on the thread that owns the connection.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::super::lease::{now, other_holder, take, unknown};
use super::super::ledger::Ledger;
use super::super::{adopt, audit, lease, relays};
use super::sql::Names;
use super::{retention, settle};
use crate::adopt::AdoptionBatch;
use crate::operate::{AuditEntry, AuditQuery};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::lease_tx::LeaseTx;
use crate::store::result_row::{ResultRow, required};
use crate::store::row_limit;
use crate::store::row_state::columns::foreign_claims;
use crate::store::row_state::dialect::{BacklogRows, RowCounts, RowTx, StoredSubscription};
use crate::store::row_state::load::{LockedSubscription, NotedRow, ScheduledRow};
use crate::store::row_state::no_row;
use crate::store::row_state::notifications::{NotificationTx, SubscriptionTx};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::refused::Refused;
use crate::store::row_state::term_rows::{RowClaim, RowId};
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Purge, RelayOverview, Settlement};
use crate::{Result, Timestamp};

/// An open transaction. It borrows the connection as a whole, so that it can be sent to another thread with its verb.
pub(super) struct SqliteRowTx<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) names: &'a Names,
}

/// Ids of due rows in their order, at most `rows_max`.
pub(super) fn list_due(snapshot: &Connection, names: &Names, rows_max: usize) -> Attempt<Vec<RowId>> {
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.list))?;
    let limit = row_limit(rows_max);
    let ids = statement.query_map([limit], |row| Ok(row.get::<_, String>(0)?.into()))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// All rows that a statement returns.
fn all<T>(
    tx: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Attempt<Vec<T>> {
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// The first row that a statement returns.
fn first<T>(
    tx: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Attempt<Option<T>> {
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    Ok(rows.next()?.map(read).transpose()?)
}

impl SqliteRowTx<'_> {
    /// Runs a step, and converts its error.
    fn step<T>(&mut self, step: impl FnOnce(&Connection, &Names) -> Attempt<T>) -> Result<T> {
        Ok(step(self.connection, self.names)?)
    }
}

impl LeaseTx for SqliteRowTx<'_> {
    type Row = LockedSubscription;

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

    /// The transaction is the only one that writes, so nothing needs a lock.
    async fn lock(&mut self, name: &str) -> Result<Option<LockedSubscription>> {
        self.step(|tx, _| {
            // Index: the primary key (name).
            let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                       FROM postrider_row_subscriptions WHERE name = ?1";
            first(tx, sql, [name], |row| LockedSubscription::read(row))
        })
    }

    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        self.step(|tx, _| take(tx, Ledger::Rows, lease, epoch, now(tx)?))
    }
}

impl RowTx for SqliteRowTx<'_> {
    async fn subscriptions(&mut self) -> Result<Vec<StoredSubscription>> {
        self.step(|tx, _| {
            let sql =
                "SELECT name, epoch, clean, paused, halted FROM postrider_row_subscriptions ORDER BY name";
            all(tx, sql, [], |row| StoredSubscription::read(row))
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

    async fn remove_marks(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        self.step(|tx, names| {
            let Some(marks) = &names.sql.marks else { return Ok(0) };
            // Index: the primary key (name).
            let owns = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
            if !tx.prepare_cached(owns)?.exists(params![name, epoch.0])? {
                return Ok(0);
            }
            let unmarked = tx.prepare_cached(&names.put_into(marks.remove))?.execute([])?;
            tx.prepare_cached("DELETE FROM postrider_row_claims")?.execute([])?;
            Ok(unmarked as u64)
        })
    }

    async fn marked_rows(&mut self) -> Result<Vec<(String, RowClaim)>> {
        self.step(|tx, _| {
            let sql = "SELECT CAST(json_extract(e.value, '$[0]') AS TEXT), o.number, o.claimed_at,
                              json_extract(e.value, '$[1]')
                       FROM postrider_row_claims AS o, json_each(o.ids) AS e
                       ORDER BY o.number, e.id";
            all(tx, sql, [], |row| RowClaim::read(row, true))
        })
    }

    async fn foreign_claims(&mut self) -> Result<Option<(i64, i64)>> {
        self.step(|tx, names| {
            let Some(marks) = &names.sql.marks else { return Ok(None) };
            first(tx, &names.put_into(marks.foreign), [], |row| foreign_claims(row))
        })
    }

    async fn notes(&mut self, _: &str) -> Result<Vec<NotedRow>> {
        self.step(|tx, names| all(tx, &names.put_into(names.sql.notes), [], |row| NotedRow::read(row)))
    }

    async fn refused_rows(&mut self) -> Result<Vec<(String, Refused)>> {
        let sql = "SELECT row_id, outcome FROM postrider_row_refused";
        self.step(|tx, _| all(tx, sql, [], |row| Refused::read(row)))
    }

    /// No layout on SQLite has a column for the time of the next attempt.
    async fn scheduled_rows(&mut self, _: &str) -> Result<Vec<ScheduledRow>> {
        Ok(Vec::new())
    }

    async fn delete_notes(&mut self, ids: &[String]) -> Result<()> {
        self.step(|tx, _| settle::delete_notes(tx, ids))
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        self.step(|tx, names| {
            Ok(first(tx, &names.put_into(names.sql.newest), [], |row| row.time(0))?.flatten())
        })
    }

    async fn backlog(&mut self, _: &str, rows_max: u64) -> Result<BacklogRows> {
        self.step(|tx, names| {
            let limit = row_limit(rows_max);
            let read = |row: &Row<'_>| BacklogRows::read(row, row.as_ref().column_count());
            Ok(first(tx, &names.put_into(names.sql.backlog), [limit], read)?.unwrap_or_default())
        })
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        self.step(|tx, _| lease::load(tx, Ledger::Rows, name))
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        self.step(|tx, _| relays::load(tx, Ledger::Rows, name))
    }

    async fn counts(&mut self, _: &str) -> Result<RowCounts> {
        let counts = |row: &Row<'_>| RowCounts::read(row);
        let counts = self.step(|tx, names| first(tx, &names.put_into(names.sql.counts), [], counts))?;
        counts.ok_or_else(no_row)
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

    async fn note_times(&mut self) -> Result<Vec<(String, Timestamp, Timestamp)>> {
        let sql = "SELECT row_id, parked_at, updated_at FROM postrider_row_notes";
        self.step(|tx, _| {
            all(tx, sql, [], |row| {
                let time = |column| required(row.time(column)?, column);
                Ok((row.row_id(0)?, time(1)?, time(2)?))
            })
        })
    }

    async fn changes(&mut self, name: &str) -> Result<i64> {
        // Index: the primary key (name).
        let sql = "SELECT changes FROM postrider_row_subscriptions WHERE name = ?1";
        self.step(|tx, _| Ok(first(tx, sql, [name], |row| row.number(0))?.flatten().unwrap_or(0)))
    }

    async fn raise_changes(&mut self, name: &str) -> Result<()> {
        // Index: the primary key (name).
        let sql = "UPDATE postrider_row_subscriptions SET changes = changes + 1 WHERE name = ?1";
        self.step(|tx, _| Ok(tx.execute(sql, [name]).map(drop)?))
    }

    async fn set_paused(&mut self, name: &str, reason: Option<&str>) -> Result<bool> {
        // Index: the primary key (name).
        let sql = "UPDATE postrider_row_subscriptions SET paused = ?2, updated_at = ?3 WHERE name = ?1";
        self.step(|tx, _| Ok(tx.execute(sql, params![name, reason, now(tx)?])? > 0))
    }

    async fn exclude_from_retention(&mut self, ids: &[String]) -> Result<()> {
        self.step(|tx, _| retention::exclude(tx, ids))
    }

    async fn write(&mut self, batch: AdoptionBatch) -> Result<()> {
        Ok(adopt::write(self.connection, batch)?)
    }
}

impl AuditTx for SqliteRowTx<'_> {
    async fn insert_audit(&mut self, new: NewAudit<'_>) -> Result<()> {
        self.step(|tx, _| audit::insert(tx, new))
    }

    async fn audit_parts(&mut self, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
        self.step(|tx, _| audit::parts(tx, page))
    }

    async fn list_audit(&mut self, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
        self.step(|tx, _| audit::list(tx, query))
    }
}

impl SubscriptionTx for SqliteRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        self.step(|tx, _| {
            let create = "INSERT INTO postrider_row_subscriptions (name, created_at, updated_at)
                          SELECT ?1, ?2, ?2 WHERE NOT EXISTS (SELECT 1 FROM postrider_row_subscriptions)";
            Ok(tx.execute(create, params![name, now(tx)?])? > 0)
        })
    }

    async fn now(&mut self) -> Result<Timestamp> {
        self.step(|tx, _| now(tx).map(Timestamp::from_micros))
    }
}

/// SQLite does not have layout `eventlog`.
impl NotificationTx for SqliteRowTx<'_> {}
