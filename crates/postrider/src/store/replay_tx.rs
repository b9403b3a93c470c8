//! Replaying finished events of the default layout: the part that is the same on every database.
//!
//! The transaction keeps events from being deleted, and then locks the row of the subscription, as a settle does: what is
//! done and parked stays true until it commits. It reads a limited number of events, so a settle never waits long. The keys
//! of parked rows are only for people and for the order in this batch: a relay that loads them sets the keys of its rules.

use super::audit_tx::NewAudit;
use super::log_tx::LogTx;
use super::parked_tx::ParkedTx;
use super::search::time_window;
use super::subscription::unknown;
use crate::ledger::ParkedState;
use crate::operate::{ReplayBatch, ReplayCandidate, ReplaySelection, ReplayedBatch, targets};
use crate::{Code, Error, Position, Result};

/// Events that one batch reads at most, while it holds the lock.
const READ_EVENTS_MAX: usize = 2_000;

/// The statements of a transaction that replays events.
pub(super) trait ReplayTx: LogTx + ParkedTx {
    /// The first events above a position and up to another.
    fn replay_candidates(
        &mut self,
        name: &str,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> impl Future<Output = Result<Vec<ReplayCandidate>>> + Send;

    /// Parks these events with the mark `replay` in a state, `retry` or `behind`.
    fn park_again(
        &mut self,
        name: &str,
        state: ParkedState,
        events: &[ReplayCandidate],
    ) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::replay`](super::Store::replay).
pub(super) async fn replay<T: ReplayTx>(tx: &mut T, batch: &ReplayBatch) -> Result<ReplayedBatch> {
    let ReplayBatch { subscription: name, filter, audit, .. } = batch;
    if audit.is_some() {
        tx.keep_events().await?;
        if !tx.lock_subscription(name).await? {
            return Err(unknown(name));
        }
    }
    let row = tx.load(name).await?.ok_or_else(|| unknown(name))?;
    if let Some(reason) = &row.halted {
        let what = format!("subscription {name:?} is halted: {reason}");
        return Err(Error::new(Code::HistoryChanged, what).with_effect("nothing was replayed"));
    }
    let (after, last) = match batch.last {
        Some(last) => (batch.after, last),
        None => {
            let newest = tx.last_position().await?;
            let last = filter.to.map_or(newest, |to| to.min(newest));
            time_window(tx, batch.after, last, filter.since, filter.until).await?
        }
    };
    let now = tx.clock().await?;
    let read = tx.replay_candidates(name, after, last, READ_EVENTS_MAX).await?;
    let selection = batch.select(read, (after, last), READ_EVENTS_MAX, &row.progress.done, now);
    let ReplaySelection { result, first_of_key, behind } = selection;
    if let Some(audit) = audit.as_ref().filter(|_| result.counts.replayed > 0) {
        for (state, events) in [(ParkedState::Retry, &first_of_key), (ParkedState::Behind, &behind)] {
            if !events.is_empty() {
                tx.park_again(name, state, events).await?;
            }
        }
        let numbers = first_of_key.iter().chain(&behind).map(|event| event.position.get()).collect();
        let targets = targets(numbers);
        let new = NewAudit { events: result.counts.replayed, ..NewAudit::of(name, audit).targets(&targets) };
        tx.insert_audit(new).await?;
    }
    Ok(result)
}

/// The positions of candidates.
#[cfg(feature = "_server")]
pub(super) fn positions(events: &[ReplayCandidate]) -> impl Iterator<Item = Position> {
    events.iter().map(|event| event.position)
}
