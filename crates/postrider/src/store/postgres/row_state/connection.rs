//! The connections of one outbox, and the operations that are one transaction each.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::connect::PostgresConfig;
use super::super::connection::SharedConnection;
use super::super::row::get;
use super::super::{admin as operator, inbox, lease, relays, wake};
use super::row_locks::RowLocks;
use super::sql::Sql;
use super::tx::PostgresRowTx;
use super::{read, retention, settle};
use crate::layout::{Ability, RowTable};
use crate::operate::{InboxItem, InboxKind, InboxRead};
use crate::store::row_limit;
use crate::store::row_state::connections::{RowConnections, RowGuard};
use crate::store::row_state::dialect::{
    LeaseMemory, Owner, Role, RowConnection, RowDialect, SeenRow, TxVerb,
};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, ReadScope};
use crate::store::row_state::refused::{MarkedRows, mark_in_pieces};
use crate::store::row_state::term_rows::{Claims, RowId};
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseRequest, RelayReport, Renewed, RetentionScope, Settled,
    Settlement, Wakes,
};
use crate::{BoxFuture, Inbox, Result};

/// A page of at least this many rows opens the helper's connection.
const HELPER_ROWS_MIN: usize = 512;

/// How long a claim waits for that connection.
const HELPER_TIMEOUT: Duration = Duration::from_secs(1);

/// Pages to read before a connection that failed is tried again.
const HELPER_PAUSE_PAGES: u32 = 100;

/// An outbox with a state per row in PostgreSQL.
pub struct PostgresRows {
    pub(super) config: PostgresConfig,
    pub(super) table: Arc<RowTable>,
    pub(super) sql: Sql,
    pub(super) connections: RowConnections<PostgresConfig>,
    /// Records half of many deliveries in parallel with the settler. An UPDATE of rows with many indexes keeps one
    /// server process busy, and two processes share the work.
    helper: SharedConnection,
    /// How many pages to read before that connection is tried again.
    helper_pause: AtomicU32,
    /// Locks on rows that are handed out, if the layout has no state for them and other publishers use the table.
    locks: RowLocks,
}

impl PostgresRows {
    pub(super) fn new(config: &PostgresConfig, table: &RowTable) -> Self {
        let mut sql = Sql::of(table.layout);
        // The lease alone excludes other relays; see adr/0030-mark-rows-only-when-shared.md.
        sql.claim = sql.claim.filter(|_| table.is_shared || table.foreign_claim_timeout.is_some());
        sql.lock = sql.lock.filter(|_| table.is_shared);
        let config = config.with_rows(table.clone());
        Self {
            connections: RowConnections::new(&config),
            helper: SharedConnection::new(config.clone()),
            helper_pause: AtomicU32::new(0),
            table: Arc::new(table.clone()),
            sql,
            locks: RowLocks::new(config.clone()),
            config,
        }
    }
}

impl RowDialect for PostgresRows {
    type Connection<'a> = PostgresRowConnection<'a>;

    fn table(&self) -> &Arc<RowTable> {
        &self.table
    }

    fn with_table(&self, table: RowTable) -> Result<Self> {
        Ok(Self::new(&self.config, &table))
    }

    fn marks_rows(&self) -> bool {
        self.sql.claim.is_some()
    }

    fn locks_rows(&self) -> bool {
        self.sql.lock.is_some()
    }

    async fn connection(&self, role: Role) -> Result<PostgresRowConnection<'_>> {
        Ok(PostgresRowConnection { conn: self.connections.lock(role).await?, rows: self })
    }

    fn helper(&self) -> Option<PostgresRowConnection<'_>> {
        let conn = self.connections.guard(self.helper.ready()?);
        Some(PostgresRowConnection { conn, rows: self })
    }

    /// Runs when rows are claimed, not when they are settled: a renewal of the lease would wait for it. Without the
    /// helper, the settler records everything.
    async fn prepare_helper(&self, rows: usize) {
        if rows < HELPER_ROWS_MIN || !self.helper.is_idle() || self.helper.ready().is_some() {
            return;
        }
        let one_less = |pages: u32| pages.checked_sub(1);
        if self.helper_pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return;
        }
        if !matches!(tokio::time::timeout(HELPER_TIMEOUT, self.helper.lock()).await, Ok(Ok(_))) {
            self.helper_pause.store(HELPER_PAUSE_PAGES, Ordering::Relaxed);
        }
    }

    async fn release_locks(&self, in_use: impl FnOnce() -> HashSet<i64> + Send) {
        self.locks.release(in_use).await;
    }

    async fn clear_locks(&self) {
        self.locks.clear().await;
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.config.schema_name().clone())
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        self.config.listens().then(|| Box::new(wake::Listener::new(self.config.clone())) as _)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            _ = tokio::join!(self.connections.close(), self.helper.close(), self.locks.clear());
        })
    }
}

