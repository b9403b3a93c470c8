//! Steps within a transaction.

use mysql_async::Row;

use super::super::log_tx::clock;
use super::super::row::{self, get, micros};
use super::super::session::{Params, Tx, params};
use super::super::{adopt, audit, event_facts, lease, open_transactions, relays};
use super::sql::{Sql, of_handler, of_subscription};
use super::{logged_event, matching, notifications, retention, settle};
use crate::adopt::AdoptionBatch;
use crate::layout::{Ability, RowLayout, RowTable};
use crate::operate::explain::OpenWriter;
use crate::operate::{AuditEntry, AuditQuery};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::lease_tx::LeaseTx;
use crate::store::result_row::ResultRow;
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
pub(super) struct MySqlRowTx<'a> {
    pub(super) tx: Tx<'a>,
    pub(super) sql: &'a Sql,
    pub(super) table: &'a RowTable,
}

impl LeaseTx for MySqlRowTx<'_> {
    type Row = LockedSubscription;

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        self.tx.refusal(lease).await
    }

    async fn lock(&mut self, name: &str) -> Result<Option<LockedSubscription>> {
        // Index: the primary key (name).
        let sql = "SELECT epoch, clean, paused, trial, trial_deaths
                   FROM {schema}.subscriptions WHERE name = ? FOR UPDATE";
        self.tx.query_opt(sql, params![name]).await?.as_ref().map(LockedSubscription::read).transpose()
    }

    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        self.tx.take(lease, epoch).await
    }
}

