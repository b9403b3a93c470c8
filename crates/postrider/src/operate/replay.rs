//! Replay: delivering finished events of a subscription again (adr/0084-replay.md).

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;

use super::operator::counted;
use super::{AuditRecord, BATCH_ROWS_MAX, Operator, ParkedCount, filter::cut};
use crate::ledger::{Intervals, ParkedState, Redelivery};
use crate::{Clock, Position, Result, SystemClock, Timestamp};

/// Default of [`ReplayOptions::waiting_max`].
const WAITING_MAX: u64 = 10_000;

/// Counting stops after this many events were read.
const COUNT_EVENTS_MAX: u64 = 100_000;

/// How often a replay looks whether the relay has delivered what it parked.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of bytes of a filter in the audit trail.
const SELECTION_BYTES_MAX: usize = 2_000;

/// Which finished events to deliver again. All given conditions must match; without any, all of them do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayFilter {
    /// At this position or above.
    pub from: Option<Position>,
    /// At this position or below.
    pub to: Option<Position>,
    /// Created at this time or later. An event whose time differs by more than an hour from those of its neighbours may
    /// not be found by time.
    pub since: Option<Timestamp>,
    /// Created at this time or earlier.
    pub until: Option<Timestamp>,
    /// Of this type.
    pub event_type: Option<String>,
    /// With this key of its own, or else `type/id` of its aggregate. Keys of routing rules are not compared.
    pub key: Option<String>,
}

crate::setters! { ReplayFilter:
    from: Option<Position>,
    to: Option<Position>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    event_type: Option<String>,
    key: Option<String>,
}

impl ReplayFilter {
    /// The filter as text, for the audit trail and for people.
    pub fn description(&self) -> String {
        let mut parts = Vec::new();
        let positions = [("from position", self.from), ("to position", self.to)];
        parts.extend(positions.iter().filter_map(|(name, at)| Some(format!("{name} {}", at.as_ref()?))));
        let texts = [("key", &self.key), ("type", &self.event_type)];
        parts.extend(texts.iter().filter_map(|(name, text)| Some(format!("{name} {:?}", text.as_ref()?))));
        let times = [("since", self.since), ("until", self.until)];
        parts.extend(times.iter().filter_map(|(name, time)| Some(format!("{name} {}", time.as_ref()?))));
        let text = if parts.is_empty() { "all".to_owned() } else { parts.join(", ") };
        cut(text, SELECTION_BYTES_MAX)
    }

    /// Whether an event at a position within the filter matches. Names are compared byte by byte on every database.
    #[doc(hidden)]
    pub fn matches(&self, time: Timestamp, event_type: &str, key: Option<&str>) -> bool {
        self.since.is_none_or(|since| time >= since)
            && self.until.is_none_or(|until| time <= until)
            && self.event_type.as_deref().is_none_or(|wanted| wanted == event_type)
            && self.key.as_deref().is_none_or(|wanted| key == Some(wanted))
    }
}

/// One batch of a replay, in one transaction. It reads a limited number of events.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ReplayBatch {
    /// The subscription.
    pub subscription: String,
    /// Which of its events.
    pub filter: ReplayFilter,
    /// Only events above this position.
    pub after: Position,
    /// Only events up to this position: those that existed when the replay began. `None` in the first batch.
    pub last: Option<Position>,
    /// The maximum number of events to replay.
    pub events_max: usize,
    /// What to write to the audit trail; `None` to count only, and write nothing.
    pub audit: Option<AuditRecord>,
}

/// An event that may be replayed.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReplayCandidate {
    /// Its position.
    pub position: Position,
    /// Its time.
    pub time: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Type and key. `None`: they are no valid text, and the event cannot be delivered.
    pub names: Option<(String, Option<String>)>,
    /// The subscription has parked it.
    pub parked: bool,
}

/// What a batch parks.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReplaySelection {
    /// Its result.
    pub result: ReplayedBatch,
    /// The first event of each key, and events without a key.
    pub first_of_key: Vec<ReplayCandidate>,
    /// The others.
    pub behind: Vec<ReplayCandidate>,
}

