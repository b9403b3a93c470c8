//! The audit trail: who changed what, and why.

use serde::Serialize;
use uuid::Uuid;

use super::change::BATCH_ROWS_MAX;
use super::filter::cut;
use crate::Timestamp;

/// Maximum number of bytes of a reason or a name in the audit trail.
const TEXT_BYTES_MAX: usize = 2_000;

/// What an operator did, as the audit trail records it. The database adds its time and its user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Identifies the command; a command that changes many events writes several rows. A UUIDv7.
    pub command: Uuid,
    /// The number of this row within the command: 0 for the first one, then increasing, with gaps.
    pub part: i64,
    /// Who, as far as the program knows: the user and the host.
    pub made_by: String,
    /// What was done, for example `retry`.
    pub action: String,
    /// Which events were meant.
    pub selection: String,
    /// Why.
    pub reason: Option<String>,
}

impl AuditRecord {
    /// The first row of a command. Long texts are cut, and control characters are replaced: they would end up in the
    /// terminal of the user who reads the audit trail.
    pub fn new(made_by: &str, action: &str, selection: &str, reason: Option<&str>) -> Self {
        let text = |text: &str| cut(text.replace(char::is_control, " "), TEXT_BYTES_MAX);
        Self {
            command: Uuid::now_v7(),
            part: 0,
            made_by: text(made_by),
            action: text(action),
            selection: text(selection),
            reason: reason.map(text),
        }
    }

    /// The first row of the next batch of the same command. A batch has a row per event at most.
    #[must_use]
    pub fn next_part(mut self) -> Self {
        self.part = self.part.saturating_add(BATCH_ROWS_MAX as i64);
        self
    }
}

/// Which commands to list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Of this subscription.
    pub subscription: Option<String>,
    /// Only commands before this one: [`AuditEntry::command`] of the last one of the previous page.
    pub before: Option<Uuid>,
    /// The maximum number of commands.
    pub commands_max: usize,
}

crate::setters! { AuditQuery:
    subscription: Option<String>,
    before: Option<Uuid>,
    commands_max: usize,
}

/// Which rows of the audit trail to search, newest first. A command that changes many events has several rows, and each is
/// searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditSearch {
    /// Of this subscription.
    pub subscription: Option<String>,
    /// That changed one of these events: positions or row ids. Empty: any.
    pub rows: Vec<String>,
    /// With one of these actions. Empty: any.
    pub actions: Vec<String>,
    /// The maximum number of rows to return.
    pub found_max: usize,
}

crate::setters! { AuditSearch:
    subscription: Option<String>,
    rows: Vec<String>,
    actions: Vec<String>,
    found_max: usize,
}

impl AuditSearch {
    /// Whether a row of the audit trail is wanted.
    pub fn wants(&self, entry: &AuditEntry) -> bool {
        let Self { subscription, rows, actions, .. } = self;
        (subscription.is_none() || *subscription == entry.subscription)
            && (actions.is_empty() || actions.contains(&entry.action))
            && (rows.is_empty() || rows.iter().any(|row| entry.concerns(row)))
    }
}

/// One command in the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Identifies the command.
    pub command: Uuid,
    /// When it began, on the database's clock.
    pub made_at: Timestamp,
    /// User and host of the program.
    pub made_by: String,
    /// The user of the database; empty on SQLite, which has none.
    pub db_user: String,
    /// What was done.
    pub action: String,
    /// The subscription, if it was about one.
    pub subscription: Option<String>,
    /// Which events were meant.
    pub selection: String,
    /// How many events were changed.
    pub events: u64,
    /// Positions or row ids of the first events that were changed: `41 43-50`.
    pub targets: String,
    /// Why.
    pub reason: Option<String>,
}

impl AuditEntry {
    /// The entry of a command with one row, for stores of tests.
    #[doc(hidden)]
    pub fn new(
        record: &AuditRecord,
        subscription: Option<String>,
        events: u64,
        targets: String,
        made_at: Timestamp,
    ) -> Self {
        let AuditRecord { command, made_by, action, selection, reason, .. } = record.clone();
        let db_user = String::new();
        Self { command, made_at, made_by, db_user, action, subscription, selection, events, targets, reason }
    }

    /// Whether the command changed the event at this position, or with this row id.
    pub fn concerns(&self, row: &str) -> bool {
        let number: Option<i64> = row.parse().ok();
        self.targets.split(' ').any(|target| {
            target == row
                || number.is_some_and(|number| {
                    target.split_once('-').is_some_and(|(start, end)| {
                        matches!((start.parse::<i64>(), end.parse::<i64>()), (Ok(start), Ok(end)) if start <= number && number <= end)
                    })
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_and_contains_no_control_characters() {
        let record = AuditRecord::new("root@db\u{1b}[2J", "retry", "all", Some(&"x".repeat(10_000)));
        assert!(!record.made_by.contains('\u{1b}'), "{record:?}");
        assert!(record.reason.unwrap().len() <= TEXT_BYTES_MAX + 3);
    }

    #[test]
    fn an_entry_concerns_the_positions_of_its_ranges_only() {
        let entry = AuditEntry {
            command: Uuid::nil(),
            made_at: Timestamp::from_micros(0),
            made_by: String::new(),
            db_user: String::new(),
            action: "discard".to_owned(),
            subscription: None,
            selection: String::new(),
            events: 3,
            targets: "41 43-50 0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77".to_owned(),
            reason: None,
        };
        assert!(entry.concerns("41") && entry.concerns("50") && entry.concerns("47"));
        assert!(!entry.concerns("42") && !entry.concerns("4") && !entry.concerns("51"));
        assert!(entry.concerns("0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77"));
    }
}
