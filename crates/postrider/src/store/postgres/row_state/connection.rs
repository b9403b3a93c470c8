//! The connections of one outbox, and the verbs that are a transaction each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::connect::PostgresConfig;
use super::super::connection::{Guard, SharedConnection};
use super::super::row::get;
use super::super::{admin as operator, inbox, lease, relays, wake};
use super::row_locks::RowLocks;
use super::sql::Sql;
use super::tx::PostgresRowTx;
use super::{read, retention, settle};
use crate::layout::{Ability, RowTable};
use crate::store::row_state::dialect::{Role, RowConnection, RowDialect, TxVerb};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, Which};
use crate::store::row_state::refused::{MarkedRows, mark_in_pieces};
use crate::store::row_state::session_rows::{RowClaim, RowId};
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseRequest, RelayReport, Renewed, RetentionScope, Settled,
    Settlement, Wakes,
};
use crate::{BoxFuture, Inbox, Result};

/// Rows from which on the connection for half of the deliveries is made.
const HELPED_FROM: usize = 512;

/// How long a claim waits for that connection.
const HELPER_WITHIN: Duration = Duration::from_secs(1);

/// Pages for which it is not tried again.
const HELPER_PAUSE_PAGES: u32 = 100;

/// An outbox with a state per row in PostgreSQL.
pub struct PostgresRows {
    pub(super) config: PostgresConfig,
    pub(super) table: Arc<RowTable>,
    pub(super) sql: Sql,
    pub(super) settler: SharedConnection,
    reader: SharedConnection,
    claimer: SharedConnection,
    cleaner: SharedConnection,
    /// Records half of many deliveries, beside the settler: an UPDATE of a row with many indexes keeps a process of the
    /// server busy, and two of them share the work.
    helper: SharedConnection,
    /// How many pages are to be read before that connection is tried again.
    helper_pause: AtomicU32,
    /// Locks on rows that are handed out, where that is how other publishers are kept away.
    locks: RowLocks,
}

impl PostgresRows {
    pub(super) fn new(config: &PostgresConfig, table: &RowTable) -> Self {
        let mut sql = Sql::of(table.layout);
        // The lease alone keeps other relays away; see adr/0030-mark-rows-only-when-shared.md.
        sql.claim = sql.claim.filter(|_| table.is_shared || table.foreign_claim_timeout.is_some());
        sql.lock = sql.lock.filter(|_| table.is_shared);
        let config = config.with_rows(table.clone());
        let connection = || SharedConnection::new(config.clone());
        Self {
            settler: connection(),
            reader: connection(),
            claimer: connection(),
            cleaner: connection(),
            helper: connection(),
            helper_pause: AtomicU32::new(0),
            table: Arc::new(table.clone()),
            sql,
            locks: RowLocks::new(config.clone()),
            config,
        }
    }

    /// Refuses a connection that leads to another server than the lease was taken on.
    fn check_server(&self, conn: &mut Guard<'_>) -> Result<()> {
        let here = conn.server()?;
        if self.settler.server().is_some_and(|server| server != here) {
            return Err(conn.give_up());
        }
        Ok(())
    }
}

impl RowDialect for PostgresRows {
    type Connection<'a> = PostgresRowConnection<'a>;

    fn table(&self) -> &Arc<RowTable> {
        &self.table
    }

    fn marks_rows(&self) -> bool {
        self.sql.claim.is_some()
    }

    fn locks_rows(&self) -> bool {
        self.sql.lock.is_some()
    }

    async fn connection(&self, role: Role) -> Result<PostgresRowConnection<'_>> {
        let connection = match role {
            Role::Settler => &self.settler,
            Role::Claimer => &self.claimer,
            Role::Reader => &self.reader,
            Role::Cleaner => &self.cleaner,
        };
        Ok(PostgresRowConnection { conn: connection.lock().await?, rows: self })
    }

    fn helper(&self) -> Option<PostgresRowConnection<'_>> {
        self.helper.ready().map(|conn| PostgresRowConnection { conn, rows: self })
    }

    /// Not when the rows are settled, for a renewal of the lease would wait for it. Without the connection, the settler
    /// records everything.
    async fn prepare_helper(&self, rows: usize) {
        if rows < HELPED_FROM || !self.helper.is_idle() || self.helper.ready().is_some() {
            return;
        }
        let is_over = |pause: u32| pause.checked_sub(1);
        if self.helper_pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_over).is_ok() {
            return;
        }
        if !matches!(tokio::time::timeout(HELPER_WITHIN, self.helper.lock()).await, Ok(Ok(_))) {
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
            let Self { settler, reader, claimer, cleaner, helper, locks, .. } = self;
            _ = tokio::join!(
                settler.close(),
                reader.close(),
                claimer.close(),
                cleaner.close(),
                helper.close(),
                locks.clear()
            );
        })
    }
}

