//! Retention by the rule of each layout, in short transactions. A delivered row is found by its state, so there is no
//! cursor.

use std::sync::Arc;

use super::dialect::{RowTx, TxVerb};
use crate::Result;
use crate::layout::RowTable;
use crate::store::{Purge, Purged, RetentionScope};

/// See [`Store::purge`](crate::store::Store::purge).
pub(super) struct DeleteDelivered {
    pub(super) purge: Purge,
    pub(super) table: Arc<RowTable>,
}

impl TxVerb for DeleteDelivered {
    type Output = Purged;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Purged> {
        let purge = &self.purge;
        let (deleted, checked) = match scope(purge, &self.table) {
            RetentionScope::Own => tx.delete_own(purge).await?,
            RetentionScope::All => {
                let deleted = tx.delete_delivered(purge).await?;
                (deleted, deleted)
            }
        };
        let more = checked >= purge.events_max as u64;
        Ok(Purged { deleted, reached: purge.after, more, held: None })
    }
}

/// Which rows retention deletes. In a table that cannot show deliveries, only Postrider's own are known.
fn scope(purge: &Purge, table: &RowTable) -> RetentionScope {
    if table.only_notes_deliveries() { RetentionScope::Own } else { purge.scope }
}
