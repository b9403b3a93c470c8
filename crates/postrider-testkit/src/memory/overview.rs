//! The overview of all subscriptions.

use postrider::ledger::{Intervals, LastSeen};
use postrider::store::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
use postrider::{Now, Position, Timestamp};

use super::{Log, MemoryLease, MemoryOutbox, MemorySubscription};

impl MemoryOutbox {
    /// The state of every subscription; see `Store::overview`.
    pub fn overview(&self, backlog_max: u64, now: Now) -> Overview {
        let newest = self.log.visible().next_back();
        let subscriptions = self.subscriptions().map(|(name, subscription)| {
            let mut overview = SubscriptionOverview::default();
            overview.name = name.to_owned();
            overview.epoch = subscription.epoch;
            overview.floor = subscription.progress.done.floor();
            overview.backlog = backlog(&self.log, &subscription.progress.done, backlog_max);
            overview.parked = parked(&self.log, subscription, backlog_max);
            overview.lease = subscription.lease.as_ref().map(|lease| on_the_calendar(lease, now));
            overview.relays = subscription.latest_relays();
            overview.clean = !subscription.unclean;
            overview.paused = subscription.paused.clone();
            overview.halted = subscription.halted.clone();
            overview
        });
        let mut overview = Overview::default();
        overview.now = now.wall;
        overview.last = self.log.sequence();
        overview.oldest = self.log.visible().next().map(|(_, event)| event.time);
        overview.newest = newest.map(|(position, event)| (LastSeen { position, id: event.id }, event.time));
        overview.subscriptions = subscriptions.collect();
        overview
    }
}

fn backlog(log: &Log, done: &Intervals, max: u64) -> Backlog {
    let mut undone = log.visible().filter(|(position, _)| !done.contains(*position)).peekable();
    let first = undone.peek().map(|(position, event)| (*position, event.time));
    let count = undone.count() as u64;
    Backlog {
        events: count.min(max),
        more: count > max,
        first: first.map(|(position, _)| position),
        oldest: first.map(|(_, time)| time),
    }
}

fn parked(log: &Log, subscription: &MemorySubscription, max: u64) -> ParkedOverview {
    let max = if max == 0 { u64::MAX } else { max };
    let rows = subscription.parked.values().take(usize::try_from(max).unwrap_or(usize::MAX));
    let mut parked: ParkedOverview = rows.cloned().collect();
    parked.more = parked.total() >= max;
    let time = |position: Position| log.get(position).map(|event| event.time);
    parked.oldest = parked.first.and_then(time);
    parked
}

/// Leases use the monotonic clock.
fn on_the_calendar(lease: &MemoryLease, now: Now) -> LeaseOverview {
    let micros = |duration: std::time::Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    let expires_at = now.wall.as_micros() + micros(lease.until) - micros(now.elapsed);
    LeaseOverview { holder: lease.holder.clone(), expires_at: Timestamp::from_micros(expires_at) }
}
