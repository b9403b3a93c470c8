//! Creating, moving and removing subscriptions of the default layout: the part that is the same on every database.

use super::Start;
use super::log_tx::{LogTx, ranges_text, start_progress};
use super::parked_tx::ParkedTx;
use super::subscription::{SubscriptionRow, unknown};
use crate::ledger::Intervals;
use crate::operate::{ParkedCount, SubscriptionAction, SubscriptionChange, SubscriptionPlan};
use crate::{Code, Error, Position, Result};

/// Events are counted up to this number.
const COUNT_MAX: u64 = 100_000;

/// The statements of a transaction that changes subscriptions.
pub(super) trait SubscriptionTx: LogTx + ParkedTx {
    /// Creates a subscription without an audit row. Returns whether it did not exist.
    fn create(&mut self, name: &str, start: Start) -> impl Future<Output = Result<bool>> + Send;

    /// Continues it from another start, in a new epoch and without a lease.
    fn restart(&mut self, name: &str, start: Start) -> impl Future<Output = Result<()>> + Send;

    /// Deletes every row about it, except in the audit trail.
    fn delete_subscription(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::plan_subscription`](super::Store::plan_subscription).
pub(super) async fn plan<T: LogTx>(tx: &mut T, name: &str, start: Start) -> Result<SubscriptionPlan> {
    let old = loaded(tx, name).await?.progress.done;
    let (new, last) = (start_progress(tx, start).await?.done, tx.last_position().await?);
    let skipped = count(tx, &without(&new, &old, last)).await?;
    Ok(SubscriptionPlan::new(skipped, count(tx, &without(&old, &new, last)).await?))
}

/// See [`Store::change_subscription`](super::Store::change_subscription).
pub(super) async fn change<T: SubscriptionTx>(tx: &mut T, change: &SubscriptionChange) -> Result<bool> {
    let SubscriptionChange { subscription: name, action, audit, .. } = change;
    let targets = match *action {
        SubscriptionAction::Add(start) => {
            if !tx.create(name, start).await? {
                return Ok(false);
            }
            ranges_text(&loaded(tx, name).await?.progress.done)
        }
        SubscriptionAction::Move(start) | SubscriptionAction::AcceptHistory(start) => {
            let old = loaded(tx, name).await?;
            if let (Some(reason), SubscriptionAction::Move(_)) = (&old.halted, action) {
                let what = format!("subscription {name:?} is halted: {reason}");
                return Err(Error::new(Code::HistoryChanged, what).with_effect("nothing was changed"));
            }
            tx.restart(name, start).await?;
            let (new, last) = (loaded(tx, name).await?.progress.done, tx.last_position().await?);
            // In another history, its old progress is about other events.
            let old = if old.halted.is_some() { Intervals::default() } else { old.progress.done };
            ranges_text(&without(&new, &old, last))
        }
        SubscriptionAction::Remove => {
            if !tx.lock_subscription(name).await? {
                return Err(unknown(name));
            }
            let now = tx.clock().await?;
            if let Some(lease) = tx.lease(name).await?.filter(|lease| lease.expires_at > now) {
                let what = format!(
                    "relay {:?} leads {name}, and would continue to deliver its events",
                    lease.holder
                );
                return Err(Error::new(Code::LeaseHeld, what));
            }
            tx.delete_subscription(name).await?;
            String::new()
        }
    };
    tx.insert_audit(Some(name), audit, 0, &targets).await?;
    Ok(true)
}

async fn loaded<T: LogTx>(tx: &mut T, name: &str) -> Result<SubscriptionRow> {
    tx.load(name).await?.ok_or_else(|| unknown(name))
}

/// The positions of one set that another lacks, up to `last`.
fn without(set: &Intervals, other: &Intervals, last: Position) -> Intervals {
    let mut left = Intervals::default();
    let below = (set.floor() > Position::ZERO).then(|| (Position::new(1), set.floor()));
    for (start, end) in below.into_iter().chain(set.ranges()) {
        for (first, to) in other.gaps(end.min(last)) {
            left.insert_range(first.max(start), to.min(end));
        }
    }
    left
}

/// How many events are at the positions of a set.
async fn count<T: LogTx>(tx: &mut T, set: &Intervals) -> Result<ParkedCount> {
    let below = (set.floor() > Position::ZERO).then(|| (Position::new(1), set.floor()));
    let ranges: Vec<(Position, Position)> = below.into_iter().chain(set.ranges()).collect();
    let events = if ranges.is_empty() { 0 } else { tx.count_within(ranges, COUNT_MAX).await?.0 };
    Ok(ParkedCount::up_to(events, COUNT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_move_skips_is_what_was_not_done_before() {
        let at = Position::new;
        let mut old = Intervals::up_to(at(10));
        old.insert_range(at(20), at(30));
        let new = Intervals::up_to(at(25));
        assert_eq!(ranges_text(&without(&new, &old, at(100))), "11-19");
        assert_eq!(ranges_text(&without(&old, &new, at(100))), "26-30");
        assert_eq!(ranges_text(&without(&new, &Intervals::default(), at(100))), "1-25");
        assert_eq!(ranges_text(&without(&old, &old, at(100))), "");
    }
}
