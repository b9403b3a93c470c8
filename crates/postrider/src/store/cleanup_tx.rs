//! Deleting events by hand, for the default layout: the part that is the same on every database.

use super::Purged;
use super::audit_tx::NewAudit;
use super::log_tx::{LogTx, plan_purge};
use super::parked_tx::ParkedTx;
use crate::Result;
use crate::operate::{CleanupBatch, targets};

/// See [`Store::clean_up`](super::Store::clean_up). A batch that deletes nothing has no audit row.
pub(super) async fn clean_up<T: LogTx + ParkedTx>(tx: &mut T, batch: &CleanupBatch) -> Result<Purged> {
    let CleanupBatch { purge, audit } = batch;
    let Some(audit) = audit else { return Ok(plan_purge(tx, purge).await?.1) };
    tx.lock_retention().await?;
    let (expired, purged) = plan_purge(tx, purge).await?;
    if !expired.is_empty() {
        tx.delete(&expired).await?;
        let deleted = expired.iter().map(|position| position.get()).collect();
        let targets = targets(deleted);
        let new = NewAudit { subscription: None, record: audit, events: purged.deleted, targets: &targets };
        tx.insert_audit(new).await?;
    }
    Ok(purged)
}
