//! What the inbox does in the caller's transaction, after all checks.

use std::time::Duration;

use uuid::Uuid;

use crate::clock;
use crate::{Code, Error, Ident, Result};

/// Bytes of a group's name in Postrider's own inbox: its column has 255 characters on MySQL and MariaDB.
const GROUP_BYTES_MAX: usize = 255;

/// Characters of a group's name in `processed_events`, whose column is VARCHAR(100).
const PROCESSED_GROUP_CHARS_MAX: usize = 100;

/// The time that `processed_events` itself keeps a row for.
const PROCESSED_RETENTION_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Longer than this is forever, to a database whose calendar ends.
const RETENTION_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// The table of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxTable {
    /// `inbox` in this schema (PostgreSQL) or database (MySQL, MariaDB), and `postrider_inbox` in a SQLite file.
    Postrider(Ident),
    /// `processed_events` of layout `outbox`, in this schema of PostgreSQL.
    ProcessedEvents(Ident),
}

impl InboxTable {
    /// The schema it is in.
    #[cfg(feature = "_async")]
    pub(super) fn schema(&self) -> &Ident {
        match self {
            Self::Postrider(schema) | Self::ProcessedEvents(schema) => schema,
        }
    }

    /// The same table in another schema.
    pub(super) fn in_schema(&self, schema: Ident) -> Self {
        match self {
            Self::Postrider(_) => Self::Postrider(schema),
            Self::ProcessedEvents(_) => Self::ProcessedEvents(schema),
        }
    }
}

/// One step of an inbox in the caller's transaction. Names and limits were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxStep {
    /// Inserts a row, unless the group has one for the event.
    Receive {
        /// Where.
        table: InboxTable,
        /// The consumer group.
        group: String,
        /// The event.
        event_id: Uuid,
        /// When the row may be deleted, from now on, in microseconds.
        retention_micros: i64,
    },
    /// Deletes rows that have expired.
    DeleteExpired {
        /// Where.
        table: InboxTable,
        /// At most this number of rows.
        rows_max: i64,
    },
}

impl InboxStep {
    /// A delivery to a group.
    ///
    /// # Errors
    /// [`Code::NameInvalid`] if the group's name is not one; nothing was sent to the database.
    pub(super) fn receive(
        table: &InboxTable,
        group: &str,
        event_id: Uuid,
        retention: Duration,
    ) -> Result<Self> {
        check_group(table, group)?;
        let retention = match table {
            InboxTable::Postrider(_) => retention,
            InboxTable::ProcessedEvents(_) => retention.max(PROCESSED_RETENTION_MIN),
        };
        Ok(Self::Receive {
            table: table.clone(),
            group: group.to_owned(),
            event_id,
            retention_micros: retention_micros(retention),
        })
    }

    /// Deleting what has expired.
    pub(super) fn delete_expired(table: &InboxTable, rows_max: usize) -> Self {
        Self::DeleteExpired { table: table.clone(), rows_max: i64::try_from(rows_max).unwrap_or(i64::MAX) }
    }
}

/// A length of time as the databases add it, in microseconds; at most a thousand years.
pub(crate) fn retention_micros(time: Duration) -> i64 {
    clock::micros(time.min(RETENTION_MAX))
}

/// Refuses a name that a column cannot hold, or that two databases would compare differently.
fn check_group(table: &InboxTable, group: &str) -> Result<()> {
    let (fits, limit) = match table {
        InboxTable::Postrider(_) => (group.len() <= GROUP_BYTES_MAX, "255 bytes"),
        InboxTable::ProcessedEvents(_) => {
            (group.chars().count() <= PROCESSED_GROUP_CHARS_MAX, "100 characters")
        }
    };
    if fits && !group.is_empty() && group.trim() == group && group.chars().all(is_printable) {
        return Ok(());
    }
    let shown: String = group.chars().take(120).collect();
    Err(Error::new(Code::NameInvalid, format!("{shown:?} cannot be the name of a consumer group"))
        .with_effect("nothing was written; the transaction is unchanged and still usable")
        .with_hint(format!("use 1 to {limit} of printable text, without spaces at either end")))
}

/// Not a control character, and none of those that only change how others are shown: two names that look the same
/// would be two groups.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                        | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(table: &InboxTable, group: &str, retention: Duration) -> Result<InboxStep> {
        InboxStep::receive(table, group, Uuid::nil(), retention)
    }

    #[test]
    fn the_name_of_a_group_is_checked_before_any_sql() {
        let ours = InboxTable::Postrider(Ident::default());
        let processed = InboxTable::ProcessedEvents(Ident::default());
        for good in ["mail", "Rechnungen für Zoë", "a'; DROP TABLE inbox; --", "{schema}", &"x".repeat(100)]
        {
            assert!(step(&ours, good, Duration::ZERO).is_ok(), "{good:?}");
            assert!(step(&processed, good, Duration::ZERO).is_ok(), "{good:?}");
        }
        for bad in ["", " ", "mail ", "\tmail", "a\0b", "a\nb", "a\u{200b}b", "a\u{202e}b", &"x".repeat(256)]
        {
            for table in [&ours, &processed] {
                let error = step(table, bad, Duration::ZERO).unwrap_err();
                assert_eq!(error.code(), Code::NameInvalid, "{bad:?}");
            }
        }
        assert!(step(&ours, &"x".repeat(255), Duration::ZERO).is_ok());
        assert!(step(&processed, &"ß".repeat(100), Duration::ZERO).is_ok());
        assert!(step(&processed, &"x".repeat(101), Duration::ZERO).is_err());
    }

    #[test]
    fn processed_events_keeps_rows_for_a_day_at_least() {
        let of = |table: &InboxTable, retention| match step(table, "mail", retention) {
            Ok(InboxStep::Receive { retention_micros, .. }) => retention_micros,
            _ => 0,
        };
        let hour = Duration::from_secs(3_600);
        assert_eq!(of(&InboxTable::Postrider(Ident::default()), hour), 3_600_000_000);
        assert_eq!(of(&InboxTable::ProcessedEvents(Ident::default()), hour), 86_400_000_000);
        assert_eq!(of(&InboxTable::ProcessedEvents(Ident::default()), 48 * hour), 172_800_000_000);
        assert_eq!(
            of(&InboxTable::Postrider(Ident::default()), Duration::MAX),
            retention_micros(RETENTION_MAX)
        );
    }
}
