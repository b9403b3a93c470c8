//! Creating, moving and removing subscriptions of the default layout: the part that is the same on every database.

use super::audit_tx::NewAudit;
use super::log_tx::{LogTx, ranges_text, start_audit, start_progress};
use super::parked_tx::ParkedTx;
use super::subscription::{SubscriptionRow, unknown};
use super::{Epoch, Start};
use crate::ledger::{Intervals, Progress};
use crate::operate::{ParkedAction, ParkedCount, SubscriptionAction, SubscriptionChange, SubscriptionPlan};
use crate::{Code, Error, Position, Result};

/// Events are counted up to this number.
const COUNT_MAX: u64 = 100_000;

/// The statements of a transaction that changes subscriptions.
pub(super) trait SubscriptionTx: LogTx + ParkedTx {
    /// Inserts the row of a subscription in the present history. Returns whether there was none.
    fn insert_subscription(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Records progress in the row of a subscription, if it has this epoch.
    fn put_progress(
        &mut self,
        name: &str,
        epoch: Epoch,
        progress: &Progress,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Begins a new epoch in the present history, without a halt and without a lease: an owner that still uses the old
    /// history cannot overwrite the new progress. `None` if there is no such subscription.
    fn begin_epoch(&mut self, name: &str) -> impl Future<Output = Result<Option<Epoch>>> + Send;

    /// The positions of the parked rows above one.
    fn parked_above(
        &mut self,
        name: &str,
        floor: Position,
    ) -> impl Future<Output = Result<Vec<Position>>> + Send;

    /// Deletes the parked rows whose position now holds another event.
    fn forget_replaced(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;

    /// Deletes every row about it, except in the audit trail.
    fn delete_subscription(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::subscribe`](super::Store::subscribe).
pub(super) async fn subscribe<T: SubscriptionTx>(tx: &mut T, name: &str, start: Start) -> Result<bool> {
    let Some(done) = create(tx, name, start).await? else { return Ok(false) };
    if let Some((record, targets)) = start_audit(start, &done) {
        tx.insert_audit(NewAudit::of(name, &record).targets(&targets)).await?;
    }
    Ok(true)
}

/// Creates a subscription without an audit row. Returns the positions that it skips; `None` if it exists.
async fn create<T: SubscriptionTx>(tx: &mut T, name: &str, start: Start) -> Result<Option<Intervals>> {
    tx.keep_events().await?;
    if !tx.insert_subscription(name).await? {
        return Ok(None);
    }
    let progress = start_progress(tx, start).await?;
    tx.put_progress(name, Epoch::default(), &progress).await?;
    Ok(Some(progress.done))
}

/// See [`Store::accept_history`](super::Store::accept_history).
pub(super) async fn accept_history<T: SubscriptionTx>(tx: &mut T, name: &str, start: Start) -> Result<()> {
    tx.keep_events().await?;
    let epoch = tx.begin_epoch(name).await?.ok_or_else(|| unknown(name))?;
    let progress = start_progress(tx, start).await?;
    tx.forget_replaced(name).await?;
    // Rows of positions that are done above the floor stay: their events are not read again.
    let mut again = tx.parked_above(name, progress.done.floor()).await?;
    again.retain(|position| !progress.done.contains(*position));
    tx.apply(name, ParkedAction::Discard, &again).await?;
    tx.put_progress(name, epoch, &progress).await
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
            let Some(done) = create(tx, name, start).await? else { return Ok(false) };
            ranges_text(&done)
        }
        SubscriptionAction::Move(start) | SubscriptionAction::AcceptHistory(start) => {
            let old = loaded(tx, name).await?;
            if let (Some(reason), SubscriptionAction::Move(_)) = (&old.halted, action) {
                let what = format!("subscription {name:?} is halted: {reason}");
                return Err(Error::new(Code::HistoryChanged, what).with_effect("nothing was changed"));
            }
            accept_history(tx, name, start).await?;
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
    tx.insert_audit(NewAudit::of(name, audit).targets(&targets)).await?;
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
