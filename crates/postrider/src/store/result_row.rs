//! Reads rows of a result, whichever driver returned them. The statements of every database return the same columns in
//! the same order; each `read` below lists them.

use crate::operate::{AuditEntry, ParkedItem};
use crate::store::{Epoch, event_row};
use crate::{Code, Error, Result, Timestamp};

/// One row of a result. Columns are numbered from 0, and each may be NULL.
pub(crate) trait ResultRow {
    fn text(&self, column: usize) -> Result<Option<String>>;
    fn number(&self, column: usize) -> Result<Option<i64>>;
    fn flag(&self, column: usize) -> Result<Option<bool>>;
    fn time(&self, column: usize) -> Result<Option<Timestamp>>;

    /// A UUID.
    #[cfg(feature = "_server")]
    fn uuid(&self, column: usize) -> Result<Option<uuid::Uuid>>;

    /// The id of a row of a user's table, as text.
    fn row_id(&self, column: usize) -> Result<String> {
        required(self.text(column)?, column)
    }
}

pub(crate) fn required<T>(value: Option<T>, column: usize) -> Result<T> {
    value.ok_or_else(|| Error::new(Code::RowDamaged, format!("column {column} is NULL")))
}

pub(crate) fn epoch(row: &impl ResultRow, column: usize) -> Result<Epoch> {
    required(row.number(column)?, column).map(Epoch)
}

/// A count that the table limits to 32 bits with a CHECK.
pub(crate) fn count(row: &impl ResultRow, column: usize) -> Result<u32> {
    event_row::count(required(row.number(column)?, column)?)
}

impl ParkedItem {
    /// `position or row, event_id, type, key, destination, state, attempts, next_attempt_at, last_error, parked_at,
    /// updated_at, redelivery`
    pub(crate) fn read(subscription: &str, row: &impl ResultRow) -> Result<Self> {
        Ok(Self {
            subscription: subscription.to_owned(),
            row: required(row.text(0)?, 0)?,
            id: row.text(1)?,
            event_type: row.text(2)?,
            key: row.text(3)?,
            destination: row.text(4)?,
            state: required(row.text(5)?, 5)?,
            attempts: count(row, 6)?,
            next_attempt_at: row.time(7)?,
            last_error: row.text(8)?,
            parked_at: row.time(9)?,
            updated_at: row.time(10)?,
            redelivery: row.text(11)?,
        })
    }
}

impl AuditEntry {
    /// `command, made_at, made_by, db_user, action, subscription, selection, events, targets, reason`
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        let command = required(row.text(0)?, 0)?;
        Ok(Self {
            command: uuid::Uuid::parse_str(&command).unwrap_or_default(),
            made_at: required(row.time(1)?, 1)?,
            made_by: required(row.text(2)?, 2)?,
            db_user: required(row.text(3)?, 3)?,
            action: required(row.text(4)?, 4)?,
            subscription: row.text(5)?,
            selection: required(row.text(6)?, 6)?,
            events: required(row.number(7)?, 7)?.unsigned_abs(),
            targets: required(row.text(8)?, 8)?,
            reason: row.text(9)?,
        })
    }
}

#[cfg(feature = "_server")]
mod of_servers {
    use std::time::Duration;

    use super::{ResultRow, count, epoch, required};
    use crate::ledger::{LastSeen, ParkedRow, Redelivery};
    use crate::store::relays::{self, RelayOverview};
    use crate::store::retention::PurgeBound;
    use crate::store::subscription::{ProgressColumns, SubscriptionRow, parked_state};
    use crate::store::{Acquired, LeaseOverview};
    use crate::{Position, Result};

    fn position(row: &impl ResultRow, column: usize) -> Result<Position> {
        required(row.number(column)?, column).map(Position::new)
    }

    impl SubscriptionRow {
        /// `epoch, clean, paused, history, done, highest_position, highest_id, trial, trial_deaths, halted`. On PostgreSQL
        /// `seen_tx` follows.
        pub(crate) fn read(name: &str, row: &impl ResultRow, has_seen_tx: bool) -> Result<Self> {
            let highest = match (row.number(5)?, row.uuid(6)?) {
                (Some(position), Some(id)) => Some(LastSeen { position: Position::new(position), id }),
                _ => None,
            };
            let (done, trial) = (required(row.text(4)?, 4)?, row.text(7)?);
            let columns = ProgressColumns {
                done: &done,
                highest,
                trial: trial.as_deref(),
                trial_deaths: count(row, 8)?,
            };
            Ok(Self {
                epoch: epoch(row, 0)?,
                clean: required(row.flag(1)?, 1)?,
                paused: row.text(2)?,
                history: row.text(3)?,
                progress: columns.read(name)?,
                halted: row.text(9)?,
                seen_tx: if has_seen_tx { row.text(10)? } else { None },
            })
        }
    }

    impl ParkedRow {
        /// `position, key, destination, state, attempts, next_attempt_at, last_error, redelivery`
        pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
            let position = position(row, 0)?;
            Ok(Self {
                position,
                key: row.text(1)?,
                destination: row.text(2)?,
                state: parked_state(position, &required(row.text(3)?, 3)?)?,
                attempts: count(row, 4)?,
                next_attempt_at: row.time(5)?,
                last_error: row.text(6)?,
                redelivery: row.text(7)?.as_deref().map(Redelivery::from_word),
            })
        }
    }

    impl PurgeBound {
        /// `name, floor, highest_position`
        pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
            let (subscription, floor) = (required(row.text(0)?, 0)?, position(row, 1)?);
            Ok(Self { subscription, floor, highest: row.number(2)?.map(Position::new) })
        }
    }

    impl Acquired {
        /// Why a lease is not granted, if it is not: `halted, holder, remaining_micros`.
        pub(crate) fn refusal(row: &impl ResultRow) -> Result<Option<Self>> {
            if let Some(reason) = row.text(0)? {
                return Ok(Some(Self::Halted(reason)));
            }
            let Some(holder) = row.text(1)? else { return Ok(None) };
            let remaining = required(row.number(2)?, 2)?;
            let remaining = Duration::from_micros(u64::try_from(remaining).unwrap_or(0));
            Ok(Some(Self::Held { holder, remaining }))
        }
    }

    impl LeaseOverview {
        /// `holder, expires_at`
        pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
            Ok(Self { holder: required(row.text(0)?, 0)?, expires_at: required(row.time(1)?, 1)? })
        }
    }

    impl RelayOverview {
        /// `relay, leads, seen_at, expires_at, down, facts`
        pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
            Ok(Self {
                relay: required(row.text(0)?, 0)?,
                leading: required(row.flag(1)?, 1)?,
                seen_at: required(row.time(2)?, 2)?,
                expires_at: required(row.time(3)?, 3)?,
                down: relays::from_column(row.text(4)?.as_deref()),
                facts: relays::facts_from_column(row.text(5)?.as_deref()),
            })
        }
    }
}
