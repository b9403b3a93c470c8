//! The two threads of one outbox, and the operations that are one transaction each.

use std::sync::Arc;

use rusqlite::Connection;

use super::super::failure::Attempt;
use super::super::file::Source;
use super::super::ledger::Ledger;
use super::super::worker::{Worker, poll_once};
use super::super::{admin as operator, inbox, lease, relays};
use super::sql::Names;
use super::tx::{SqliteRowTx, list_due};
use super::{read, retention, settle};
use crate::layout::RowTable;
use crate::operate::{InboxItem, InboxRead};
use crate::store::row_state::dialect::{
    LeaseMemory, Owner, Role, RowConnection, RowDialect, SeenRow, TxVerb,
};
use crate::store::row_state::plan::SettlePlan;
use crate::store::row_state::read::{Read, ReadScope};
use crate::store::row_state::term_rows::{Claims, RowId};
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseRequest, RelayReport, Renewed, Settled, Settlement,
};
use crate::{BoxFuture, Result};

/// An outbox with a state per row in a SQLite file.
pub struct SqliteRows {
    names: Arc<Names>,
    table: Arc<RowTable>,
    reader: Worker,
    writer: Worker,
}

impl SqliteRows {
    pub(super) fn start(names: Names, reader: Source, writer: Source) -> Result<Self> {
        Ok(Self {
            table: Arc::new(names.table.clone()),
            names: Arc::new(names),
            reader: Worker::start("postrider-read", reader)?,
            writer: Worker::start("postrider-settle", writer)?,
        })
    }
}

impl RowDialect for SqliteRows {
    type Connection<'a> = SqliteRowConnection<'a>;

    fn table(&self) -> &Arc<RowTable> {
        &self.table
    }

    fn marks_rows(&self) -> bool {
        self.table.marks_rows()
    }

    /// Every operation chooses its thread itself: reads must not wait for writes.
    async fn connection(&self, _: Role) -> Result<SqliteRowConnection<'_>> {
        Ok(SqliteRowConnection(self))
    }

    /// If no other process uses the file, SQLite then empties and removes the WAL.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.reader.close().await;
            self.writer.close().await;
        })
    }
}

/// Both threads.
pub(crate) struct SqliteRowConnection<'a>(&'a SqliteRows);

/// Runs a verb in the open transaction of a connection. No step waits, so one poll completes the verb.
pub(super) fn run<V: TxVerb>(connection: &mut Connection, names: &Names, verb: V) -> Attempt<V::Output> {
    let mut tx = SqliteRowTx { connection, names };
    poll_once(verb.run(&mut tx))
}

impl LeaseMemory for SqliteRowConnection<'_> {}

impl SqliteRowConnection<'_> {
    /// Records a plan and, if requested, notes the deliveries in the same transaction.
    async fn record_plan(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
        is_noted: bool,
    ) -> Result<Option<usize>> {
        let (names, name, epoch) = (self.0.names.clone(), settlement.subscription.clone(), settlement.epoch);
        let record = move |tx: &mut Connection| {
            let changed = settle::record(tx, &names, &name, epoch, &plan)?;
            if is_noted {
                retention::note(tx, plan.deliveries_to_note(changed))?;
            }
            Ok(changed)
        };
        self.0.writer.write(record).await
    }
}

impl RowConnection for SqliteRowConnection<'_> {
    async fn write<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let names = self.0.names.clone();
        self.0.writer.write(move |tx| run(tx, &names, verb)).await
    }

    async fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> Result<V::Output> {
        let names = self.0.names.clone();
        self.0.reader.read(move |snapshot| run(snapshot, &names, verb)).await
    }

    fn leases(&mut self) -> &mut dyn LeaseMemory {
        self
    }

    async fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        self.0.writer.write(move |tx| lease::renew(tx, Ledger::Rows, &lease, epoch)).await
    }

    async fn release(&mut self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        self.0.writer.write(move |tx| lease::release(tx, Ledger::Rows, &name, epoch, clean)).await
    }

    async fn pause(&mut self, name: String, reason: Option<String>) -> Result<()> {
        self.0.writer.write(move |tx| operator::pause(tx, Ledger::Rows, &name, reason.as_deref())).await
    }

    async fn pause_as_owner(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.0.writer.write(move |tx| operator::pause_as_owner(tx, Ledger::Rows, &name, epoch, &reason)).await
    }

    async fn halt(&mut self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.0.writer.write(move |tx| operator::halt(tx, Ledger::Rows, &name, epoch, &reason)).await
    }

    async fn report(&mut self, report: RelayReport) -> Result<()> {
        self.0.writer.write(move |tx| relays::record(tx, Ledger::Rows, &report)).await
    }

    async fn list(&mut self, rows_max: usize) -> Result<Vec<RowId>> {
        let names = self.0.names.clone();
        self.0.reader.read(move |snapshot| list_due(snapshot, &names, rows_max)).await
    }

    async fn read(&mut self, ids: &[RowId], budget: Budget, which: ReadScope) -> Result<Read> {
        let (names, ids) = (self.0.names.clone(), ids.to_vec());
        self.0.reader.read(move |snapshot| read::read(snapshot, &names, &ids, budget, which)).await
    }

    async fn mark(&mut self, owner: Owner<'_>, rows: &[SeenRow]) -> Result<Claims> {
        let Some(marks) = self.0.names.sql.marks else { return Ok(Claims::new()) };
        let (names, rows) = (self.0.names.clone(), rows.to_vec());
        let (name, epoch) = (owner.subscription.to_owned(), owner.epoch);
        self.0.writer.write(move |tx| read::mark(tx, &names, &marks, &name, epoch, &rows)).await
    }

    async fn record(&mut self, settlement: &Settlement, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        self.record_plan(settlement, plan, false).await
    }

    async fn record_and_note(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> Result<Option<usize>> {
        self.record_plan(settlement, plan, true).await
    }

    async fn note_delivered(&mut self, ids: &[String]) {
        let ids = ids.to_vec();
        // A note that fails only keeps its row from being deleted.
        _ = self.0.writer.write(move |tx| retention::note(tx, &ids)).await;
    }
    async fn read_inbox(&mut self, read: InboxRead) -> Result<Vec<InboxItem>> {
        self.0.reader.read(move |snapshot| inbox::read(snapshot, &read)).await
    }

    async fn purge_inbox(&mut self, purge: InboxPurge) -> Result<InboxPurged> {
        self.0.writer.write(move |tx| inbox::purge(tx, &purge)).await
    }
}