impl RowTx for MySqlRowTx<'_> {
    async fn subscriptions(&mut self) -> Result<Vec<StoredSubscription>> {
        let sql = "SELECT name, epoch, clean, paused, halted FROM {schema}.subscriptions ORDER BY name";
        self.tx.query(sql, Params::new()).await?.iter().map(StoredSubscription::read).collect()
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
        let list = of_handler(self.sql.list.statement(), self.table).replace("{rows_max}", "1");
        Ok(self.tx.query_opt(&list, Params::new()).await?.is_some())
    }

    async fn remove_marks(&mut self, name: &str, epoch: Epoch) -> Result<u64> {
        let Some(marks) = &self.sql.marks else { return Ok(0) };
        // Index: the primary key (name).
        let lock = "SELECT epoch FROM {schema}.subscriptions WHERE name = ? AND epoch = ? FOR UPDATE";
        if self.tx.query(lock, params![name, epoch.0]).await?.is_empty() {
            return Ok(0);
        }
        let unmarked = self.tx.execute(marks.remove, Params::new()).await?;
        self.tx.execute("DELETE FROM {schema}.row_claims", Params::new()).await?;
        Ok(unmarked)
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
        self.tx.query(sql, Params::new()).await?.iter().map(|row| RowClaim::read(row, true)).collect()
    }

    async fn foreign_claims(&mut self) -> Result<Option<(i64, i64)>> {
        let Some(marks) = &self.sql.marks else { return Ok(None) };
        self.tx.query_opt(marks.foreign, Params::new()).await?.as_ref().map(foreign_claims).transpose()
    }

    async fn notes(&mut self, subscription: &str) -> Result<Vec<NotedRow>> {
        self.tx
            .query(&of_subscription(&of_handler(self.sql.notes, self.table), subscription), Params::new())
            .await?
            .iter()
            .map(NotedRow::read)
            .collect()
    }

    async fn refused_rows(&mut self) -> Result<Vec<(String, Refused)>> {
        let sql = "SELECT row_id, outcome FROM {schema}.row_refused";
        self.tx.query(sql, Params::new()).await?.iter().map(Refused::read).collect()
    }

    async fn scheduled_rows(&mut self, subscription: &str) -> Result<Vec<ScheduledRow>> {
        let Some(statement) = self.sql.scheduled else { return Ok(Vec::new()) };
        let statement = of_subscription(&of_handler(statement, self.table), subscription);
        self.tx.query(&statement, Params::new()).await?.iter().map(ScheduledRow::read).collect()
    }

    async fn delete_notes(&mut self, ids: &[String]) -> Result<()> {
        // Index: the primary key (row_id).
        let listed = self.sql.ids.listed(ids.iter().map(String::as_str));
        for table in ["row_notes", "row_refused"] {
            let delete = format!("DELETE FROM {{schema}}.{table} WHERE row_id IN ({listed})");
            self.tx.execute(&delete, Params::new()).await?;
        }
        Ok(())
    }

    async fn newest(&mut self) -> Result<Option<Timestamp>> {
        let row = self.tx.query_opt(self.sql.newest, Params::new()).await?;
        row.map_or(Ok(None), |row| row.time(0))
    }

    async fn backlog(&mut self, subscription: &str, rows_max: u64) -> Result<BacklogRows> {
        let statement =
            of_subscription(self.sql.backlog, subscription).replace("{rows_max}", &rows_max.to_string());
        let row = self.tx.query_opt(&statement, Params::new()).await?;
        row.map_or(Ok(BacklogRows::default()), |row| BacklogRows::read(&row, row.len()))
    }

    async fn lease(&mut self, name: &str) -> Result<Option<LeaseOverview>> {
        lease::load(&mut self.tx, name).await
    }

    async fn relays(&mut self, name: &str) -> Result<Vec<RelayOverview>> {
        relays::load(&mut self.tx, name).await
    }

    async fn oldest_transaction(&mut self) -> Result<Option<Option<Timestamp>>> {
        open_transactions::oldest(&mut self.tx).await
    }

    async fn counts(&mut self, subscription: &str) -> Result<RowCounts> {
        let statement = of_subscription(self.sql.counts, subscription);
        let row = self.tx.query_opt(&statement, Params::new()).await?;
        RowCounts::read(&row.ok_or_else(no_row)?)
    }

    async fn delete_own(&mut self, purge: &Purge) -> Result<(u64, u64)> {
        retention::delete_own(&mut self.tx, self.sql, self.table, purge).await
    }

    async fn delete_delivered(&mut self, purge: &Purge) -> Result<u64> {
        retention::delete_delivered(&mut self.tx, self.sql, self.table, purge).await
    }

    /// Deliveries only: a batch contains nothing else.
    async fn record(&mut self, settlement: &Settlement, plan: &SettlePlan) -> Result<Option<usize>> {
        settle::record_in(self.sql, &mut self.tx, settlement, plan).await
    }

    async fn note_times(&mut self) -> Result<Vec<(String, Timestamp, Timestamp)>> {
        let sql = concat!(
            "SELECT row_id, ",
            micros!("parked_at"),
            ", ",
            micros!("updated_at"),
            " FROM {schema}.row_notes"
        );
        let rows = self.tx.query(sql, Params::new()).await?;
        let times = |row: &Row| Ok((row.row_id(0)?, row::time(row, 1)?, row::time(row, 2)?));
        rows.iter().map(times).collect()
    }

    async fn changes(&mut self, name: &str) -> Result<i64> {
        // Index: the primary key (name).
        let sql = "SELECT changes FROM {schema}.subscriptions WHERE name = ?";
        let row = self.tx.query_opt(sql, params![name]).await?;
        row.map_or(Ok(0), |row| get(&row, 0))
    }

    async fn raise_changes(&mut self, name: &str) -> Result<()> {
        // Index: the primary key (name).
        let sql = "UPDATE {schema}.subscriptions SET changes = changes + 1 WHERE name = ?";
        self.tx.execute(sql, params![name]).await.map(drop)
    }

    async fn set_paused(&mut self, name: &str, reason: Option<&str>) -> Result<bool> {
        // Index: the primary key (name).
        let sql =
            "UPDATE {schema}.subscriptions SET paused = ?, updated_at = UTC_TIMESTAMP(6) WHERE name = ?";
        Ok(self.tx.execute(sql, params![reason, name]).await? > 0)
    }

    async fn find_by_event_id(&mut self, id: &str) -> Result<Option<String>> {
        if self.table.layout() != RowLayout::EventOutbox {
            return Ok(None);
        }
        // Index: the unique key (event_key).
        let sql = "SELECT CAST(id AS CHAR) FROM {table} WHERE event_key = ?";
        self.tx.query_opt(sql, params![id]).await?.map(|row| get(&row, 0)).transpose()
    }

    async fn open_writers(&mut self) -> Result<Vec<OpenWriter>> {
        event_facts::open_writers(&mut self.tx, self.table.schema.as_str(), self.table.name.as_str()).await
    }

    async fn exclude_from_retention(&mut self, ids: &[String]) -> Result<()> {
        retention::exclude(&mut self.tx, self.sql, ids).await
    }

    async fn write(&mut self, batch: AdoptionBatch) -> Result<()> {
        adopt::write(&mut self.tx, batch).await
    }
}

