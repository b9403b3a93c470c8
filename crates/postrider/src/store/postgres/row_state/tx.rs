//! Steps within a transaction.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::super::history::Incarnation;
use super::super::row::{count, get};
use super::super::session::Tx;
use super::super::time::Time;
use super::super::{adopt, lease, relays};
use super::connection::PostgresRows;
use super::{read, retention, settle};
use crate::adopt::Parcel;
use crate::store::row_state::dialect::{RowCounts, RowTx, SubscriptionState, WaitingRows};
use crate::store::row_state::load::{NotedRow, SubscriptionRow, WaitingRow};
use crate::store::row_state::lost;
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::refused::Refused;
use crate::store::row_state::session_rows::RowClaim;
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Purge, RelayOverview, Settlement};
use crate::{Result, Timestamp};

/// One transaction on a server.
pub(super) struct PostgresRowTx<'a> {
    pub(super) tx: Tx<'a>,
    pub(super) rows: &'a PostgresRows,
    pub(super) server: Incarnation,
}

impl PostgresRowTx<'_> {
    /// Tries after which a row is given up, where the row itself does not say.
    fn limit(&self) -> i64 {
        i64::from(self.rows.table.max_attempts)
    }
}

/// A time that may be missing.
fn time(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<Time>>(row, column)?.map(|time| time.0))
}

