//! Deleting delivered rows by hand, with the statements of retention.

use std::sync::{Arc, Mutex, PoisonError};

use super::dialect::{Role, RowConnection, RowDialect, RowTx, TxVerb};
use super::retention::DeleteDelivered;
use super::store::Shared;
use crate::layout::RowTable;
use crate::operate::CleanupBatch;
use crate::store::Purged;
use crate::store::audit_tx::NewAudit;
use crate::{Code, Error, Result};

/// What a batch would delete, if it was rolled back.
type Counted = Arc<Mutex<Option<Purged>>>;

struct CleanUp {
    batch: CleanupBatch,
    table: Arc<RowTable>,
    counted: Counted,
}

impl TxVerb for CleanUp {
    type Output = Purged;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Purged> {
        let Self { batch, table, counted } = self;
        let purged = DeleteDelivered { purge: batch.purge, table }.run(tx).await?;
        match &batch.audit {
            Some(audit) if purged.deleted > 0 => {
                let events = purged.deleted;
                tx.insert_audit(NewAudit { subscription: None, record: audit, events, targets: "" }).await?;
                Ok(purged)
            }
            Some(_) => Ok(purged),
            None => {
                *counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(purged);
                Err(Error::new(Code::StoreFailed, "the rows were only counted"))
            }
        }
    }
}

impl<D: RowDialect> Shared<D> {
    /// See [`Store::clean_up`](crate::store::Store::clean_up). To count, the batch is deleted and rolled back: a second
    /// statement with the same rules for every layout could differ from the one that deletes. If the process dies, the
    /// database rolls back.
    pub(super) async fn clean_up(&self, batch: CleanupBatch) -> Result<Purged> {
        let counted = Counted::default();
        let verb = CleanUp { batch, table: self.table(), counted: counted.clone() };
        let result = self.dialect.connection(Role::Cleaner).await?.write(verb).await;
        match counted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(counted) => Ok(counted),
            None => result,
        }
    }
}
