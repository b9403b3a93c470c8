//! Steps within a transaction.

use tokio_postgres::Row;

use super::super::history::Incarnation;
use super::super::row::get;
use super::super::session::Tx;
use super::super::time::Time;
use super::super::{adopt, audit, event_facts, lease, open_transactions, relays};
use super::connection::PostgresRows;
use super::{logged_event, notifications, read, retention, settle};
use crate::adopt::AdoptionBatch;
use crate::layout::{Ability, RowLayout};
use crate::operate::explain::OpenWriter;
use crate::operate::{AuditEntry, AuditQuery};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::lease_tx::LeaseTx;
use crate::store::result_row::ResultRow;
use crate::store::row_limit;
use crate::store::row_state::columns::foreign_claims;
use crate::store::row_state::dialect::{BacklogRows, RowCounts, RowTx, StoredSubscription};
use crate::store::row_state::event_facts::LoggedEvent;
use crate::store::row_state::load::{LockedSubscription, NotedRow, ScheduledRow};
use crate::store::row_state::no_row;
use crate::store::row_state::notifications::{
    Existing, FanOutScope, HandlerType, NotificationTx, RegisteredType, SubscriptionTx, WaitingEvent,
};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::refused::Refused;
use crate::store::row_state::term_rows::RowClaim;
use crate::store::{
    Acquired, Epoch, LeaseOverview, LeaseRequest, MissedNotification, Purge, RelayOverview, Settlement,
    Skipped,
};
use crate::{Result, Timestamp};

/// One transaction on a server.
pub(super) struct PostgresRowTx<'a> {
    pub(super) tx: Tx<'a>,
    pub(super) rows: &'a PostgresRows,
    pub(super) server: Incarnation,
}

impl PostgresRowTx<'_> {
    /// Attempts after which a row is given up, unless the row has its own limit.
    fn limit(&self) -> i64 {
        i64::from(self.rows.table.max_attempts)
    }
}

impl LeaseTx for PostgresRowTx<'_> {
    type Row = LockedSubscription;

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        self.tx.refusal(lease).await
    }

    async fn lock(&mut self, name: &str) -> Result<Option<LockedSubscription>> {
        // Index: the primary key (name).
        let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                   FROM {schema}.subscriptions WHERE name = $1 FOR UPDATE";
        self.tx.query_opt(sql, &[&name]).await?.as_ref().map(LockedSubscription::read).transpose()
    }

    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        self.tx.take(lease, epoch).await
    }
}

