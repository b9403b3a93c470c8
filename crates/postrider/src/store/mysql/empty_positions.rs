//! Detects late rows: rows that appear at positions which were settled as empty.
//!
//! A user with the right to INSERT can also choose the position, with `SET insert_id`. If the position was not read
//! yet, its event is delivered like any other. If it was settled as empty, the event would never be read. The claimer
//! therefore tracks the newest of these positions, checks them regularly, and reports every row that it finds there,
//! once (ADR 42).
//!
//! The positions are also recorded in the table `empty_positions`, so that the next relay, and `doctor`, find a row that
//! appears while no relay runs.

use std::time::Duration;

use super::ranges::within;
use super::row::{self, get, get_opt};
use super::session::{Access, Params, Session, params};
use crate::ledger::Intervals;
use crate::ledger::range_map::{RangeSet, parse_range};
use crate::store::Epoch;
use crate::{Code, Position, Result};

/// The time between two checks. A lease is renewed about as often.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The time between two records of empty positions. The floor may pass a rolled-back position this much later.
const RECORD_EVERY: Duration = Duration::from_millis(100);

/// The number of ranges that are tracked. Of more, the lowest are dropped, except the one before the first event.
pub(super) const RANGES_MAX: usize = 1_000;

/// At the start, empty positions are searched among this many of the last positions that are done.
const WINDOW_POSITIONS: i64 = 10_000;

/// The number of rows that one check reports; the next check reports the others.
const ROWS_MAX: usize = 100;

/// Positions that are done and have no event.
#[derive(Debug, Default)]
pub(super) struct EmptyPositions {
    ranges: RangeSet,
    /// The subscription and epoch to record them for; `None` for a claimer without a lease, which records nothing.
    owner: Option<(String, Epoch)>,
    /// Every position up to this one was done at the start.
    floor: Position,
    checked_at: Option<Duration>,
    recorded_at: Option<Duration>,
    /// Proven empty and not recorded yet. They must not be settled before: a row that appears before the next relay
    /// starts would not be noticed.
    unrecorded: Vec<(Position, Position)>,
    /// Recorded and not returned by [`add`](Self::add) yet.
    recorded: Vec<(Position, Position)>,
    /// Late rows that were not returned yet, and why each is reported.
    late_rows: Vec<(Position, String)>,
    /// Rows that were reported and are not known to be parked yet.
    reported: Vec<Position>,
    is_changed: bool,
    is_loaded: bool,
    /// The user has no right to use the table `empty_positions`.
    is_denied: bool,
}

impl EmptyPositions {
    /// For the state of a lease.
    pub(super) fn of(subscription: &str, epoch: Epoch) -> Self {
        Self { owner: Some((subscription.to_owned(), epoch)), ..Self::default() }
    }

    /// Adds ranges that were proven empty. Returns those that may be settled, because they are
    /// recorded.
    pub(super) fn add(&mut self, empty: Vec<(Position, Position)>) -> Vec<(Position, Position)> {
        for (first, last) in &empty {
            self.insert(*first, *last);
        }
        if self.owner.is_none() {
            return empty;
        }
        self.unrecorded.extend(empty);
        std::mem::take(&mut self.recorded)
    }

    /// The late rows that were not returned yet, and why each is reported.
    pub(super) fn take_late_rows(&mut self) -> Vec<(Position, String)> {
        std::mem::take(&mut self.late_rows)
    }

    /// Records new ranges and checks for late rows, each if it is due. If this fails, the next call continues: ranges that
    /// are not recorded are not settled, and late rows that were found are still returned.
    pub(super) async fn check(
        &mut self,
        session: &mut Session,
        done: &Intervals,
        now: Duration,
    ) -> Result<()> {
        if !self.unrecorded.is_empty() && is_due(self.recorded_at, RECORD_EVERY, now) {
            self.record(session).await?;
            self.recorded_at = Some(now);
            self.recorded.append(&mut self.unrecorded);
        }
        if !is_due(self.checked_at, CHECK_EVERY, now) {
            return Ok(());
        }
        if !self.is_loaded {
            self.load(session, done).await?;
            self.is_loaded = true;
        }
        self.extend_to_first_event(session).await?;
        let owner = self.owner.as_ref().map_or("", |(name, _)| name.as_str());
        let rows = rows_at(session, &self.ranges, owner).await?;
        // A row that was reported stays in the ranges until it is parked: if the process dies before that is settled, the
        // next owner reports it. Without a lease nothing is parked, and a report is all there is.
        let reported = std::mem::take(&mut self.reported);
        for (position, is_parked) in rows {
            let was_reported = reported.contains(&position);
            if is_parked || was_reported && self.owner.is_none() {
                self.remove(position);
                continue;
            }
            if !was_reported {
                self.late_rows.push((position, reason(position)));
            }
            self.reported.push(position);
        }
        self.record(session).await?;
        self.checked_at = Some(now);
        Ok(())
    }

