//! The audit trail.

use super::row::get;
use super::session::Tx;
use crate::Result;
use crate::operate::{AuditEntry, AuditQuery, AuditRecord};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::row_limit;

/// Inserts a row into the audit trail.
pub(super) async fn insert(tx: &Tx<'_>, new: NewAudit<'_>) -> Result<()> {
    let sql = "INSERT INTO {schema}.audit (command, part, made_by, action, subscription, selection, events, targets,
                                           reason)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let NewAudit { subscription, record, events, targets } = new;
    let AuditRecord { command, part, made_by, action, selection, reason } = record;
    let events = row_limit(events);
    tx.execute(sql, &[command, part, made_by, action, &subscription, selection, &events, &targets, reason])
        .await
        .map(drop)
}

/// Commands of operators, newest first. Index: the primary key (command, part), backwards.
pub(super) async fn list(tx: &Tx<'_>, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
    let sql =
        "SELECT c.command::text, c.made_at, c.made_by, c.db_user, c.action, c.subscription, c.selection,
                      (SELECT sum(a.events) FROM {schema}.audit AS a WHERE a.command = c.command)::bigint,
                      (SELECT string_agg(a.targets, ' ' ORDER BY a.part) FROM {schema}.audit AS a
                       WHERE a.command = c.command AND a.part < c.part + 10000),
                      c.reason
               FROM {schema}.audit AS c
               WHERE c.part = 0 AND ($1::text IS NULL OR c.subscription = $1)
                 AND ($2::uuid IS NULL OR c.command < $2)
               ORDER BY c.command DESC
               LIMIT $3";
    let limit = row_limit(query.commands_max);
    let rows = tx.query(sql, &[&query.subscription, &query.before, &limit]).await?;
    rows.iter().map(AuditEntry::read).collect()
}

/// Rows of the audit trail, newest first. Index: the primary key (command, part), backwards.
pub(super) async fn parts(tx: &Tx<'_>, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
    let AuditPage { subscription, before, rows_max } = page;
    let sql = "SELECT command::text, made_at, made_by, db_user, action, subscription, selection, events, targets, reason,
                      part
               FROM {schema}.audit
               WHERE ($1::text IS NULL OR subscription = $1)
                 AND ($2::uuid IS NULL OR (command, part) < ($2, $3::bigint))
               ORDER BY command DESC, part DESC
               LIMIT $4";
    let (command, part) = before.map(|before| (before.command, before.part)).unzip();
    let rows = tx.query(sql, &[&subscription, &command, &part, &row_limit(rows_max)]).await?;
    rows.iter().map(|row| Ok((AuditEntry::read(row)?, get(row, 10)?))).collect()
}

impl AuditTx for Tx<'_> {
    async fn insert_audit(&mut self, new: NewAudit<'_>) -> Result<()> {
        insert(self, new).await
    }

    async fn audit_parts(&mut self, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
        parts(self, page).await
    }

    async fn list_audit(&mut self, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
        list(self, query).await
    }
}
