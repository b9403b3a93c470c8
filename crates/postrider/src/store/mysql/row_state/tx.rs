//! Steps within a transaction.

use std::collections::HashMap;

use mysql_async::Row;

use super::super::log_tx::clock;
use super::super::row::{self, count, get, get_opt, micros};
use super::super::session::{Params, Tx, params};
use super::super::{adopt, lease, relays};
use super::read::text_id;
use super::retention;
use super::settle::outcome;
use super::sql::Sql;
use crate::adopt::Parcel;
use crate::layout::RowTable;
use crate::store::row_state::dialect::{RowCounts, RowTx, SubscriptionState, WaitingRows};
use crate::store::row_state::load::{NotedRow, SubscriptionRow, WaitingRow};
use crate::store::row_state::lost;
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::RowClaim;
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Purge, RelayOverview, Settlement};
use crate::{Result, Timestamp};

/// One transaction on a server.
pub(super) struct MySqlRowTx<'a> {
    pub(super) tx: Tx<'a>,
    pub(super) sql: &'a Sql,
    pub(super) table: &'a RowTable,
}

/// A time that may be missing.
fn time(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get_opt::<i64>(row, column)?.map(Timestamp::from_micros))
}

impl RowTx for MySqlRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        // One after the other. Index: the primary key, its one row.
        self.tx.query("SELECT layout FROM {schema}.row_table FOR UPDATE", Params::new()).await?;
        let known = self.tx.query_opt("SELECT name FROM {schema}.subscriptions", Params::new()).await?;
        if known.is_some() {
            return Ok(false);
        }
        let history = self.tx.server().history.clone();
        let create = "INSERT INTO {schema}.subscriptions (name, history) VALUES (?, ?)";
        self.tx.execute(create, params![name, history]).await.map(|_| true)
    }

    async fn subscriptions(&mut self) -> Result<Vec<SubscriptionState>> {
        let sql = "SELECT name, epoch, clean, paused, halted FROM {schema}.subscriptions ORDER BY name";
        let status = |row: &Row| {
            Ok(SubscriptionState {
                name: get(row, 0)?,
                epoch: Epoch(get(row, 1)?),
                clean: get(row, 2)?,
                paused: get(row, 3)?,
                halted: get(row, 4)?,
            })
        };
        self.tx.query(sql, Params::new()).await?.iter().map(status).collect()
    }

    async fn accept_history(&mut self, name: &str) -> Result<bool> {
        let history = self.tx.server().history.clone();
        // Index: the primary key (name).
        let accept =
            "UPDATE {schema}.subscriptions SET epoch = epoch + 1, halted = NULL, history = ? WHERE name = ?";
        Ok(self.tx.execute(accept, params![history, name]).await? > 0)
    }

    async fn delete_lease(&mut self, name: &str) -> Result<()> {
        // Index: the primary key (name).
        self.tx.execute("DELETE FROM {schema}.leases WHERE name = ?", params![name]).await.map(drop)
    }

    async fn has_due_row(&mut self) -> Result<bool> {
        let due = self.tx.query_opt(&self.sql.list.replace("{most}", "1"), Params::new()).await?;
        Ok(due.is_some())
    }

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        lease::refusal(&mut self.tx, lease).await
    }

    async fn lock_subscription(&mut self, name: &str) -> Result<Option<(Epoch, SubscriptionRow)>> {
        // Index: the primary key (name).
        let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                   FROM {schema}.subscriptions WHERE name = ? FOR UPDATE";
        let Some(row) = self.tx.query_opt(sql, params![name]).await? else { return Ok(None) };
        let subscription = SubscriptionRow {
            clean: get(&row, 1)?,
            paused: get(&row, 2)?,
            trial: get(&row, 3)?,
            trial_deaths: count(&row, 4)?,
        };
        Ok(Some((Epoch(get(&row, 0)?), subscription)))
    }

    async fn take_lease(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        lease::take(&mut self.tx, lease, epoch).await
    }

    async fn give_back(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        let Some(marks) = &self.sql.marks else { return Ok(0) };
        // Index: the primary key (name).
        let lock = "SELECT epoch FROM {schema}.subscriptions WHERE name = ? AND epoch = ? FOR UPDATE";
        if self.tx.query(lock, params![name, epoch.0]).await?.is_empty() {
            return Ok(0);
        }
        let given_back = self.tx.execute(marks.give_back, Params::new()).await?;
        self.tx.execute("DELETE FROM {schema}.row_claims", Params::new()).await?;
        Ok(given_back)
    }

    async fn marked_rows(&mut self) -> Result<Vec<(String, RowClaim)>> {
        if self.sql.marks.is_none() {
            return Ok(Vec::new());
        }
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
        self.tx.query(sql, Params::new()).await?.iter().map(claim).collect()
    }

    async fn foreign_marks(&mut self) -> Result<Option<(i64, i64)>> {
        let Some(marks) = &self.sql.marks else { return Ok(None) };
        let row = self.tx.query_opt(marks.foreign, Params::new()).await?;
        row.map(|row| Ok((get(&row, 0)?, get(&row, 1)?))).transpose()
    }

    async fn notes(&mut self) -> Result<Vec<NotedRow>> {
        let rows = self.tx.query(self.sql.load, Params::new()).await?;
        let mut notes = rows.iter().map(note).collect::<Result<Vec<_>>>()?;
        let mut refused = HashMap::new();
        for row in self.tx.query("SELECT row_id, outcome FROM {schema}.row_refused", Params::new()).await? {
            refused.insert(text_id(&row)?, Refused::from_word(&get::<String>(&row, 1)?));
        }
        notes.iter_mut().for_each(|note| note.refused = refused.remove(&note.id));
        Ok(notes)
    }

    async fn waiting(&mut self) -> Result<Vec<WaitingRow>> {
        let Some(statement) = self.sql.waiting else { return Ok(Vec::new()) };
        let waiting = |row: &Row| {
            Ok(WaitingRow {
                id: text_id(row)?,
                key: get(row, 1)?,
                attempts: get(row, 2)?,
                next_attempt_at: row::time(row, 3)?,
                created: row::time(row, 4)?,
            })
        };
        self.tx.query(statement, Params::new()).await?.iter().map(waiting).collect()
    }

    async fn forget(&mut self, ids: &[String]) -> Result<()> {
        // Index: the primary key (row_id).
        let listed = self.sql.ids.listed(ids.iter().map(String::as_str));
        for of in ["row_notes", "row_refused"] {
            let forget = format!("DELETE FROM {{schema}}.{of} WHERE row_id IN ({listed})");
            self.tx.execute(&forget, Params::new()).await?;
        }
        Ok(())
    }

    async fn now(&mut self) -> Result<Timestamp> {
        clock(&mut self.tx).await
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        let row = self.tx.query_opt(self.sql.newest, Params::new()).await?;
        row.map_or(Ok(None), |row| time(&row, 0))
    }

    async fn backlog(&mut self, rows_max: u64) -> Result<WaitingRows> {
        let statement = self.sql.backlog.replace("{most}", &rows_max.to_string());
        let row = self.tx.query_opt(&statement, Params::new()).await?;
        let Some(row) = row else { return Ok(WaitingRows::default()) };
        // Only a mapped table tells the two times apart.
        let (first, oldest) = (time(&row, 1)?, time(&row, row.len() - 1)?);
        Ok(WaitingRows { events: get::<i64>(&row, 0)?.unsigned_abs(), first, oldest })
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        lease::load(&mut self.tx, name).await
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        relays::load(&mut self.tx, name).await
    }

    async fn counts(&mut self) -> Result<RowCounts> {
        let row = self.tx.query_opt(self.sql.counts, Params::new()).await?.ok_or_else(lost)?;
        let mut by_state = [0; 6];
        for (at, rows) in by_state.iter_mut().enumerate() {
            *rows = get::<i64>(&row, at)?.unsigned_abs();
        }
        Ok(RowCounts { by_state, undelivered: [time(&row, 6)?, time(&row, 7)?] })
    }

    async fn delete_own(&mut self, purge: &Purge) -> Result<(u64, u64)> {
        retention::delete_own(&mut self.tx, self.sql, self.table, purge).await
    }

    async fn delete_delivered(&mut self, purge: &Purge) -> Result<u64> {
        retention::delete_delivered(&mut self.tx, self.sql, purge).await
    }

    /// Deliveries alone: nothing else is handed over.
    async fn record(&mut self, settlement: &Settlement, plan: &SettlePlan) -> Result<Option<usize>> {
        // Index: the primary key (name).
        let fence = "UPDATE {schema}.subscriptions
                     SET trial = NULL, trial_deaths = 0, updated_at = UTC_TIMESTAMP(6)
                     WHERE name = ? AND epoch = ?";
        let owner = params![settlement.subscription.as_str(), settlement.epoch.0];
        if self.tx.execute(fence, owner).await? == 0 {
            return Ok(None);
        }
        let remember = "SET @postrider_owns = 1, @postrider_done = ?";
        self.tx.execute(remember, params![outcome(self.sql.ids, &plan.done)?]).await?;
        let [done, ..] = self.sql.outcomes;
        let changed = self.tx.execute(done, Params::new()).await?;
        if !plan.forgotten.is_empty() {
            self.forget(&plan.forgotten).await?;
        }
        Ok(Some(usize::try_from(changed).unwrap_or(usize::MAX)))
    }

    async fn keep(&mut self, ids: &[String]) -> Result<()> {
        retention::keep(&mut self.tx, self.sql, ids).await
    }

    async fn write(&mut self, parcel: Parcel) -> Result<()> {
        adopt::write(&mut self.tx, parcel).await
    }
}

fn note(row: &Row) -> Result<NotedRow> {
    let holds = |column| get_opt::<i64>(row, column).map(|answer| answer == Some(1));
    Ok(NotedRow {
        id: text_id(row)?,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state: get(row, 3)?,
        attempts: count(row, 4)?,
        next_attempt_at: time(row, 5)?,
        last_error: get(row, 6)?,
        created: time(row, 7)?,
        is_done: holds(8)?,
        is_given_up: holds(9)?,
        limit: get(row, 10)?,
        refused: None,
    })
}