    /// Loads the recorded ranges, and searches empty positions among the last ones that are done.
    async fn load(&mut self, session: &mut Session, done: &Intervals) -> Result<()> {
        self.floor = done.floor();
        if let Some((name, _)) = &self.owner {
            let sql = "SELECT ranges FROM {schema}.empty_positions WHERE subscription = ?";
            let read = session.autocommit(Access::Reads, sql, params![name.as_str()]).await;
            let rows = self.allowed(read)?;
            if let Some(text) = rows.first().map(|row| get::<String>(row, 0)).transpose()? {
                self.ranges = parsed(&text);
            }
        }
        let last = done.highest().get();
        let first = last.saturating_sub(WINDOW_POSITIONS).max(0) + 1;
        // Index: the primary key (position), one range. One row per gap: the position before it and the position after
        // it.
        let sql = "SELECT before_it, position FROM (
                       SELECT COALESCE(LAG(position) OVER (ORDER BY position), ?) AS before_it, position
                       FROM {schema}.events WHERE position BETWEEN ? AND ?) AS steps
                   WHERE position <> before_it + 1
                   UNION ALL
                   SELECT COALESCE(MAX(position), ?), ? FROM {schema}.events WHERE position BETWEEN ? AND ?";
        let end = last.saturating_add(1);
        let values = params![first - 1, first, last, first - 1, end, first, last];
        for row in session.autocommit(Access::Reads, sql, values).await? {
            let (before, after) = (row::position(&row, 0)?, row::position(&row, 1)?);
            self.insert_done(done, before.next(), after.previous().min(done.highest()));
        }
        Ok(())
    }

    /// Adds the part of a range that is done.
    fn insert_done(&mut self, done: &Intervals, first: Position, last: Position) {
        let mut next = first;
        for (start, end) in done.gaps(last) {
            self.insert(next, start.previous());
            next = next.max(end.next());
        }
        self.insert(next, last);
    }

    /// Adds the positions before the first event, which were deleted or never had an event.
    async fn extend_to_first_event(&mut self, session: &mut Session) -> Result<()> {
        // Index: the primary key (position), its first entry.
        let sql = "SELECT MIN(position) FROM {schema}.events";
        let rows = session.autocommit(Access::Reads, sql, Params::new()).await?;
        let first = rows.first().map(|row| get_opt(row, 0)).transpose()?.flatten().map(Position::new);
        let before = first.map_or(self.floor, Position::previous).min(self.floor);
        self.insert(Position::new(1), before);
        Ok(())
    }

    /// Records the ranges, if the epoch is still current.
    async fn record(&mut self, session: &mut Session) -> Result<()> {
        let is_needed = self.is_changed && !self.is_denied;
        let Some((name, epoch)) = self.owner.as_ref().filter(|_| is_needed) else { return Ok(()) };
        // Index: the primary keys (name) and (subscription).
        let sql = "INSERT INTO {schema}.empty_positions (subscription, ranges)
                   SELECT name, ? FROM {schema}.subscriptions WHERE name = ? AND epoch = ?
                   ON DUPLICATE KEY UPDATE ranges = VALUES(ranges), updated_at = UTC_TIMESTAMP(6)";
        let values = params![self.ranges.to_string(), name.as_str(), epoch.0];
        let written = session.autocommit(Access::Writes, sql, values).await;
        self.allowed(written)?;
        self.is_changed = false;
        Ok(())
    }

    /// A role that was created before the table `empty_positions` has no right to use it. The ranges are then kept only in
    /// memory, and a warning is logged once.
    fn allowed<T: Default>(&mut self, answer: Result<T>) -> Result<T> {
        match answer {
            Err(error) if error.code() == Code::PrivilegeMissing => {
                if !self.is_denied {
                    tracing::warn!(
                        "the relay has no access to the table `empty_positions`: run the script of `postrider migrate roles` again"
                    );
                }
                self.is_denied = true;
                Ok(T::default())
            }
            answer => answer,
        }
    }

    fn insert(&mut self, first: Position, last: Position) {
        self.is_changed |= self.ranges.insert(first, last);
        while self.ranges.len() > RANGES_MAX && self.ranges.remove_first_above(Position::new(1)) {}
    }

    fn remove(&mut self, position: Position) {
        self.is_changed |= self.ranges.remove(position);
    }
}

