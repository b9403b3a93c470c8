//! The state of an outbox, for operators.

use std::collections::HashMap;
use std::time::Duration;

use super::{Epoch, RelayOverview, RetentionHold};
use crate::ledger::{LastSeen, ParkedRow, ParkedState};
use crate::{Position, Timestamp};

/// The number of different errors that are reported per subscription.
const ERRORS_MAX: usize = 3;

/// All subscriptions of an outbox, in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Overview {
    /// The time of the snapshot, on the database's clock.
    pub now: Timestamp,
    /// The highest position ever taken, whether or not its event still exists.
    pub last: Position,
    /// The time of the first event that still exists.
    pub oldest: Option<Timestamp>,
    /// The last event and its time.
    pub newest: Option<(LastSeen, Timestamp)>,
    /// When the oldest open transaction of the database began, if there is one. `None` if the database has no such list,
    /// or this user may not read it.
    pub oldest_transaction: Option<Option<Timestamp>>,
    /// By name.
    pub subscriptions: Vec<SubscriptionOverview>,
}

impl Overview {
    /// The subscription that prevents the deletion of events older than this, if there is one.
    pub fn held_back(&self, older_than: Duration) -> Option<RetentionHold> {
        // A halted subscription needs every event; see `LogTx::purge_bounds`.
        let needs_above = |of: &SubscriptionOverview| match of.halted {
            Some(_) => (Position::ZERO, self.oldest),
            None => (of.floor, of.backlog.oldest),
        };
        let lowest = self.subscriptions.iter().min_by_key(|subscription| needs_above(subscription).0)?;
        let (floor, oldest) = needs_above(lowest);
        let oldest = oldest.filter(|time| time.until(self.now) > older_than)?;
        Some(RetentionHold { subscription: lowest.name.clone(), floor, oldest })
    }
}

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SubscriptionOverview {
    /// Its name.
    pub name: String,
    /// The epoch of its last owner.
    pub epoch: Epoch,
    /// Every position up to this one is done.
    pub floor: Position,
    /// The events that are neither done nor parked.
    pub backlog: Backlog,
    /// Its parked rows.
    pub parked: ParkedOverview,
    /// Its lease, expired or not.
    pub lease: Option<LeaseOverview>,
    /// The relays that own it or are on standby, by their last reports; see [`Store::report`](super::Store::report).
    pub relays: Vec<RelayOverview>,
    /// The last owner released the lease cleanly. False while there is an owner.
    pub clean: bool,
    /// The reason of the operator's pause, if there is one.
    pub paused: Option<String>,
    /// Why it is halted, if it is.
    pub halted: Option<String>,
}

impl SubscriptionOverview {
    /// The time of the oldest event that may still be delivered.
    pub fn oldest(&self) -> Option<Timestamp> {
        [self.backlog.oldest, self.parked.oldest].into_iter().flatten().min()
    }

    /// The relay that holds the lease now.
    pub fn leader(&self, now: Timestamp) -> Option<&LeaseOverview> {
        self.lease.as_ref().filter(|lease| lease.expires_at > now)
    }

    /// What it does now.
    pub fn state(&self, now: Timestamp) -> SubscriptionState<'_> {
        match (&self.halted, &self.paused, self.leader(now)) {
            (Some(reason), _, _) => SubscriptionState::Halted(reason),
            (None, Some(reason), _) => SubscriptionState::Paused(reason),
            (None, None, Some(lease)) => SubscriptionState::Leading(lease),
            (None, None, None) => SubscriptionState::NoRelay,
        }
    }
}

/// What a subscription does. A halt or a pause takes precedence over the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionState<'a> {
    /// The history of its database changed, for this reason; it waits for an operator.
    Halted(&'a str),
    /// An operator paused it, for this reason.
    Paused(&'a str),
    /// A relay serves it.
    Leading(&'a LeaseOverview),
    /// No relay serves it.
    NoRelay,
}

/// Events that are neither done nor parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// How many there are, counted up to a limit.
    pub events: u64,
    /// Counting stopped at the limit: there are more.
    pub more: bool,
    /// The lowest of their positions.
    pub first: Option<Position>,
    /// The time of the event there.
    pub oldest: Option<Timestamp>,
}

/// Parked rows, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ParkedOverview {
    /// How many are in each state, in the order of [`ParkedState::ALL`].
    counts: [u64; ParkedState::ALL.len()],
    /// The rows in state `behind` that wait for a dead event of their key.
    pub behind_dead: u64,
    /// The rows in state `behind` that wait for an unrouted event of their key.
    pub behind_unrouted: u64,
    /// Counting stopped at a limit, at the rows with the lowest positions: there may be more.
    pub more: bool,
    /// The lowest position that may still be delivered.
    pub first: Option<Position>,
    /// The time of the event there.
    pub oldest: Option<Timestamp>,
    /// The last few different errors, that of the highest position first.
    pub errors: Vec<String>,
}

