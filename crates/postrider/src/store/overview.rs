//! What an outbox looks like from outside, for people who ask how it is doing.

use std::collections::HashMap;
use std::time::Duration;

use super::{Epoch, RelayOverview, RetentionHold};
use crate::ledger::{Mark, ParkedRow, ParkedState};
use crate::{Position, Timestamp};

/// Different errors that are shown of one subscription at most.
const ERRORS_MAX: usize = 3;

/// All subscriptions of an outbox, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// That moment, on the database's clock.
    pub now: Timestamp,
    /// The highest position ever given, whether its event is still there or not.
    pub last: Position,
    /// When the first event that is still there says it happened.
    pub oldest: Option<Timestamp>,
    /// The last event and when it says it happened.
    pub newest: Option<(Mark, Timestamp)>,
    /// By name.
    pub subscriptions: Vec<SubscriptionOverview>,
}

impl Overview {
    /// The subscription that keeps events from being deleted that happened longer ago than this, if one does.
    pub fn held_back(&self, older_than: Duration) -> Option<RetentionHold> {
        // A halted one needs every event there is; see `trim`.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionOverview {
    /// Its name.
    pub name: String,
    /// Its last owner's right.
    pub epoch: Epoch,
    /// All up to here is done.
    pub floor: Position,
    /// What waits to be read.
    pub backlog: Backlog,
    /// What was set aside.
    pub parked: ParkedOverview,
    /// Its owner, expired or not.
    pub lease: Option<LeaseOverview>,
    /// The relays that serve it or stand by, as they said lately; see [`Store::report`](super::Store::report).
    pub relays: Vec<RelayOverview>,
    /// Whether the last owner released the lease cleanly. While there is an owner, it has not.
    pub clean: bool,
    /// The operator's pause, with its reason.
    pub paused: Option<String>,
    /// Why it waits for an operator.
    pub halted: Option<String>,
}

impl SubscriptionOverview {
    /// The time of the oldest event that is not delivered and still may be.
    pub fn oldest(&self) -> Option<Timestamp> {
        [self.backlog.oldest, self.parked.oldest].into_iter().flatten().min()
    }

    /// The relay that holds the lease now.
    pub fn leader(&self, now: Timestamp) -> Option<&LeaseOverview> {
        self.lease.as_ref().filter(|lease| lease.expires_at > now)
    }
}

/// Events that are neither done nor parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// How many, as far as was counted.
    pub events: u64,
    /// There are more: counting stopped at the limit.
    pub more: bool,
    /// The lowest position among them.
    pub first: Option<Position>,
    /// When the event there happened.
    pub oldest: Option<Timestamp>,
}

/// Parked rows, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParkedOverview {
    /// How many are in each state, in the order of [`ParkedState::ALL`].
    counts: [u64; ParkedState::ALL.len()],
    /// Of those in `behind`, how many have a dead event of their key before them.
    pub behind_dead: u64,
    /// Of those in `behind`, how many have an unrouted event of their key before them.
    pub behind_unrouted: u64,
    /// The lowest position that may still be delivered.
    pub first: Option<Position>,
    /// When the event there happened.
    pub oldest: Option<Timestamp>,
    /// What failures said, each text once and that of the highest position first; the newest few.
    pub errors: Vec<String>,
}

impl ParkedOverview {
    /// How many are in a state.
    pub fn count(&self, state: ParkedState) -> u64 {
        ParkedState::ALL.iter().zip(self.counts).find(|(known, _)| **known == state).map_or(0, |(_, n)| n)
    }

    /// What the failure at the highest position said, of those that said something.
    pub fn last_error(&self) -> Option<&str> {
        self.errors.first().map(String::as_str)
    }

    /// How many there are, final ones included.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl FromIterator<ParkedRow> for ParkedOverview {
    /// Counts rows given by ascending position. `oldest` is left for who knows the events.
    fn from_iter<I: IntoIterator<Item = ParkedRow>>(rows: I) -> Self {
        let mut overview = Self::default();
        let mut in_front: HashMap<String, ParkedState> = HashMap::new();
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
                (ParkedState::Behind, Some(key)) => match in_front.get(&key) {
                    Some(ParkedState::Dead) => overview.behind_dead += 1,
                    Some(_) => overview.behind_unrouted += 1,
                    None => {}
                },
                (state @ (ParkedState::Dead | ParkedState::Unrouted), Some(key)) => {
                    in_front.insert(key, state);
                }
                _ => {}
            }
        }
        overview
    }
}

/// Who owns a subscription, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOverview {
    /// The relay.
    pub holder: String,
    /// When it ends unless renewed, on the database's clock.
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
        }
    }

    #[test]
    fn parked_rows_are_counted_by_state_and_by_what_is_in_front_of_them() {
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
        let counts = ParkedState::ALL.map(|state| overview.count(state));
        assert_eq!((counts, overview.total()), ([1, 3, 0, 2, 0, 1], 7));
        assert_eq!((overview.behind_dead, overview.behind_unrouted), (1, 1));
        assert_eq!(overview.first, Some(Position::new(2)));
        assert_eq!(overview.errors, ["refused 7", "refused 1"]);
    }
}
