//! Deleting delivered events by hand, by the rules of retention.

use std::time::Duration;

use super::operator::counted;
use super::{AuditRecord, Operator, ParkedCount};
use crate::layout::{ColumnMap, RowTable};
use crate::store::{Purge, Purged, RetentionHold, RetentionScope};
use crate::{Clock, Code, Error, Position, Result, SystemClock, Timestamp};

/// Counting stops after this many events were read.
const COUNT_EVENTS_MAX: u64 = 20_000;

/// How often a batch is tried while another process holds the lock of retention, which takes one short transaction.
const TRIES_MAX: u32 = 50;

/// The pause between these tries.
const TRY_PAUSE: Duration = Duration::from_millis(200);

/// What to delete: delivered events from before a time.
///
/// The rules are those of retention: an event that a subscription still needs, a parked event and, in a table with a
/// state per row, a row outside the [`scope`](Self::scope) stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleanup {
    /// Only events before this time, by what retention counts the age from.
    pub before: Timestamp,
    /// Which rows of a table with a state per row.
    pub scope: RetentionScope,
    /// Only rows whose `expires_at` has passed. Only the layout `outbox` has that column.
    pub at_expiry: bool,
    /// Maximum number of events per batch, which is one short transaction.
    pub batch_events_max: usize,
}

/// One batch of a cleanup.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct CleanupBatch {
    /// What to delete.
    pub purge: Purge,
    /// What to write to the audit trail. `None`: only count what the batch would delete.
    pub audit: Option<AuditRecord>,
}

/// What a cleanup would delete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanupPlan {
    /// How many events, counted up to a limit.
    pub events: ParkedCount,
    /// The subscription that still needs events from before the time, if there is one.
    pub held: Option<RetentionHold>,
}

impl Cleanup {
    /// Events that were delivered before this time, in a table with a state per row only
    /// [those of Postrider](RetentionScope::Own).
    pub const fn new(before: Timestamp) -> Self {
        Self { before, scope: RetentionScope::Own, at_expiry: false, batch_events_max: 2_000 }
    }

    /// Refuses a time in the future, and a table in which nothing can be deleted by hand.
    fn check(&self, table: Option<&RowTable>) -> Result<()> {
        if self.before > Timestamp::now() {
            let what = format!("{} is in the future", self.before);
            return Err(Error::new(Code::ConfigValue, what).with_effect("nothing was deleted").with_hint(
                "pass a time in the past: later events are created and delivered while the command runs",
            ));
        }
        let Some(table) = table else { return Ok(()) };
        if table.columns().is_some_and(ColumnMap::deletes_deliveries) {
            let what = format!("in {} a row is deleted when it is delivered", table.full_name());
            return Err(Error::new(Code::LayoutDiffers, what)
                .with_effect("nothing was deleted")
                .with_hint("there are no delivered rows to delete"));
        }
        Ok(())
    }

    fn purge(&self) -> Purge {
        let Self { before, scope, at_expiry, batch_events_max } = *self;
        let purge = Purge::new(Duration::MAX, batch_events_max.max(1));
        Purge { before: Some(before), scope, at_expiry, ..purge }
    }

    /// For the audit trail.
    fn description(&self, table: Option<&RowTable>) -> String {
        let scope = match (table, self.scope) {
            (None, _) => "",
            (_, RetentionScope::Own) => ", rows delivered by Postrider",
            (_, RetentionScope::All) => ", rows delivered by any program",
        };
        let expired = if self.at_expiry { ", expired" } else { "" };
        format!("before {}{scope}{expired}", self.before)
    }
}

impl Operator {
    /// What a cleanup would delete. Changes nothing; in a table with a state per row, the first batch is deleted and
    /// rolled back to count it. The count is not binding: events may be delivered between the count and the cleanup.
    ///
    /// # Errors
    /// [`Code::ConfigValue`] for a time in the future, [`Code::LayoutDiffers`] if the table keeps no delivered rows, or
    /// the database's error.
    pub async fn plan_cleanup(&self, cleanup: Cleanup) -> Result<CleanupPlan> {
        let table = self.store().row_table();
        cleanup.check(table)?;
        let mut purge = cleanup.purge();
        let (mut events, mut read) = (0, 0);
        loop {
            let counted = self.clean_batch(CleanupBatch { purge, audit: None }).await?;
            events += counted.deleted;
            read += purge.events_max as u64;
            // A table with a state per row has no positions after which the count could continue.
            let is_last = !counted.more || table.is_some() || read >= COUNT_EVENTS_MAX;
            if is_last {
                let events = ParkedCount { events, at_least: counted.more };
                return Ok(CleanupPlan { events, held: counted.held });
            }
            purge.after = counted.reached;
        }
    }

    /// Deletes what [`plan_cleanup`](Self::plan_cleanup) counts, in batches of one transaction each. Each batch that
    /// deletes something writes an audit row. If the process dies, the batches that are committed stay deleted; run the
    /// command again for the rest. `progress` is called after each batch, with the number of events so far. Returns that
    /// number.
    ///
    /// # Errors
    /// As [`plan_cleanup`](Self::plan_cleanup), or [`Code::StoreBusy`] if another process deletes events all the time. The
    /// batches before the error are deleted.
    pub async fn cleanup(
        &self,
        cleanup: Cleanup,
        reason: Option<&str>,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64> {
        let deleted = self.clean_all(cleanup, reason, progress).await;
        counted("cleanup", deleted)
    }

    async fn clean_all(
        &self,
        cleanup: Cleanup,
        reason: Option<&str>,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64> {
        let table = self.store().row_table();
        cleanup.check(table)?;
        let mut audit = AuditRecord::new(self.name(), "cleanup", &cleanup.description(table), reason);
        let (mut purge, mut total) = (Purge { after: Position::ZERO, ..cleanup.purge() }, 0);
        loop {
            let batch = CleanupBatch { purge, audit: Some(audit.clone()) };
            let Purged { deleted, reached, more, .. } = self.clean_batch(batch).await?;
            total += deleted;
            // Only a batch that deleted something has an audit row, and the first of a command has number 0.
            if deleted > 0 {
                audit = audit.next_part();
            }
            progress(total);
            if !more {
                return Ok(total);
            }
            purge.after = reached;
        }
    }

    /// Waits for a relay that deletes events at this moment.
    async fn clean_batch(&self, batch: CleanupBatch) -> Result<Purged> {
        let clock = SystemClock::new();
        for _ in 1..TRIES_MAX {
            match self.store().clean_up(batch.clone()).await {
                Err(error) if error.code() == Code::StoreBusy => {
                    clock.sleep_until(clock.now().elapsed + TRY_PAUSE).await;
                }
                answer => return answer,
            }
        }
        self.store().clean_up(batch).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn a_time_in_the_future_is_refused() {
        let later = Timestamp::from_micros(Timestamp::now().as_micros() + 60_000_000);
        let error = Cleanup::new(later).check(None).unwrap_err();
        assert!(error.message().contains("in the future"), "{error}");
        assert!(Cleanup::new(Timestamp::now()).check(None).is_ok());
    }

    #[test]
    fn the_audit_trail_says_which_rows_were_meant() {
        let cleanup = Cleanup::new(Timestamp::from_micros(0));
        assert_eq!(cleanup.description(None), "before 1970-01-01T00:00:00.000000Z");
        let table = RowTable::new(RowLayout::Outbox);
        let all = Cleanup { scope: RetentionScope::All, at_expiry: true, ..cleanup };
        assert!(all.description(Some(&table)).ends_with("rows delivered by any program, expired"));
    }
}
