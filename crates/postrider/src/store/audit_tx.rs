//! Searching the audit trail: the part that is the same on every database and layout.

use uuid::Uuid;

use crate::Result;
use crate::operate::{AuditEntry, AuditQuery, AuditRecord, AuditSearch};

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

/// A page of rows of the audit trail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditPage<'a> {
    /// Only its rows, if set.
    pub(crate) subscription: Option<&'a str>,
    pub(crate) before: Option<AuditBefore>,
    pub(crate) rows_max: usize,
}

/// A row to insert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewAudit<'a> {
    pub(crate) subscription: Option<&'a str>,
    pub(crate) record: &'a AuditRecord,
    /// How many events the command has changed.
    pub(crate) events: u64,
    /// Which events, in the form of [`targets`](crate::operate::targets).
    pub(crate) targets: &'a str,
}

impl<'a> NewAudit<'a> {
    /// A command that changed a subscription but none of its events.
    pub(crate) fn of(subscription: &'a str, record: &'a AuditRecord) -> Self {
        Self { subscription: Some(subscription), record, events: 0, targets: "" }
    }

    pub(crate) fn targets(self, targets: &'a str) -> Self {
        Self { targets, ..self }
    }
}

/// A transaction that can read and extend the audit trail.
pub(crate) trait AuditTx: Send {
    /// Inserts a row.
    fn insert_audit(&mut self, new: NewAudit<'_>) -> impl Future<Output = Result<()>> + Send;

    /// Rows before one, newest first. Index: the primary key (command, part), backwards.
    fn audit_parts(&mut self, page: AuditPage<'_>) -> impl Future<Output = Result<Vec<AuditPart>>> + Send;

    /// Commands of operators, newest first.
    fn list_audit(&mut self, query: &AuditQuery) -> impl Future<Output = Result<Vec<AuditEntry>>> + Send;
}

/// See [`Store::find_audit`](super::Store::find_audit).
pub(super) async fn find(tx: &mut impl AuditTx, search: &AuditSearch) -> Result<Vec<AuditEntry>> {
    let (mut found, mut before, mut searched) = (Vec::new(), None, 0);
    while searched < SEARCHED_MAX {
        let subscription = search.subscription.as_deref();
        let page = tx.audit_parts(AuditPage { subscription, before, rows_max: PAGE_ROWS }).await?;
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
