//! The connections of one outbox, and the verbs that are a transaction each.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::connect::MySqlConfig;
use super::super::connection::{Guard, SharedConnection};
use super::super::session::{Access, Params};
use super::super::{admin as operator, inbox, lease, relays};
use super::sql::{Marks, Sql};
use super::tx::MySqlRowTx;
use super::{migrate, read, retention, settle};
use crate::layout::RowTable;
use crate::store::row_state::dialect::{Role, RowConnection, RowDialect, TxVerb};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, Which};
use crate::store::row_state::session_rows::{RowClaim, RowId};
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseRequest, RelayReport, Renewed, Settled, Settlement,
};
use crate::{BoxFuture, Code, Error, Ident, Inbox, Result};

/// An outbox with a state per row in MySQL or MariaDB.
pub struct MySqlRows {
    table: Arc<RowTable>,
    /// The database of Postrider's own tables.
    schema: Ident,
    pub(super) sql: Sql,
    /// How rows are marked before they are published, if they are.
    marks: Option<Marks>,
    pub(super) settler: SharedConnection,
    reader: SharedConnection,
    claimer: SharedConnection,
    cleaner: SharedConnection,
}

impl MySqlRows {
    pub(super) fn new(config: &MySqlConfig, table: &RowTable) -> Result<Self> {
        let sql = Sql::of(table.layout).ok_or_else(|| migrate::not_here(table.layout))?;
        if table.is_shared && sql.marks.is_none() {
            let what = format!("a table of layout {} cannot be shared yet", table.layout.name());
            return Err(Error::new(Code::ForeignPublisher, what)
                .with_hint("stop the other publisher; only outbox_events has a state for rows in progress"));
        }
        let config = config.with_rows(table.clone());
        let connection = || SharedConnection::new(config.clone());
        Ok(Self {
            settler: connection(),
            reader: connection(),
            claimer: connection(),
            cleaner: connection(),
            table: Arc::new(table.clone()),
            schema: config.schema_name().clone(),
            marks: sql.marks.filter(|_| table.marks_rows()),
            sql,
        })
    }
}

impl RowDialect for MySqlRows {
    type Connection<'a> = MySqlRowConnection<'a>;

    /// The driver cannot take a half-read answer back, so a cut connection takes the request or its answer with it.
    const RELEASES_AGAIN: bool = true;

    fn table(&self) -> &Arc<RowTable> {
        &self.table
    }

    fn marks_rows(&self) -> bool {
        self.marks.is_some()
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.schema.clone())
    }

    async fn connection(&self, role: Role) -> Result<MySqlRowConnection<'_>> {
        let connection = match role {
            Role::Settler => &self.settler,
            Role::Claimer => &self.claimer,
            Role::Reader => &self.reader,
            Role::Cleaner => &self.cleaner,
        };
        Ok(MySqlRowConnection { conn: connection.lock().await?, rows: self })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Self { settler, reader, claimer, cleaner, .. } = self;
            _ = tokio::join!(settler.close(), reader.close(), claimer.close(), cleaner.close());
        })
    }
}

/// The right to use one connection.
pub(crate) struct MySqlRowConnection<'a> {
    conn: Guard<'a>,
    rows: &'a MySqlRows,
}

impl RowConnection for MySqlRowConnection<'_> {
    async fn write<V: TxVerb>(&mut self, verb: V) -> Result<V::Answer> {
        let MySqlRows { sql, table, .. } = self.rows;
        let mut tx = MySqlRowTx { tx: self.conn.begin().await?, sql, table };
        let answer = verb.run(&mut tx).await;
        tx.tx.finish(answer).await
    }

    async fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> Result<V::Answer> {
        let MySqlRows { sql, table, .. } = self.rows;
        let mut tx = MySqlRowTx { tx: self.conn.begin_read().await?, sql, table };
        let answer = verb.run(&mut tx).await;
        tx.tx.finish(answer).await
    }

    fn check_server(&mut self) -> Result<()> {
        let here = self.conn.server()?;
        if self.rows.settler.server().is_some_and(|server| server != here) {
            return Err(self.conn.give_up());
        }
        Ok(())
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
        let mut tx = self.conn.begin().await?;
        let released = lease::release(&mut tx, &subscription, epoch, clean).await;
        tx.finish(released).await
    }

    async fn pause(&mut self, subscription: String, reason: Option<String>) -> Result<()> {
        let mut tx = self.conn.begin().await?;
        let paused = operator::pause(&mut tx, &subscription, reason.as_deref()).await;
        tx.finish(paused).await
    }

    async fn pause_as_owner(
        &mut self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> Result<Settled> {
        let mut tx = self.conn.begin().await?;
        let paused = operator::pause_as_owner(&mut tx, &subscription, epoch, &reason).await;
        tx.finish(paused).await
    }

    async fn halt(&mut self, subscription: String, epoch: Epoch, reason: String) -> Result<Settled> {
        let mut tx = self.conn.begin().await?;
        let halted = operator::halt(&mut tx, &subscription, epoch, &reason).await;
        tx.finish(halted).await
    }

    async fn report(&mut self, report: RelayReport) -> Result<()> {
        relays::record(&mut self.conn, &report).await
    }

    async fn list(&mut self, rows_max: usize) -> Result<Vec<RowId>> {
        let list = self.rows.sql.list.replace("{most}", &rows_max.to_string());
        let found = self.conn.session()?.autocommit(Access::Reads, &list, Params::new()).await?;
        found.iter().map(read::id).collect()
    }

    async fn read(&mut self, ids: &[RowId], budget: Budget, which: Which) -> Result<Read> {
        read::read(self.conn.session()?, &self.rows.sql, ids, budget, which).await
    }

    async fn mark(
        &mut self,
        subscription: &str,
        epoch: Epoch,
        rows: &[(RowId, i64)],
    ) -> Result<HashMap<RowId, RowClaim>> {
        match &self.rows.marks {
            Some(marks) => read::mark(self.conn.session()?, marks, subscription, epoch, rows).await,
            None => Ok(HashMap::new()),
        }
    }

    async fn record(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
        is_noted: bool,
    ) -> Result<Option<usize>> {
        let changed = settle::record(&self.rows.sql, self.conn.session()?, settlement, &plan).await?;
        if is_noted && changed == Some(plan.rows()) {
            retention::note(self.conn.session()?, &self.rows.sql, &plan.done.ids).await;
        }
        Ok(changed)
    }
    async fn purge_inbox(&mut self, purge: InboxPurge) -> Result<InboxPurged> {
        inbox::purge(&mut self.conn, &purge).await
    }
}
