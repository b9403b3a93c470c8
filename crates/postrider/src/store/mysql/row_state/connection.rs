//! The connections of one outbox, and the operations that are one transaction each.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::connect::MySqlConfig;
use super::super::{admin as operator, inbox, lease, relays};
use super::row_locks::RowLocks;
use super::sql::{Marks, Sql};
use super::tx::MySqlRowTx;
use super::{migrate, read, retention, settle};
use crate::layout::RowTable;
use crate::operate::{InboxItem, InboxRead};
use crate::store::row_state::connections::{RowConnections, RowGuard};
use crate::store::row_state::dialect::{
    LeaseMemory, Owner, Role, RowConnection, RowDialect, SeenRow, TxVerb,
};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, ReadScope};
use crate::store::row_state::refused::{MarkedRows, mark_in_pieces};
use crate::store::row_state::term_rows::{Claims, RowId};
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseRequest, RelayReport, Renewed, Settled, Settlement,
};
use crate::{BoxFuture, Code, Error, Ident, Inbox, Result};

/// An outbox with a state per row in MySQL or MariaDB.
pub struct MySqlRows {
    config: MySqlConfig,
    table: Arc<RowTable>,
    /// The database of Postrider's own tables.
    schema: Ident,
    pub(super) sql: Sql,
    /// The statements that mark rows as being published, if rows are marked.
    marks: Option<Marks>,
    /// The statement that locks rows while they are handed out, if rows are locked.
    lock: Option<&'static str>,
    locks: RowLocks,
    pub(super) connections: RowConnections<MySqlConfig>,
}

impl MySqlRows {
    pub(super) fn new(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let sql = Sql::of(table.layout).ok_or_else(|| migrate::layout_unsupported(table.layout))?;
        if table.is_shared && sql.marks.is_none() && sql.lock.is_none() {
            let what = format!("a table of layout {} cannot be shared", table.layout.name());
            return Err(Error::new(Code::ForeignPublisher, what)
                .with_hint("stop the other publisher; event_outbox and outbox_events can be shared"));
        }
        let config = config.with_rows(table.clone());
        Ok(Self {
            connections: RowConnections::new(&config),
            table: Arc::new(table.clone()),
            schema: config.schema_name().clone(),
            marks: sql.marks.filter(|_| table.marks_rows()),
            lock: sql.lock.filter(|_| table.is_shared),
            locks: RowLocks::new(config.clone()),
            sql,
            config,
        })
    }
}

impl RowDialect for MySqlRows {
    type Connection<'a> = MySqlRowConnection<'a>;

    /// The driver cannot recover from a partly read answer: if a caller stops waiting, the connection is closed, and
    /// the request or its answer is lost with it.
    const RELEASES_AGAIN: bool = true;

    fn table(&self) -> &Arc<RowTable> {
        &self.table
    }

    fn with_table(&self, table: RowTable) -> Result<Self> {
        Self::new(&self.config, &table)
    }

    fn marks_rows(&self) -> bool {
        self.marks.is_some()
    }

    fn locks_rows(&self) -> bool {
        self.lock.is_some()
    }

    async fn release_locks(&self, in_use: impl FnOnce() -> HashSet<i64> + Send) {
        self.locks.release(in_use).await;
    }

    async fn clear_locks(&self) {
        self.locks.clear().await;
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.schema.clone())
    }

    async fn connection(&self, role: Role) -> Result<MySqlRowConnection<'_>> {
        Ok(MySqlRowConnection { conn: self.connections.lock(role).await?, rows: self })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            _ = tokio::join!(self.connections.close(), self.locks.clear());
        })
    }
}

/// Exclusive use of one connection.
pub(crate) struct MySqlRowConnection<'a> {
    conn: RowGuard<'a, MySqlConfig>,
    rows: &'a MySqlRows,
}

impl RowConnection for MySqlRowConnection<'_> {
    async fn write<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let MySqlRows { sql, table, .. } = self.rows;
        let mut tx = MySqlRowTx { tx: self.conn.begin().await?, sql, table };
        let answer = verb.run(&mut tx).await;
        tx.tx.finish(answer).await
    }

    async fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let MySqlRows { sql, table, .. } = self.rows;
        let mut tx = MySqlRowTx { tx: self.conn.begin_read().await?, sql, table };
        let answer = verb.run(&mut tx).await;
        tx.tx.finish(answer).await
    }

    fn leases(&mut self) -> &mut dyn LeaseMemory {
        &mut self.conn
    }

    async fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        lease::renew(&mut self.conn, &lease, epoch).await
    }

    async fn release(&mut self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        let mut tx = self.conn.begin().await?;
        let released = lease::release(&mut tx, &name, epoch, clean).await;
        tx.finish(released).await
    }

    async fn pause(&mut self, name: String, reason: Option<String>) -> Result<()> {
        let mut tx = self.conn.begin().await?;
        let paused = operator::pause(&mut tx, &name, reason.as_deref()).await;
        tx.finish(paused).await
    }

    async fn pause_as_owner(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        let mut tx = self.conn.begin().await?;
        let paused = operator::pause_as_owner(&mut tx, &name, epoch, &reason).await;
        tx.finish(paused).await
    }

    async fn halt(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        let mut tx = self.conn.begin().await?;
        let halted = operator::halt(&mut tx, &name, epoch, &reason).await;
        tx.finish(halted).await
    }

    async fn report(&mut self, report: RelayReport) -> Result<()> {
        relays::record(&mut self.conn, &report).await
    }

    async fn list(&mut self, rows_max: usize) -> Result<Vec<RowId>> {
        read::list(self.conn.session()?, &self.rows.sql, &self.rows.table, rows_max).await
    }

    async fn read(&mut self, ids: &[RowId], budget: Budget, which: ReadScope) -> Result<Read> {
        read::read(self.conn.session()?, &self.rows.sql, &self.rows.table, ids, budget, which).await
    }

    async fn mark(&mut self, owner: Owner<'_>, rows: &[SeenRow]) -> Result<Claims> {
        match &self.rows.marks {
            Some(marks) => read::mark(self.conn.session()?, marks, owner, rows).await,
            None => Ok(Claims::new()),
        }
    }

    async fn mark_or_lock(&mut self, owner: Owner<'_>, rows: Vec<SeenRow>) -> Result<MarkedRows> {
        match self.rows.lock {
            Some(statement) => self.rows.locks.lock(statement, owner, &rows).await,
            None => mark_in_pieces(self, owner, rows).await,
        }
    }

    async fn record(&mut self, settlement: &Settlement, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        let session = self.conn.session()?;
        let Some(statement) = self.rows.lock else {
            return settle::record(&self.rows.sql, session, settlement, &plan).await;
        };
        let outcomes = plan.outcomes();
        let settled = outcomes.iter().flat_map(|rows| &rows.ids).map(String::as_str).collect();
        let released = plan.notes.iter().map(|note| note.id.as_str()).collect();
        let _guard = self.rows.locks.hand_over(statement, session, &settled, &released).await?;
        settle::record_locked(&self.rows.sql, session, settlement, &plan).await
    }

    async fn note_delivered(&mut self, ids: &[String]) {
        // The rows are settled already, so a lost connection is not an error here.
        if let Ok(session) = self.conn.session() {
            retention::note(session, &self.rows.sql, ids).await;
        }
    }
    async fn read_inbox(&mut self, read: InboxRead) -> Result<Vec<InboxItem>> {
        inbox::read(&mut self.conn, &read).await
    }

    async fn purge_inbox(&mut self, purge: InboxPurge) -> Result<InboxPurged> {
        inbox::purge(&mut self.conn, &purge).await
    }
}