/// Exclusive use of one connection.
pub(crate) struct PostgresRowConnection<'a> {
    conn: RowGuard<'a, PostgresConfig>,
    rows: &'a PostgresRows,
}

impl RowConnection for PostgresRowConnection<'_> {
    async fn write<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let server = self.conn.server()?;
        let mut tx = PostgresRowTx { tx: self.conn.begin().await?, rows: self.rows, server };
        let answer = verb.run(&mut tx).await?;
        tx.tx.commit().await.map(|()| answer)
    }

    async fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let server = self.conn.server()?;
        verb.run(&mut PostgresRowTx { tx: self.conn.begin_read().await?, rows: self.rows, server }).await
    }

    fn leases(&mut self) -> &mut dyn LeaseMemory {
        &mut self.conn
    }

    async fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        lease::renew(&mut self.conn, &lease, epoch).await
    }

    async fn release(&mut self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        lease::release(&mut self.conn, &name, epoch, clean).await
    }

    async fn pause(&mut self, name: String, reason: Option<String>) -> Result<()> {
        operator::pause(&mut self.conn, &name, reason.as_deref()).await
    }

    async fn pause_as_owner(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        operator::pause_as_owner(&mut self.conn, &name, epoch, &reason).await
    }

    async fn halt(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        operator::halt(&mut self.conn, &name, epoch, &reason).await
    }

    async fn report(&mut self, report: RelayReport) -> Result<()> {
        relays::record(&mut self.conn, &report).await
    }

    async fn list(&mut self, rows_max: usize) -> Result<Vec<RowId>> {
        let PostgresRows { sql, table, .. } = self.rows;
        let limit = row_limit(rows_max);
        let timeout = read::foreign_timeout(table);
        let attempts = i64::from(table.max_attempts);
        let (names, types) = (table.handler_names(), table.handler_like_patterns());
        let found = self.conn.read(sql.list, &[&limit, &attempts, &timeout, &names, &types]).await?;
        found.iter().map(|row| get::<&str>(row, 0).map(RowId::from)).collect()
    }

    async fn read(&mut self, ids: &[RowId], budget: Budget, which: ReadScope) -> Result<Read> {
        read::read(&mut self.conn, &self.rows.sql, &self.rows.table, ids, budget, which).await
    }

    async fn mark(&mut self, owner: Owner<'_>, rows: &[SeenRow]) -> Result<Claims> {
        match self.rows.sql.claim {
            Some(statement) => read::mark(&mut self.conn, statement, &self.rows.table, owner, rows).await,
            None => Ok(Claims::new()),
        }
    }

    async fn mark_or_lock(&mut self, owner: Owner<'_>, rows: Vec<SeenRow>) -> Result<MarkedRows> {
        match self.rows.sql.lock {
            Some(statement) if self.rows.sql.claim.is_none() => {
                self.rows.locks.lock(statement, owner, &rows).await
            }
            _ => mark_in_pieces(self, owner, rows).await,
        }
    }

    async fn record(&mut self, settlement: &Settlement, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        settle::record(self.rows, &mut self.conn, settlement, &plan).await
    }

    async fn record_deliveries(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> Result<Option<usize>> {
        self.conn.check_server()?;
        settle::record_deliveries(self.rows, &mut self.conn, settlement, &plan.done).await
    }

    async fn note_delivered(&mut self, ids: &[String]) {
        retention::note(&mut self.conn, ids).await;
    }

    async fn read_inbox(&mut self, read: InboxRead) -> Result<Vec<InboxItem>> {
        let tx = self.conn.begin_read().await?;
        if read.table == InboxKind::ProcessedEvents
            && !(self.rows.table.layout.has(Ability::Inbox)
                && retention::has_processed(&tx, &self.rows.table).await?)
        {
            return Ok(Vec::new());
        }
        inbox::read(&tx, &read).await
    }

    async fn purge_inbox(&mut self, purge: InboxPurge) -> Result<InboxPurged> {
        let purged = inbox::purge(&mut self.conn, &purge).await?;
        if purge.scope == RetentionScope::Own || !self.rows.table.layout.has(Ability::Inbox) {
            return Ok(purged);
        }
        Ok(purged.and(retention::purge_processed(&mut self.conn, &self.rows.table, &purge).await?))
    }
}
