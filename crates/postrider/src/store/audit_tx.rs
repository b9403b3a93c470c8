//! Searching the audit trail: the part that is the same on every database and layout.

use uuid::Uuid;

use crate::Result;
use crate::operate::{AuditEntry, AuditSearch};

/// Rows per query. A row lists up to 1,000 events.
const PAGE_ROWS: usize = 100;

/// Rows that a search reads at most.
const SEARCHED_MAX: usize = 20_000;

/// One row of the audit trail: a part of a command, and its number.
pub(crate) type AuditPart = (AuditEntry, i64);

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuditBefore {
    pub(crate) command: Uuid,
    pub(crate) part: i64,
}

/// A transaction that can read the audit trail.
pub(crate) trait AuditTx: Send {
    /// Rows before one, newest first. Index: the primary key (command, part), backwards.
    fn audit_parts(
        &mut self,
        subscription: Option<&str>,
        before: Option<AuditBefore>,
        rows_max: usize,
    ) -> impl Future<Output = Result<Vec<AuditPart>>> + Send;
}

/// See [`Store::find_audit`](super::Store::find_audit).
pub(super) async fn find(tx: &mut impl AuditTx, search: &AuditSearch) -> Result<Vec<AuditEntry>> {
    let (mut found, mut before, mut searched) = (Vec::new(), None, 0);
    while searched < SEARCHED_MAX {
        let page = tx.audit_parts(search.subscription.as_deref(), before, PAGE_ROWS).await?;
        searched += page.len();
        let is_last = page.len() < PAGE_ROWS;
        before = page.last().map(|(entry, part)| AuditBefore { command: entry.command, part: *part });
        for (entry, _) in page {
            if search.wants(&entry) {
                found.push(entry);
            }
            if found.len() >= search.found_max {
                return Ok(found);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}