impl RowTx for PostgresRowTx<'_> {
    async fn subscriptions(&mut self) -> Result<Vec<StoredSubscription>> {
        let sql = "SELECT name, epoch, clean, paused, halted FROM {schema}.subscriptions ORDER BY name";
        self.tx.query(sql, &[]).await?.iter().map(StoredSubscription::read).collect()
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
        let (names, types) = (self.rows.table.handler_names(), self.rows.table.handler_like_patterns());
        let due =
            self.tx.query_opt(self.rows.sql.list, &[&1i64, &self.limit(), &timeout, &names, &types]).await?;
        Ok(due.is_some())
    }

    async fn remove_marks(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        let Some(statement) = self.rows.sql.remove_marks else { return Ok(0) };
        let row = self.tx.query_opt(statement, &[&name, &epoch.0]).await?;
        row.map_or(Ok(0), |row| get::<i64>(&row, 0)).map(i64::unsigned_abs)
    }

    async fn marked_rows(&mut self) -> Result<Vec<(String, RowClaim)>> {
        let sql = "SELECT unnest(ids), number, claimed_at FROM {schema}.row_claims ORDER BY number";
        self.tx.query(sql, &[]).await?.iter().map(|row| RowClaim::read(row, false)).collect()
    }

    async fn foreign_claims(&mut self) -> Result<Option<(i64, i64)>> {
        let Some(statement) = self.rows.sql.foreign_claims else { return Ok(None) };
        self.tx.query_opt(statement, &[]).await?.as_ref().map(foreign_claims).transpose()
    }

    async fn notes(&mut self, subscription: &str) -> Result<Vec<NotedRow>> {
        let types = self.rows.table.handler_like_patterns();
        let rows = self.tx.query(self.rows.sql.notes, &[&self.limit(), &subscription, &types]).await?;
        rows.iter().map(NotedRow::read).collect()
    }

    async fn refused_rows(&mut self) -> Result<Vec<(String, Refused)>> {
        let sql = "SELECT row_id, outcome FROM {schema}.row_refused";
        self.tx.query(sql, &[]).await?.iter().map(Refused::read).collect()
    }

    async fn scheduled_rows(&mut self, subscription: &str) -> Result<Vec<ScheduledRow>> {
        let Some(statement) = self.rows.sql.scheduled else { return Ok(Vec::new()) };
        let types = self.rows.table.handler_like_patterns();
        self.tx.query(statement, &[&subscription, &types]).await?.iter().map(ScheduledRow::read).collect()
    }

    async fn delete_notes(&mut self, ids: &[String]) -> Result<()> {
        // Index: the primary key (row_id).
        self.tx.execute("DELETE FROM {schema}.row_notes WHERE row_id = ANY ($1)", &[&ids]).await?;
        self.tx.execute("DELETE FROM {schema}.row_refused WHERE row_id = ANY ($1)", &[&ids]).await.map(drop)
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        let row = self.tx.query_opt(self.rows.sql.newest, &[]).await?;
        row.map_or(Ok(None), |row| row.time(0))
    }

    async fn backlog(&mut self, subscription: &str, rows_max: u64) -> Result<BacklogRows> {
        let limit = row_limit(rows_max);
        let row = self.tx.query_opt(self.rows.sql.backlog, &[&limit, &self.limit(), &subscription]).await?;
        row.map_or(Ok(BacklogRows::default()), |row| BacklogRows::read(&row, row.len()))
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        lease::load(&self.tx, name).await
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        relays::load(&self.tx, name).await
    }

    async fn oldest_transaction(&mut self) -> Result<Option<Option<Timestamp>>> {
        open_transactions::oldest(&self.tx).await
    }

    async fn counts(&mut self, subscription: &str) -> Result<RowCounts> {
        let (statement, limit) = (self.rows.sql.counts, self.limit());
        let row = match self.rows.table.layout.has(Ability::Notifications) {
            true => self.tx.query_opt(statement, &[&subscription]).await?,
            false => self.tx.query_opt(statement, &[&limit]).await?,
        };
        RowCounts::read(&row.ok_or_else(no_row)?)
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

    async fn note_times(&mut self) -> Result<Vec<(String, Timestamp, Timestamp)>> {
        let sql = "SELECT row_id, parked_at, updated_at FROM {schema}.row_notes";
        let rows = self.tx.query(sql, &[]).await?;
        let times = |row: &Row| Ok((get(row, 0)?, get::<Time>(row, 1)?.0, get::<Time>(row, 2)?.0));
        rows.iter().map(times).collect()
    }

    async fn changes(&mut self, name: &str) -> Result<i64> {
        // Index: the primary key (name).
        let sql = "SELECT changes FROM {schema}.subscriptions WHERE name = $1";
        let row = self.tx.query_opt(sql, &[&name]).await?;
        row.map_or(Ok(0), |row| get(&row, 0))
    }

    async fn raise_changes(&mut self, name: &str) -> Result<()> {
        // Index: the primary key (name).
        let sql = "UPDATE {schema}.subscriptions SET changes = changes + 1 WHERE name = $1";
        self.tx.execute(sql, &[&name]).await.map(drop)
    }

    async fn set_paused(&mut self, name: &str, reason: Option<&str>) -> Result<bool> {
        // Index: the primary key (name).
        let sql =
            "UPDATE {schema}.subscriptions SET paused = $2, updated_at = clock_timestamp() WHERE name = $1";
        Ok(self.tx.execute(sql, &[&name, &reason]).await? > 0)
    }

    async fn find_by_event_id(&mut self, id: &str) -> Result<Option<String>> {
        if self.rows.table.layout != RowLayout::EventOutbox {
            return Ok(None);
        }
        // Index: the unique key (event_key).
        let sql = "SELECT id::text FROM {table} WHERE event_key = $1";
        self.tx.query_opt(sql, &[&id]).await?.map(|row| get(&row, 0)).transpose()
    }

    async fn open_writers(&mut self) -> Result<Vec<OpenWriter>> {
        event_facts::open_writers(&self.tx, &self.rows.table.put_into("{table}")).await
    }

    async fn exclude_from_retention(&mut self, ids: &[String]) -> Result<()> {
        retention::exclude(&self.tx, ids).await
    }

    async fn write(&mut self, batch: AdoptionBatch) -> Result<()> {
        adopt::write(&self.tx, batch).await
    }
}