/// The right to use one connection.
pub(crate) struct PostgresRowConnection<'a> {
    pub(super) conn: Guard<'a>,
    pub(super) rows: &'a PostgresRows,
}

impl RowConnection for PostgresRowConnection<'_> {
    async fn write<V: TxVerb>(&mut self, verb: V) -> Result<V::Answer> {
        let server = self.conn.server()?;
        let mut tx = PostgresRowTx { tx: self.conn.begin().await?, rows: self.rows, server };
        let answer = verb.run(&mut tx).await?;
        tx.tx.commit().await.map(|()| answer)
    }

    async fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> Result<V::Answer> {
        let server = self.conn.server()?;
        verb.run(&mut PostgresRowTx { tx: self.conn.begin_read().await?, rows: self.rows, server }).await
    }

    fn check_server(&mut self) -> Result<()> {
        self.rows.check_server(&mut self.conn)
    }

    fn remember_lease(&mut self, subscription: &str) -> Result<()> {
        self.conn.remember_lease(subscription)
    }

    fn check_lease(&mut self, subscription: &str) -> Result<()> {
        self.conn.check_lease(subscription)
    }

    fn took_lease_here(&mut self, subscription: &str) -> Result<bool> {
        Ok(self.conn.lease_taken_on(subscription) == Some(self.conn.server()?))
    }

    async fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        lease::renew(&mut self.conn, &lease, epoch).await
    }

    async fn release(&mut self, subscription: String, epoch: Epoch, clean: bool) -> Result<()> {
        lease::release(&mut self.conn, &subscription, epoch, clean).await
    }

    async fn pause(&mut self, subscription: String, reason: Option<String>) -> Result<()> {
        operator::pause(&mut self.conn, &subscription, reason.as_deref()).await
    }

    async fn pause_as_owner(
        &mut self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> Result<Settled> {
        operator::pause_as_owner(&mut self.conn, &subscription, epoch, &reason).await
    }

    async fn halt(&mut self, subscription: String, epoch: Epoch, reason: String) -> Result<Settled> {
        operator::halt(&mut self.conn, &subscription, epoch, &reason).await
    }

    async fn report(&mut self, report: RelayReport) -> Result<()> {
        relays::record(&mut self.conn, &report).await
    }

    async fn list(&mut self, rows_max: usize) -> Result<Vec<RowId>> {
        let PostgresRows { sql, table, .. } = self.rows;
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let found = self
            .conn
            .read(sql.list, &[&limit, &i64::from(table.max_attempts), &read::foreign_timeout(table)])
            .await?;
        found.iter().map(|row| get::<&str>(row, 0).map(RowId::from)).collect()
    }

    async fn read(&mut self, ids: &[RowId], budget: Budget, which: Which) -> Result<Read> {
        read::read(&mut self.conn, &self.rows.sql, &self.rows.table, ids, budget, which).await
    }

    async fn mark(
        &mut self,
        subscription: &str,
        epoch: Epoch,
        rows: &[(RowId, i64)],
    ) -> Result<HashMap<RowId, RowClaim>> {
        let PostgresRows { sql, table, .. } = self.rows;
        match sql.claim {
            Some(statement) => read::mark(&mut self.conn, statement, table, subscription, epoch, rows).await,
            None => Ok(HashMap::new()),
        }
    }

    async fn take_rows(
        &mut self,
        subscription: &str,
        epoch: Epoch,
        rows: Vec<(RowId, i64)>,
    ) -> Result<MarkedRows> {
        match self.rows.sql.lock {
            Some(statement) if self.rows.sql.claim.is_none() => {
                self.rows.locks.lock(statement, subscription, epoch, &rows).await
            }
            _ => mark_in_pieces(self, subscription, epoch, rows).await,
        }
    }

    async fn record(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
        is_noted: bool,
    ) -> Result<Option<usize>> {
        let changed = settle::record(self.rows, &mut self.conn, settlement, &plan).await?;
        if is_noted && changed == Some(plan.rows()) {
            self.note_delivered(&plan.done.ids).await;
        }
        Ok(changed)
    }

    async fn record_deliveries(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> Result<Option<usize>> {
        self.check_server()?;
        settle::record_deliveries(self.rows, &mut self.conn, settlement, &plan.done).await
    }

    async fn note_delivered(&mut self, ids: &[String]) {
        retention::note(&mut self.conn, ids).await;
    }

    async fn purge_inbox(&mut self, purge: InboxPurge) -> Result<InboxPurged> {
        let purged = inbox::purge(&mut self.conn, &purge).await?;
        if purge.scope == RetentionScope::Own || !self.rows.table.layout.has(Ability::Inbox) {
            return Ok(purged);
        }
        Ok(purged.and(retention::purge_processed(&mut self.conn, &self.rows.table, &purge).await?))
    }
}
