//! The queries that a store of the default layout runs in a transaction, and the operations built on them: the
//! overview, retention, and where a subscription begins. Each query is one statement in the SQL of its database.

use std::collections::BTreeSet;

use super::subscription::{SubscriptionRow, parked_state, unknown};
use super::{
    Backlog, LeaseOverview, Overview, ParkedOverview, Purge, PurgeBound, PurgePlan, Purged, RelayOverview,
    Start, SubscriptionOverview,
};
use crate::ledger::{Intervals, LastSeen, ParkedRow, ParkedState, Progress};
use crate::operate::AuditRecord;
use crate::{Position, Result, Timestamp};

/// How many parked rows are searched for the last different errors.
const ERRORS_SEARCHED_MAX: usize = 200;

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

    /// All parked rows of a subscription, by position. A takeover on a server reads them.
    #[cfg_attr(not(feature = "_server"), expect(dead_code, reason = "SQLite reads them without this trait"))]
    fn parked(&mut self, name: &str) -> impl Future<Output = Result<Vec<ParkedRow>>> + Send;

    /// The first parked rows of a subscription, up to `rows_max` of them, counted by state, with the lowest position of each.
    fn parked_states(
        &mut self,
        name: &str,
        rows_max: u64,
    ) -> impl Future<Output = Result<Vec<(String, i64, i64)>>> + Send;

    /// The errors at the highest positions of parked rows, the highest first.
    fn parked_errors(
        &mut self,
        name: &str,
        rows_max: usize,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// How many of these rows are in state `behind` and wait for a dead row of their key, and how many for an unrouted one: for
    /// the last one before them.
    fn parked_behind(&mut self, name: &str, rows_max: u64)
    -> impl Future<Output = Result<(u64, u64)>> + Send;

    /// The lease of a subscription, expired or not.
    fn lease(&mut self, name: &str) -> impl Future<Output = Result<Option<LeaseOverview>>> + Send;

    /// The latest reports of relays of a subscription, also those that are no longer valid.
    fn relays(&mut self, name: &str) -> impl Future<Output = Result<Vec<RelayOverview>>> + Send;

    /// When the oldest open transaction of the database began, except for this one; see
    /// [`Overview::oldest_transaction`].
    fn oldest_transaction(&mut self) -> impl Future<Output = Result<Option<Option<Timestamp>>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Keeps events from being deleted until the transaction ends. Waits for a transaction that deletes.
    fn keep_events(&mut self) -> impl Future<Output = Result<()>> + Send;

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
    let oldest_transaction = tx.oldest_transaction().await?;
    Ok(Overview { now: tx.clock().await?, last, oldest, newest, oldest_transaction, subscriptions })
}

async fn subscription<T: LogTx>(
    tx: &mut T,
    name: String,
    last: Position,
    backlog_max: u64,
) -> Result<SubscriptionOverview> {
    let row = tx.load(&name).await?.ok_or_else(|| unknown(&name))?;
    let parked = parked(tx, &name, backlog_max).await?;
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

/// Counts the parked rows in the database, the first `max` of them: there may be a million. Zero: all of them.
async fn parked<T: LogTx>(tx: &mut T, name: &str, max: u64) -> Result<ParkedOverview> {
    let max = if max == 0 { u64::MAX } else { max };
    let mut parked = ParkedOverview::default();
    for (word, rows, lowest) in tx.parked_states(name, max).await? {
        let position = Position::new(lowest);
        let state = parked_state(position, &word)?;
        parked.add(state, rows.unsigned_abs(), position);
    }
    if parked.total() == 0 {
        return Ok(parked);
    }
    parked.more = parked.total() >= max;
    for error in tx.parked_errors(name, ERRORS_SEARCHED_MAX).await? {
        parked.add_older_error(error);
    }
    let blocking = parked.count(ParkedState::Dead) + parked.count(ParkedState::Unrouted);
    if parked.count(ParkedState::Behind) > 0 && blocking > 0 {
        (parked.behind_dead, parked.behind_unrouted) = tx.parked_behind(name, max).await?;
    }
    if let Some(first) = parked.first {
        parked.oldest = tx.time_of(first).await?;
    }
    Ok(parked)
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
    let (expired, purged) = plan_purge(tx, purge).await?;
    if !expired.is_empty() {
        tx.delete(&expired).await?;
    }
    Ok(purged)
}

/// Which events a batch deletes, and its result. Without the lock of retention, this is only an estimate.
pub(super) async fn plan_purge<T: LogTx>(tx: &mut T, purge: &Purge) -> Result<(Vec<Position>, Purged)> {
    let bounds = tx.purge_bounds().await?;
    let Some(lowest) = PurgeBound::lowest(&bounds) else {
        return Ok((Vec::new(), Purged { reached: purge.after, ..Purged::default() }));
    };
    let now = tx.clock().await?;
    let rows = tx.times_within(purge.after, lowest.floor, purge.events_max).await?;
    let mut kept: BTreeSet<Position> = bounds.iter().filter_map(|bound| bound.highest).collect();
    if let Some((last, _)) = rows.last() {
        kept.extend(tx.parked_within(purge.after, *last).await?);
    }
    let PurgePlan { expired, reached, more } = purge.plan(now, &rows, &kept);
    let held = lowest.held_back(tx.time_above(lowest.floor).await?, purge.cutoff(now));
    let deleted = expired.len() as u64;
    Ok((expired, Purged { deleted, reached, more, held }))
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

/// What the audit trail records about a subscription that begins after existing events: from it `explain` knows
/// that they were not delivered. `None` if it begins with the first one.
pub(super) fn start_audit(start: Start, done: &Intervals) -> Option<(AuditRecord, String)> {
    let record = || AuditRecord::new("a relay", "subscribe", &format!("start {start}"), None);
    (done.highest() > Position::ZERO).then(|| (record(), ranges_text(done)))
}

/// Maximum number of bytes of positions in one audit row.
const TARGETS_BYTES_MAX: usize = 100_000;

/// The positions of a set as the audit trail writes them: `1-40 43-50`. Cut at a limit.
pub(super) fn ranges_text(done: &Intervals) -> String {
    let first = (done.floor() > Position::ZERO).then(|| (Position::new(1), done.floor()));
    let mut text = String::new();
    for (start, end) in first.into_iter().chain(done.ranges()) {
        if text.len() > TARGETS_BYTES_MAX {
            break;
        }
        let gap = if text.is_empty() { "" } else { " " };
        text.push_str(&if start == end { format!("{gap}{start}") } else { format!("{gap}{start}-{end}") });
    }
    text
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