impl RowTx for PostgresRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        // Index: the primary key (name), and that of the one row.
        let sql = "INSERT INTO {schema}.subscriptions (name, history) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        Ok(self.tx.execute(sql, &[&name, &self.server.history]).await? > 0)
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
        self.tx.query(sql, &[]).await?.iter().map(status).collect()
    }

    async fn accept_history(&mut self, name: &str) -> Result<bool> {
        // Index: the primary key (name).
        let sql = "UPDATE {schema}.subscriptions
                   SET epoch = epoch + 1, halted = NULL, history = $2
                   WHERE name = $1";
        Ok(self.tx.execute(sql, &[&name, &self.server.history]).await? > 0)
    }

    async fn delete_lease(&mut self, name: &str) -> Result<()> {
        // Index: the primary key (name).
        self.tx.execute("DELETE FROM {schema}.leases WHERE name = $1", &[&name]).await.map(drop)
    }

    async fn has_due_row(&mut self) -> Result<bool> {
        let timeout = read::foreign_timeout(&self.rows.table);
        let due = self.tx.query_opt(self.rows.sql.list, &[&1i64, &self.limit(), &timeout]).await?;
        Ok(due.is_some())
    }

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        lease::refusal(&self.tx, lease).await
    }

    async fn lock_subscription(&mut self, name: &str) -> Result<Option<(Epoch, SubscriptionRow)>> {
        // Index: the primary key (name).
        let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                   FROM {schema}.subscriptions WHERE name = $1 FOR UPDATE";
        let Some(row) = self.tx.query_opt(sql, &[&name]).await? else { return Ok(None) };
        let subscription = SubscriptionRow {
            clean: get(&row, 1)?,
            paused: get(&row, 2)?,
            trial: get(&row, 3)?,
            trial_deaths: count(&row, 4)?,
        };
        Ok(Some((Epoch(get(&row, 0)?), subscription)))
    }

    async fn take_lease(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        lease::take(&self.tx, lease, epoch).await
    }

    async fn give_back(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        let Some(statement) = self.rows.sql.give_back else { return Ok(0) };
        let row = self.tx.query_opt(statement, &[&name, &epoch.0]).await?;
        row.map_or(Ok(0), |row| get::<i64>(&row, 0)).map(i64::unsigned_abs)
    }

    async fn marked_rows(&mut self) -> Result<Vec<(String, RowClaim)>> {
        let sql = "SELECT unnest(ids), number, claimed_at FROM {schema}.row_claims ORDER BY number";
        let claim = |row: &Row| {
            let claim = RowClaim { number: get(row, 1)?, at: get::<Time>(row, 2)?.0, attempts: 0 };
            Ok((get(row, 0)?, claim))
        };
        self.tx.query(sql, &[]).await?.iter().map(claim).collect()
    }

    async fn foreign_marks(&mut self) -> Result<Option<(i64, i64)>> {
        let Some(statement) = self.rows.sql.foreign else { return Ok(None) };
        let row = self.tx.query_opt(statement, &[]).await?;
        row.map(|row| Ok((get(&row, 0)?, get(&row, 1)?))).transpose()
    }

    async fn notes(&mut self) -> Result<Vec<NotedRow>> {
        let rows = self.tx.query(self.rows.sql.load, &[&self.limit()]).await?;
        let mut notes = rows.iter().map(note).collect::<Result<Vec<_>>>()?;
        let mut refused = HashMap::new();
        for row in self.tx.query("SELECT row_id, outcome FROM {schema}.row_refused", &[]).await? {
            refused.insert(get::<String>(&row, 0)?, Refused::from_word(get(&row, 1)?));
        }
        notes.iter_mut().for_each(|note| note.refused = refused.remove(&note.id));
        Ok(notes)
    }

    async fn waiting(&mut self) -> Result<Vec<WaitingRow>> {
        let Some(statement) = self.rows.sql.waiting else { return Ok(Vec::new()) };
        let waiting = |row: &Row| {
            Ok(WaitingRow {
                id: get(row, 0)?,
                key: get(row, 1)?,
                attempts: get(row, 2)?,
                next_attempt_at: get::<Time>(row, 3)?.0,
                created: get::<Time>(row, 4)?.0,
            })
        };
        self.tx.query(statement, &[]).await?.iter().map(waiting).collect()
    }

    async fn forget(&mut self, ids: &[String]) -> Result<()> {
        // Index: the primary key (row_id).
        self.tx.execute("DELETE FROM {schema}.row_notes WHERE row_id = ANY ($1)", &[&ids]).await?;
        self.tx.execute("DELETE FROM {schema}.row_refused WHERE row_id = ANY ($1)", &[&ids]).await.map(drop)
    }

    async fn now(&mut self) -> Result<Timestamp> {
        let row = self.tx.query_opt("SELECT clock_timestamp()", &[]).await?;
        row.map_or(Ok(Timestamp::default()), |row| get::<Time>(&row, 0).map(|time| time.0))
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        let row = self.tx.query_opt(self.rows.sql.newest, &[]).await?;
        row.map_or(Ok(None), |row| time(&row, 0))
    }

    async fn backlog(&mut self, rows_max: u64) -> Result<WaitingRows> {
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let row = self.tx.query_opt(self.rows.sql.backlog, &[&limit, &self.limit()]).await?;
        let Some(row) = row else { return Ok(WaitingRows::default()) };
        // Only a mapped table tells the two times apart.
        let (first, oldest) = (time(&row, 1)?, time(&row, row.len() - 1)?);
        Ok(WaitingRows { events: get::<i64>(&row, 0)?.unsigned_abs(), first, oldest })
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        lease::load(&self.tx, name).await
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        relays::load(&self.tx, name).await
    }

    async fn counts(&mut self) -> Result<RowCounts> {
        let row = self.tx.query_opt(self.rows.sql.counts, &[&self.limit()]).await?.ok_or_else(lost)?;
        let mut by_state = [0; 6];
        for (at, rows) in by_state.iter_mut().enumerate() {
            *rows = get::<i64>(&row, at)?.unsigned_abs();
        }
        Ok(RowCounts { by_state, undelivered: [time(&row, 6)?, time(&row, 7)?] })
    }

    async fn delete_own(&mut self, purge: &Purge) -> Result<(u64, u64)> {
        retention::delete_own(&self.tx, &self.rows.sql, &self.rows.table, purge).await
    }

    async fn delete_delivered(&mut self, purge: &Purge) -> Result<u64> {
        retention::delete_delivered(&self.tx, &self.rows.sql, purge).await
    }

    async fn record(&mut self, settlement: &Settlement, plan: &SettlePlan) -> Result<Option<usize>> {
        settle::record_in(self.rows, &self.tx, settlement, plan, &self.server).await
    }

    async fn keep(&mut self, ids: &[String]) -> Result<()> {
        retention::keep(&self.tx, ids).await
    }

    async fn write(&mut self, parcel: Parcel) -> Result<()> {
        adopt::write(&self.tx, parcel).await
    }
}

fn note(row: &Row) -> Result<NotedRow> {
    Ok(NotedRow {
        id: get(row, 0)?,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state: get(row, 3)?,
        attempts: count(row, 4)?,
        next_attempt_at: time(row, 5)?,
        last_error: get(row, 6)?,
        created: time(row, 7)?,
        is_done: get::<Option<bool>>(row, 8)?.unwrap_or(false),
        is_given_up: get::<Option<bool>>(row, 9)?.unwrap_or(false),
        limit: get(row, 10)?,
        refused: None,
    })
}
