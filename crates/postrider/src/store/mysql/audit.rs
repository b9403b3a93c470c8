//! The audit trail.

use super::operate::uuid_text;
use super::row::{get, micros};
use super::session::{NamedParams, Tx, named, params};
use crate::Result;
use crate::operate::{AuditEntry, AuditQuery, AuditRecord};
use crate::store::audit_tx::{AuditPage, AuditPart, AuditTx, NewAudit};
use crate::store::row_limit;

/// Inserts a row into the audit trail.
pub(super) async fn insert(tx: &mut Tx<'_>, new: NewAudit<'_>) -> Result<()> {
    let sql = "INSERT INTO {schema}.audit (command, part, made_by, db_user, action, subscription, selection, events,
                                           targets, reason)
               VALUES (?, ?, ?, SESSION_USER(), ?, ?, ?, ?, ?, ?)";
    let NewAudit { subscription, record, events, targets } = new;
    let AuditRecord { command, part, made_by, action, selection, reason } = record;
    let values = params![
        command.as_bytes().to_vec(),
        *part,
        made_by.as_str(),
        action.as_str(),
        subscription,
        selection.as_str(),
        events,
        targets,
        reason.as_deref(),
    ];
    tx.execute(sql, values).await.map(drop)
}

/// Commands of operators, newest first. Index: the primary key (command, part), backwards.
pub(super) async fn list(tx: &mut Tx<'_>, query: &AuditQuery) -> Result<Vec<AuditEntry>> {
    let sql = concat!(
        "SELECT ",
        uuid_text!("c.command"),
        "     , ",
        micros!("c.made_at"),
        "     , c.made_by, c.db_user, c.action, c.subscription, c.selection,
                (SELECT CAST(SUM(a.events) AS SIGNED) FROM {schema}.audit AS a WHERE a.command = c.command),
                c.targets, c.reason
         FROM {schema}.audit AS c
         WHERE c.part = 0 AND (:name IS NULL OR c.subscription = :name)
           AND (:before IS NULL OR c.command < :before)
         ORDER BY c.command DESC
         LIMIT :limit"
    );
    let values: NamedParams = named! {
        "name" => query.subscription.as_deref(),
        "before" => query.before.map(|before| before.as_bytes().to_vec()),
        "limit" => row_limit(query.commands_max),
    };
    tx.query(sql, values).await?.iter().map(AuditEntry::read).collect()
}

/// Rows of the audit trail, newest first. Index: the primary key (command, part), backwards.
pub(super) async fn parts(tx: &mut Tx<'_>, page: AuditPage<'_>) -> Result<Vec<AuditPart>> {
    let AuditPage { subscription, before, rows_max } = page;
    let sql = concat!(
        "SELECT ",
        uuid_text!("command"),
        "     , ",
        micros!("made_at"),
        "     , made_by, db_user, action, subscription, selection, events, targets, reason, part
         FROM {schema}.audit
         WHERE (:name IS NULL OR subscription = :name)
           AND (:command IS NULL OR command < :command OR command = :command AND part < :part)
         ORDER BY command DESC, part DESC
         LIMIT :limit"
    );
    let values: NamedParams = named! {
        "name" => subscription,
        "command" => before.map(|before| before.command.as_bytes().to_vec()),
        "part" => before.map_or(0, |before| before.part),
        "limit" => row_limit(rows_max),
    };
    let rows = tx.query(sql, values).await?;
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
