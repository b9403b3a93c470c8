//! The audit trail.

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::lease::now;
use super::log_tx::SqliteTx;
use crate::Result;
use crate::operate::{AuditEntry, AuditQuery, AuditRecord};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::row_limit;

/// Inserts a row into the audit trail.
pub(super) fn insert(tx: &Connection, new: NewAudit<'_>) -> Attempt<()> {
    let sql = "INSERT INTO postrider_audit (command, part, made_at, made_by, db_user, action, subscription, selection,
                                            events, targets, reason)
               VALUES (?1, ?2, ?3, ?4, '', ?5, ?6, ?7, ?8, ?9, ?10)";
    let NewAudit { subscription, record, events, targets } = new;
    let AuditRecord { command, part, made_by, action, selection, reason } = record;
    let command = command.to_string();
    tx.prepare_cached(sql)?.execute(params![
        command,
        part,
        now(tx)?,
        made_by,
        action,
        subscription,
        selection,
        row_limit(events),
        targets,
        reason
    ])?;
    Ok(())
}

/// Commands of operators, newest first. Index: the primary key (command, part), backwards.
pub(super) fn list(tx: &Connection, query: &AuditQuery) -> Attempt<Vec<AuditEntry>> {
    let sql = "SELECT c.command, c.made_at, c.made_by, c.db_user, c.action, c.subscription, c.selection,
                      (SELECT sum(a.events) FROM postrider_audit AS a WHERE a.command = c.command),
                      c.targets, c.reason
               FROM postrider_audit AS c
               WHERE c.part = 0 AND (?1 IS NULL OR c.subscription = ?1) AND (?2 IS NULL OR c.command < ?2)
               ORDER BY c.command DESC
               LIMIT ?3";
    let before = query.before.map_or(Value::Null, |before| Value::Text(before.to_string()));
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query(params![query.subscription, before, row_limit(query.commands_max)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(AuditEntry::read(row)?);
    }
    Ok(found)
}

/// Rows of the audit trail, newest first. Index: the primary key (command, part), backwards.
pub(super) fn parts(snapshot: &Connection, page: AuditPage<'_>) -> Attempt<Vec<AuditPart>> {
    let AuditPage { subscription, before, rows_max } = page;
    let sql = "SELECT command, made_at, made_by, db_user, action, subscription, selection, events, targets, reason, part
               FROM postrider_audit
               WHERE (?1 IS NULL OR subscription = ?1)
                 AND (?2 IS NULL OR command < ?2 OR command = ?2 AND part < ?3)
               ORDER BY command DESC, part DESC
               LIMIT ?4";
    let command = before.map(|before| before.command.to_string());
    let part = before.map(|before| before.part);
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut rows = statement.query(params![subscription, command, part, row_limit(rows_max)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((AuditEntry::read(row)?, row.get(10)?));
    }
    Ok(found)
}

impl AuditTx for SqliteTx<'_> {
    async fn insert_audit(&mut self, new: NewAudit<'_>) -> Result<()> {
        Ok(insert(self.0, new)?)
    }

    async fn audit_parts(&mut self, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
        Ok(parts(self.0, page)?)
    }

    async fn list_audit(&mut self, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
        Ok(list(self.0, query)?)
    }
}