impl AuditTx for PostgresRowTx<'_> {
    async fn insert_audit(&mut self, new: NewAudit<'_>) -> Result<()> {
        audit::insert(&self.tx, new).await
    }

    async fn audit_parts(&mut self, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
        audit::parts(&self.tx, page).await
    }

    async fn list_audit(&mut self, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
        audit::list(&self.tx, query).await
    }
}

impl SubscriptionTx for PostgresRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        // Index: the primary key (name), and the unique key of the single row.
        let sql = "INSERT INTO {schema}.subscriptions (name, history) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        Ok(self.tx.execute(sql, &[&name, &self.server.history]).await? > 0)
    }

    async fn now(&mut self) -> Result<Timestamp> {
        let row = self.tx.query_opt("SELECT clock_timestamp()", &[]).await?;
        row.map_or(Ok(Timestamp::default()), |row| get::<Time>(&row, 0).map(|time| time.0))
    }
}

impl NotificationTx for PostgresRowTx<'_> {
    async fn lock_fan_out(&mut self, wait: bool) -> Result<bool> {
        notifications::lock(&self.tx, wait).await
    }

    async fn logged_event(&mut self, id: &str) -> Result<Option<LoggedEvent>> {
        logged_event::read(&self.tx, id).await
    }

    async fn registered(&mut self) -> Result<Vec<RegisteredType>> {
        notifications::registered(&self.tx).await
    }

    async fn register_type(&mut self, handler: &str, pattern: &str, since: Option<Timestamp>) -> Result<()> {
        notifications::register_type(&self.tx, handler, pattern, since).await
    }

    async fn register_alias(&mut self, handler: &str, alias: &str) -> Result<()> {
        notifications::register_alias(&self.tx, handler, alias).await
    }

    async fn aliases_of(&mut self, handler: &str) -> Result<Vec<String>> {
        notifications::aliases_of(&self.tx, handler).await
    }

    async fn waiting_types(&mut self) -> Result<Vec<String>> {
        notifications::waiting_types(&self.tx).await
    }

    async fn fanned_out_types(&mut self) -> Result<Vec<String>> {
        notifications::fanned_out_types(&self.tx).await
    }

    async fn list_waiting(
        &mut self,
        types: &[HandlerType],
        events_max: usize,
        excluded: &[String],
    ) -> Result<Vec<WaitingEvent>> {
        notifications::list_waiting(&self.tx, types, events_max, excluded).await
    }

    async fn list_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
    ) -> Result<Vec<WaitingEvent>> {
        notifications::list_matching(&self.tx, registered, events_max, skipped).await
    }

    async fn fan_out_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
        existing: Existing,
    ) -> Result<(u64, u64)> {
        notifications::fan_out_matching(&self.tx, registered, events_max, skipped, existing).await
    }

    async fn fan_out(&mut self, types: &[HandlerType], scope: FanOutScope<'_>) -> Result<(u64, u64)> {
        notifications::fan_out(&self.tx, types, scope).await
    }

    async fn record_search(&mut self, begun: Timestamp) -> Result<()> {
        notifications::record_search(&self.tx, begun).await
    }

    async fn renamed_to(&mut self, name: &str) -> Result<Option<String>> {
        notifications::renamed_to(&self.tx, name).await
    }

    async fn find_missed(
        &mut self,
        types: &[HandlerType],
        after: Option<&MissedNotification>,
        rows_max: usize,
    ) -> Result<Vec<MissedNotification>> {
        notifications::find_missed(&self.tx, types, after, rows_max).await
    }

    async fn insert_missed(&mut self, missed: &[MissedNotification]) -> Result<u64> {
        notifications::insert_missed(&self.tx, missed).await
    }
}