impl AuditTx for MySqlRowTx<'_> {
    async fn insert_audit(&mut self, new: NewAudit<'_>) -> Result<()> {
        audit::insert(&mut self.tx, new).await
    }

    async fn audit_parts(&mut self, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
        audit::parts(&mut self.tx, page).await
    }

    async fn list_audit(&mut self, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
        audit::list(&mut self.tx, query).await
    }
}

impl SubscriptionTx for MySqlRowTx<'_> {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        // Serialises concurrent calls. Index: the primary key, its single row.
        self.tx.query("SELECT layout FROM {schema}.row_table FOR UPDATE", Params::new()).await?;
        // With notifications, each handler is a subscription.
        let known = match self.table.layout().has(Ability::Notifications) {
            true => "SELECT name FROM {schema}.subscriptions WHERE name = {subscription}",
            false => "SELECT name FROM {schema}.subscriptions",
        };
        if self.tx.query_opt(&of_subscription(known, name), Params::new()).await?.is_some() {
            return Ok(false);
        }
        let history = self.tx.server().history.clone();
        let create = "INSERT INTO {schema}.subscriptions (name, history) VALUES (?, ?)";
        self.tx.execute(create, params![name, history]).await.map(|_| true)
    }

    async fn now(&mut self) -> Result<Timestamp> {
        clock(&mut self.tx).await
    }
}

impl NotificationTx for MySqlRowTx<'_> {
    async fn lock_fan_out(&mut self, wait: bool) -> Result<bool> {
        notifications::lock(&mut self.tx, wait).await
    }

    async fn logged_event(&mut self, id: &str) -> Result<Option<LoggedEvent>> {
        logged_event::read(&mut self.tx, id).await
    }

    async fn registered(&mut self) -> Result<Vec<RegisteredType>> {
        notifications::registered(&mut self.tx).await
    }

    async fn register_type(&mut self, handler: &str, pattern: &str, since: Option<Timestamp>) -> Result<()> {
        notifications::register_type(&mut self.tx, handler, pattern, since).await
    }

    async fn register_alias(&mut self, handler: &str, alias: &str) -> Result<()> {
        notifications::register_alias(&mut self.tx, handler, alias).await
    }

    async fn aliases_of(&mut self, handler: &str) -> Result<Vec<String>> {
        notifications::aliases_of(&mut self.tx, handler).await
    }

    async fn waiting_types(&mut self) -> Result<Vec<String>> {
        notifications::waiting_types(&mut self.tx).await
    }

    async fn fanned_out_types(&mut self) -> Result<Vec<String>> {
        notifications::fanned_out_types(&mut self.tx).await
    }

    async fn list_waiting(
        &mut self,
        types: &[HandlerType],
        events_max: usize,
        excluded: &[String],
    ) -> Result<Vec<WaitingEvent>> {
        notifications::list_waiting(&mut self.tx, types, events_max, excluded).await
    }

    async fn list_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
    ) -> Result<Vec<WaitingEvent>> {
        matching::list_matching(&mut self.tx, registered, events_max, skipped).await
    }

    async fn fan_out_matching(
        &mut self,
        registered: &[RegisteredType],
        events_max: usize,
        skipped: &Skipped,
        existing: Existing,
    ) -> Result<(u64, u64)> {
        matching::fan_out_matching(&mut self.tx, registered, events_max, skipped, existing).await
    }

    async fn fan_out(&mut self, types: &[HandlerType], scope: FanOutScope<'_>) -> Result<(u64, u64)> {
        notifications::fan_out(&mut self.tx, types, scope).await
    }

    async fn record_search(&mut self, begun: Timestamp) -> Result<()> {
        notifications::record_search(&mut self.tx, begun).await
    }

    async fn renamed_to(&mut self, name: &str) -> Result<Option<String>> {
        notifications::renamed_to(&mut self.tx, name).await
    }

    async fn find_missed(
        &mut self,
        types: &[HandlerType],
        after: Option<&MissedNotification>,
        rows_max: usize,
    ) -> Result<Vec<MissedNotification>> {
        notifications::find_missed(&mut self.tx, types, after, rows_max).await
    }

    async fn insert_missed(&mut self, missed: &[MissedNotification]) -> Result<u64> {
        notifications::insert_missed(&mut self.tx, missed).await
    }
}