/// The late rows that are not parked, by subscription.
pub(super) async fn late_rows(session: &mut Session) -> Result<Vec<(String, Vec<Position>)>> {
    // No index: one row per subscription.
    let rows = session
        .autocommit(Access::Reads, "SELECT subscription, ranges FROM {schema}.empty_positions", Params::new())
        .await?;
    let mut found = Vec::new();
    for row in rows {
        let (name, ranges): (String, String) = (get(&row, 0)?, get(&row, 1)?);
        let at = rows_at(session, &parsed(&ranges), &name).await?;
        let at: Vec<Position> =
            at.into_iter().filter(|(_, is_parked)| !is_parked).map(|(at, _)| at).collect();
        if !at.is_empty() {
            found.push((name, at));
        }
    }
    Ok(found)
}

/// The rows in some ranges, and whether the subscription has parked them.
async fn rows_at(
    session: &mut Session,
    ranges: &RangeSet,
    subscription: &str,
) -> Result<Vec<(Position, bool)>> {
    if ranges.len() == 0 {
        return Ok(Vec::new());
    }
    let ranges = within(ranges.ranges().map(|(first, last)| (first.get(), last.get())));
    // Indexes: the primary keys (position), one range each, and (subscription, position).
    let sql = format!(
        "SELECT position, EXISTS (SELECT 1 FROM {{schema}}.parked AS p
                                  WHERE p.subscription = ? AND p.position = e.position)
         FROM {{schema}}.events AS e FORCE INDEX (PRIMARY)
         WHERE {ranges} ORDER BY position LIMIT {ROWS_MAX}"
    );
    let rows = session.autocommit(Access::Reads, &sql, params![subscription]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, get(row, 1)?))).collect()
}

fn is_due(last: Option<Duration>, every: Duration, now: Duration) -> bool {
    last.is_none_or(|last| now.saturating_sub(last) >= every)
}

fn reason(position: Position) -> String {
    format!(
        "position {position} was settled as empty, but now contains an event: its writer chose the position \
         (SET insert_id), or the row was restored. The event was not delivered. To deliver it, set the state \
         of its row in `parked` to 'retry'"
    )
}

/// Parts that cannot be parsed are skipped: the ranges are only a hint, and are computed again.
fn parsed(text: &str) -> RangeSet {
    let mut ranges = RangeSet::default();
    let parts = text.split(' ').filter_map(parse_range).filter(|(first, _)| *first > Position::ZERO);
    for (first, last) in parts.take(RANGES_MAX) {
        ranges.insert(first, last);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(words: &str) -> EmptyPositions {
        EmptyPositions { ranges: parsed(words), ..EmptyPositions::default() }
    }

    #[test]
    fn ranges_are_merged_split_and_recorded() {
        let mut tracked = tracked("1-4 9 20-30");
        let empty = vec![(Position::new(5), Position::new(8)), (Position::new(40), Position::LAST)];
        assert_eq!(tracked.add(empty.clone()), empty);
        tracked.add(vec![(Position::new(21), Position::new(22))]);
        assert_eq!(tracked.ranges.to_string(), "1-9 20-30 40-9223372036854775807");
        tracked.remove(Position::new(20));
        tracked.remove(Position::new(25));
        tracked.remove(Position::new(100));
        tracked.remove(Position::new(15));
        assert_eq!(tracked.ranges.to_string(), "1-9 21-24 26-30 40-99 101-9223372036854775807");
        assert_eq!(parsed(&tracked.ranges.to_string()), tracked.ranges);
        assert_eq!(parsed("x 3 5-4 -7").to_string(), "3");
    }

    #[test]
    fn only_positions_that_are_done_are_tracked() {
        let mut tracked = tracked("");
        tracked.insert_done(&"4 8-12".parse().unwrap(), Position::new(3), Position::new(20));
        assert_eq!(tracked.ranges.to_string(), "3-4 8-12");
    }

    #[test]
    fn of_too_many_ranges_the_lowest_are_dropped_except_the_first() {
        let mut tracked = tracked("1-5");
        for index in 0..RANGES_MAX as i64 {
            tracked.insert(Position::new(10 + 3 * index), Position::new(10 + 3 * index));
        }
        assert_eq!(tracked.ranges.len(), RANGES_MAX);
        assert!(tracked.ranges.contains(Position::new(1)) && !tracked.ranges.contains(Position::new(10)));
    }
}