impl ParkedOverview {
    /// The number of rows in a state.
    pub fn count(&self, state: ParkedState) -> u64 {
        ParkedState::ALL.iter().zip(self.counts).find(|(known, _)| **known == state).map_or(0, |(_, n)| n)
    }

    /// The error at the highest position that has one.
    pub fn last_error(&self) -> Option<&str> {
        self.errors.first().map(String::as_str)
    }

    /// Adds rows in a state; `lowest` is the lowest of their positions.
    #[cfg(feature = "_store")]
    pub(super) fn add(&mut self, state: ParkedState, rows: u64, lowest: Position) {
        for (_, count) in ParkedState::ALL.iter().zip(&mut self.counts).filter(|(known, _)| **known == state)
        {
            *count += rows;
        }
        if !state.is_final() && rows > 0 {
            self.first = Some(self.first.map_or(lowest, |first| first.min(lowest)));
        }
    }

    /// Adds an error of a lower position than the others, if it is new and there is room.
    #[cfg(feature = "_store")]
    pub(super) fn add_older_error(&mut self, error: String) {
        if self.errors.len() < ERRORS_MAX && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// The number of rows, including final ones.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl FromIterator<ParkedRow> for ParkedOverview {
    /// Counts rows in the order of their positions. The caller sets `oldest`, which needs the events.
    fn from_iter<I: IntoIterator<Item = ParkedRow>>(rows: I) -> Self {
        let mut overview = Self::default();
        let mut blocking: HashMap<String, ParkedState> = HashMap::new();
        for row in rows {
            for (_, count) in
                ParkedState::ALL.iter().zip(&mut overview.counts).filter(|(state, _)| **state == row.state)
            {
                *count += 1;
            }
            if !row.state.is_final() {
                overview.first = overview.first.or(Some(row.position));
            }
            if let Some(error) = row.last_error {
                overview.errors.retain(|known| *known != error);
                overview.errors.insert(0, error);
                overview.errors.truncate(ERRORS_MAX);
            }
            match (row.state, row.key) {
                (ParkedState::Behind, Some(key)) => match blocking.get(&key) {
                    Some(ParkedState::Dead) => overview.behind_dead += 1,
                    Some(_) => overview.behind_unrouted += 1,
                    None => {}
                },
                (state @ (ParkedState::Dead | ParkedState::Unrouted), Some(key)) => {
                    blocking.insert(key, state);
                }
                _ => {}
            }
        }
        overview
    }
}

/// The lease of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOverview {
    /// The relay.
    pub holder: String,
    /// When it expires unless renewed, on the database's clock.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: i64, key: &str, state: ParkedState) -> ParkedRow {
        let last_error = (state == ParkedState::Dead).then(|| format!("refused {position}"));
        ParkedRow {
            position: Position::new(position),
            key: Some(key.to_owned()),
            destination: None,
            state,
            attempts: 1,
            next_attempt_at: None,
            last_error,
            redelivery: None,
        }
    }

    #[test]
    fn parked_rows_are_counted_by_state_and_by_the_row_they_wait_for() {
        use ParkedState::{Behind, Dead, Retry, Unrouted};
        let rows = [
            row(1, "a", Dead),
            row(2, "b", Retry),
            row(3, "a", Behind),
            row(4, "b", Behind),
            row(5, "c", Unrouted),
            row(6, "c", Behind),
            row(7, "d", Dead),
        ];
        let overview: ParkedOverview = rows.into_iter().collect();
        let counts: Vec<u64> = ParkedState::ALL.iter().map(|state| overview.count(*state)).collect();
        assert_eq!((counts, overview.total()), (vec![1, 3, 0, 2, 0, 1], 7));
        assert_eq!((overview.behind_dead, overview.behind_unrouted), (1, 1));
        assert_eq!(overview.first, Some(Position::new(2)));
        assert_eq!(overview.errors, ["refused 7", "refused 1"]);
    }
}
