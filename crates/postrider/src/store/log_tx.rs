//! The queries that a store of the default layout runs in a transaction, and the operations built on them: the
//! overview, retention, and where a subscription begins. Each query is one statement in the SQL of its database.

use std::collections::BTreeSet;

use super::subscription::{SubscriptionRow, unknown};
use super::{
    Backlog, LeaseOverview, Overview, ParkedOverview, Purge, PurgeBound, PurgePlan, Purged, RelayOverview,
    Start, SubscriptionOverview,
};
use crate::ledger::{Intervals, LastSeen, ParkedRow, Progress};
use crate::{Position, Result, Timestamp};

/// A transaction on an outbox of the default layout.
pub(super) trait LogTx: Send {
    /// The database's clock.
    fn clock(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// The highest position ever taken, committed or not.
    fn last_position(&mut self) -> impl Future<Output = Result<Position>> + Send;

    /// The last position at which a subscription may begin; one that asks for a later position begins here.
    fn end(&mut self) -> impl Future<Output = Result<Position>> + Send {
        self.last_position()
    }

    /// The positions of the events in one snapshot, all of them or up to the first event at or after `until`; and the
    /// empty positions. Another position without an event is not in the set: its transaction may
    /// still commit, and then its event is later than the snapshot.
    fn visible(&mut self, until: Option<Timestamp>) -> impl Future<Output = Result<Intervals>> + Send;

    /// The last event at or below a position.
    fn last_at_or_below(
        &mut self,
        position: Position,
    ) -> impl Future<Output = Result<Option<LastSeen>>> + Send;

    /// The time of the event at a position.
    fn time_of(&mut self, position: Position) -> impl Future<Output = Result<Option<Timestamp>>> + Send;

    /// The time of the first event above a position.
    fn time_above(&mut self, position: Position) -> impl Future<Output = Result<Option<Timestamp>>> + Send;

    /// How many events are in some ranges, counted up to a limit, and the position of the first.
    fn count_within(
        &mut self,
        ranges: Vec<(Position, Position)>,
        limit: u64,
    ) -> impl Future<Output = Result<(u64, Option<Position>)>> + Send;

    /// The names of all subscriptions, in order.
    fn subscriptions(&mut self) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The state of a subscription, if there is one of this name.
    fn load(&mut self, name: &str) -> impl Future<Output = Result<Option<SubscriptionRow>>> + Send;

    /// All parked rows of a subscription, by position.
    fn parked(&mut self, name: &str) -> impl Future<Output = Result<Vec<ParkedRow>>> + Send;

    /// The lease of a subscription, expired or not.
    fn lease(&mut self, name: &str) -> impl Future<Output = Result<Option<LeaseOverview>>> + Send;

    /// The relays of a subscription whose report is still valid.
    fn relays(&mut self, name: &str) -> impl Future<Output = Result<Vec<RelayOverview>>> + Send;

    /// Prevents other processes from deleting events and from creating or moving subscriptions until the transaction
    /// ends. Fails instead of waiting: one relay that deletes is enough, and subscriptions have priority.
    fn lock_retention(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// How far every subscription is. A halted one counts as at the beginning: its floor belongs to another history
    /// and does not apply to these events. Until an operator decides, it needs them all.
    fn purge_bounds(&mut self) -> impl Future<Output = Result<Vec<PurgeBound>>> + Send;

    /// The first events above a position and up to another, with their times.
    fn times_within(
        &mut self,
        after: Position,
        last: Position,
        events_max: usize,
    ) -> impl Future<Output = Result<Vec<(Position, Timestamp)>>> + Send;

    /// The positions above one and up to another that any subscription has parked.
    fn parked_within(
        &mut self,
        after: Position,
        last: Position,
    ) -> impl Future<Output = Result<Vec<Position>>> + Send;

    /// Deletes events.
    fn delete(&mut self, positions: &[Position]) -> impl Future<Output = Result<()>> + Send;
}

/// See [`Store::overview`](super::Store::overview).
pub(super) async fn overview<T: LogTx>(tx: &mut T, backlog_max: u64) -> Result<Overview> {
    let last = tx.last_position().await?;
    let newest = match tx.last_at_or_below(last).await? {
        Some(mark) => tx.time_of(mark.position).await?.map(|time| (mark, time)),
        None => None,
    };
    let oldest = tx.time_above(Position::ZERO).await?;
    let mut subscriptions = Vec::new();
    for name in tx.subscriptions().await? {
        subscriptions.push(subscription(tx, name, last, backlog_max).await?);
    }
    Ok(Overview { now: tx.clock().await?, last, oldest, newest, subscriptions })
}

async fn subscription<T: LogTx>(
    tx: &mut T,
    name: String,
    last: Position,
    backlog_max: u64,
) -> Result<SubscriptionOverview> {
    let row = tx.load(&name).await?.ok_or_else(|| unknown(&name))?;
    let mut parked: ParkedOverview = tx.parked(&name).await?.into_iter().collect();
    if let Some(first) = parked.first {
        parked.oldest = tx.time_of(first).await?;
    }
    Ok(SubscriptionOverview {
        epoch: row.epoch,
        floor: row.progress.done.floor(),
        backlog: backlog(tx, &row.progress.done, last, backlog_max).await?,
        parked,
        lease: tx.lease(&name).await?,
        relays: tx.relays(&name).await?,
        clean: row.clean,
        paused: row.paused,
        halted: row.halted,
        name,
    })
}

/// Counts the events in the gaps of what is done, and stops at the limit.
async fn backlog<T: LogTx>(tx: &mut T, done: &Intervals, last: Position, max: u64) -> Result<Backlog> {
    // Count one more than the limit, to know whether there are more.
    let (events, first) = tx.count_within(done.gaps(last), max.saturating_add(1)).await?;
    let oldest = match first {
        Some(first) => tx.time_of(first).await?,
        None => None,
    };
    Ok(Backlog { events: events.min(max), more: events > max, first, oldest })
}

/// See [`Store::purge`](super::Store::purge). Settles may run concurrently: they only raise floors, and they park
/// events above the floor. Floors are read before the parked rows, so a settle in between can only make the batch
/// smaller.
pub(super) async fn purge<T: LogTx>(tx: &mut T, purge: &Purge) -> Result<Purged> {
    tx.lock_retention().await?;
    let bounds = tx.purge_bounds().await?;
    let Some(lowest) = PurgeBound::lowest(&bounds) else {
        return Ok(Purged { reached: purge.after, ..Purged::default() });
    };
    let now = tx.clock().await?;
    let rows = tx.times_within(purge.after, lowest.floor, purge.events_max).await?;
    let mut kept: BTreeSet<Position> = bounds.iter().filter_map(|bound| bound.highest).collect();
    if let Some((last, _)) = rows.last() {
        kept.extend(tx.parked_within(purge.after, *last).await?);
    }
    let PurgePlan { expired, reached, more } = purge.plan(now, &rows, &kept);
    if !expired.is_empty() {
        tx.delete(&expired).await?;
    }
    let held = lowest.held_back(tx.time_above(lowest.floor).await?, purge.cutoff(now));
    Ok(Purged { deleted: expired.len() as u64, reached, more, held })
}

/// The progress of a subscription that begins at `start`. A position the outbox has not reached yet
/// counts as its end: beyond it there is no history to compare with.
pub(super) async fn start_progress<T: LogTx>(tx: &mut T, start: Start) -> Result<Progress> {
    let done = match start {
        Start::Now => tx.visible(None).await?,
        Start::Beginning => Intervals::default(),
        Start::Position(position) => {
            Intervals::up_to(position.max(Position::new(1)).previous().min(tx.end().await?))
        }
        Start::Time(time) => tx.visible(Some(time)).await?,
    };
    let highest = tx.last_at_or_below(done.highest()).await?;
    Ok(Progress { done, highest, trial: None })
}

/// Builds the answer of [`LogTx::visible`] from a scan of all events. Each step is a gap: the event before it, if
/// there is one, and the event after it; the last step has none after it. No position up to `decided` can still get
/// an event.
#[cfg(feature = "_server")]
pub(super) fn visible_intervals(steps: impl IntoIterator<Item = Result<VisibleStep>>) -> Result<Intervals> {
    let mut done = Intervals::default();
    let mut first = Position::new(1);
    for step in steps {
        let VisibleStep { before, after, decided } = step?;
        if let Some(decided) = decided {
            done.insert_range(Position::new(1), Position::new(decided));
        }
        done.insert_range(first, before.map_or(Position::ZERO, Position::new));
        first = after.map_or(first, Position::new);
    }
    Ok(done)
}

/// See [`visible_intervals`].
#[cfg(feature = "_server")]
pub(super) struct VisibleStep {
    pub(super) before: Option<i64>,
    pub(super) after: Option<i64>,
    pub(super) decided: Option<i64>,
}