impl ReplayBatch {
    /// Selects from the first events of a range of positions, of which at most `read_max` were read.
    #[doc(hidden)]
    pub fn select(
        &self,
        read: Vec<ReplayCandidate>,
        (after, last): (Position, Position),
        read_max: usize,
        done: &Intervals,
        now: Timestamp,
    ) -> ReplaySelection {
        let mut result = ReplayedBatch { read: read.len() as u64, last, ..ReplayedBatch::default() };
        result.reached = match read.last() {
            Some(event) if read.len() >= read_max => event.position,
            _ => last.max(after),
        };
        let (counts, room) = (&mut result.counts, self.events_max.clamp(1, BATCH_ROWS_MAX));
        let (mut first_of_key, mut behind, mut keys) = (Vec::new(), Vec::new(), HashSet::new());
        for event in read {
            let Some((event_type, key)) = &event.names else {
                counts.damaged += 1;
                continue;
            };
            if !self.filter.matches(event.time, event_type, key.as_deref()) {
                continue;
            }
            if first_of_key.len() + behind.len() >= room {
                result.reached = event.position.previous();
                break;
            }
            if !done.contains(event.position) {
                counts.not_done += 1;
            } else if event.parked {
                counts.already_parked += 1;
            } else if event.expires_at.is_some_and(|at| at <= now) {
                counts.expired += 1;
            } else if key.as_ref().is_none_or(|key| keys.insert(key.clone())) {
                first_of_key.push(event);
            } else {
                behind.push(event);
            }
        }
        counts.replayed = (first_of_key.len() + behind.len()) as u64;
        ReplaySelection { result, first_of_key, behind }
    }
}

/// What a replay did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// Events that are delivered again.
    pub replayed: u64,
    /// Events that match and are parked: they still wait, or an operator decides about them.
    pub already_parked: u64,
    /// Events that match and that the subscription has not delivered yet: it will.
    pub not_done: u64,
    /// Events that match and have expired.
    pub expired: u64,
    /// Events whose type or key is no valid text: they cannot be delivered.
    pub damaged: u64,
}

impl Replayed {
    fn add(&mut self, other: Self) {
        self.replayed += other.replayed;
        self.already_parked += other.already_parked;
        self.not_done += other.not_done;
        self.expired += other.expired;
        self.damaged += other.damaged;
    }
}

/// The result of one batch.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayedBatch {
    /// What it did.
    pub counts: Replayed,
    /// Events that it read.
    pub read: u64,
    /// The last position that it looked at.
    pub reached: Position,
    /// The last position of the whole replay.
    pub last: Position,
}

/// What a replay would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ReplayPlan {
    /// Counted up to a limit.
    #[serde(flatten)]
    pub counts: Replayed,
    /// Not all events were counted.
    pub at_least: bool,
}

impl ReplayPlan {
    /// How many events it would deliver again.
    pub fn events(&self) -> ParkedCount {
        ParkedCount { events: self.counts.replayed, at_least: self.at_least }
    }
}

/// Options of [`Operator::replay`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Why, for the audit trail.
    pub reason: Option<String>,
    /// Replay at most this many events per second on average. `None`: as fast as the relay delivers them.
    pub events_per_second: Option<u32>,
    /// While this many replayed events wait for delivery, no more are added: they must leave room for events that fail,
    /// because a relay stops reading at its `parked_max`.
    pub waiting_max: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { reason: None, events_per_second: None, waiting_max: WAITING_MAX }
    }
}

crate::setters! { ReplayOptions:
    reason: Option<String>,
    events_per_second: Option<u32>,
    waiting_max: u64,
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReplayProgress {
    /// What it has done.
    pub counts: Replayed,
    /// The last position that it looked at. To continue a replay that was stopped, begin after it.
    pub reached: Position,
    /// Replayed events that are not delivered yet; zero if not known.
    pub waiting: u64,
    /// It waits for a relay to deliver them.
    pub is_waiting: bool,
}

impl Operator {
    /// What a replay would do. Writes nothing. The count is not binding: events may be settled between the count and the
    /// replay.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub async fn plan_replay(&self, subscription: &str, filter: &ReplayFilter) -> Result<ReplayPlan> {
        let mut batch = first_batch(subscription, filter);
        let (mut counts, mut read) = (Replayed::default(), 0);
        loop {
            let part = self.store().replay(batch.clone()).await?;
            counts.add(part.counts);
            read += part.read;
            let is_complete = part.reached >= part.last;
            if is_complete || read >= COUNT_EVENTS_MAX {
                return Ok(ReplayPlan { counts, at_least: !is_complete });
            }
            (batch.after, batch.last) = (part.reached, Some(part.last));
        }
    }

    /// Delivers finished events again: those that the subscription has delivered, and those that it has filtered out,
    /// discarded, skipped or that are from before its start. They are parked with the mark `replay`, in batches of one
    /// transaction each, with an audit row; the subscription keeps its progress. The relay delivers them like a retry, and
    /// their messages have the header `postrider-redelivery: replay`.
    ///
    /// Events of one key are delivered in the order of positions, and later events of the key wait for them. Events that
    /// are written after the replay began are not replayed. If the process dies, the batches that are committed stay;
    /// continue after [`ReplayProgress::reached`]. A relay that leads begins with them within a third of its lease; without
    /// a relay this waits.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown);
    /// [`Code::HistoryChanged`](crate::Code::HistoryChanged) if the subscription is halted;
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) for a table with a state per row. The batches before the error
    /// are committed.
    pub async fn replay(
        &self,
        subscription: &str,
        filter: &ReplayFilter,
        options: ReplayOptions,
        progress: &mut (dyn FnMut(ReplayProgress) + Send),
    ) -> Result<Replayed> {
        let replayed = self.replay_all(subscription, filter, options, progress).await;
        counted("replay", replayed)
    }

    async fn replay_all(
        &self,
        subscription: &str,
        filter: &ReplayFilter,
        options: ReplayOptions,
        progress: &mut (dyn FnMut(ReplayProgress) + Send),
    ) -> Result<Replayed> {
        let ReplayOptions { reason, events_per_second, waiting_max } = options;
        let clock = SystemClock::new();
        let mut audit = AuditRecord::new(self.name(), "replay", &filter.description(), reason.as_deref());
        let mut batch = first_batch(subscription, filter);
        if let Some(rate) = events_per_second {
            batch.events_max = batch.events_max.min(rate.max(1) as usize);
        }
        let mut state = ReplayProgress { reached: batch.after, ..ReplayProgress::default() };
        loop {
            state.waiting = self.count_replays(subscription, waiting_max).await?;
            state.is_waiting = state.waiting >= waiting_max.max(1);
            if state.is_waiting {
                progress(state);
                clock.sleep_until(clock.now().elapsed + LOOK_INTERVAL).await;
                continue;
            }
            let started = clock.now().elapsed;
            batch.audit = Some(audit.clone());
            let part = self.store().replay(batch.clone()).await?;
            state.counts.add(part.counts);
            state.reached = part.reached;
            // Only a batch that replayed something has an audit row, and the first of a command has number 0.
            if part.counts.replayed > 0 {
                audit = audit.next_part();
            }
            progress(state);
            if part.reached >= part.last {
                return Ok(state.counts);
            }
            (batch.after, batch.last) = (part.reached, Some(part.last));
            if let Some(rate) = events_per_second {
                let wait = Duration::from_secs_f64(part.counts.replayed as f64 / f64::from(rate.max(1)));
                clock.sleep_until(started + wait).await;
            }
        }
    }

    /// Replayed events that still wait for the relay, counted up to a limit.
    async fn count_replays(&self, subscription: &str, max: u64) -> Result<u64> {
        let states = vec![ParkedState::Retry, ParkedState::Behind, ParkedState::Held];
        let filter =
            super::ParkedFilter { states, redelivery: Some(Redelivery::Replay), ..Default::default() };
        Ok(self.count(&[subscription.to_owned()], &filter, max.max(1)).await?.events)
    }
}

fn first_batch(subscription: &str, filter: &ReplayFilter) -> ReplayBatch {
    let from = filter.from.unwrap_or(Position::new(1)).max(Position::new(1));
    ReplayBatch {
        subscription: subscription.to_owned(),
        filter: filter.clone(),
        after: from.previous(),
        last: None,
        events_max: BATCH_ROWS_MAX,
        audit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_trail_says_which_events_were_meant() {
        assert_eq!(ReplayFilter::default().description(), "all");
        let filter = ReplayFilter::default().from(Some(Position::new(7))).key(Some("a\"b".to_owned()));
        assert_eq!(filter.description(), "from position 7, key \"a\\\"b\"");
    }

    #[test]
    fn names_are_compared_exactly() {
        let filter = ReplayFilter::default().event_type(Some("order.placed".to_owned()));
        let at = Timestamp::from_micros(5);
        assert!(filter.matches(at, "order.placed", None));
        assert!(!filter.matches(at, "Order.placed", None) && !filter.matches(at, "order.placed ", None));
        let filter = ReplayFilter::default().since(Some(at)).until(Some(at));
        assert!(filter.matches(at, "x", None) && !filter.matches(Timestamp::from_micros(6), "x", None));
    }
}
