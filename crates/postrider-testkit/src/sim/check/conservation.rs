//! Conservation: every settle accounts for every position it marks as done.

use std::collections::BTreeSet;

use postrider::Position;
use postrider::ledger::{Intervals, ParkedRow, ParkedState};
use postrider::store::Settlement;

use super::super::scenario::TopicRoute;
use super::super::written::WrittenEvents;
use super::{Check, Observation, Promise, View};

/// A position becomes done because its event was delivered, parked or filtered, or because it is empty. A row is
/// unparked because its event was delivered. A position that is done stays done.
#[derive(Debug)]
pub(super) struct Conservation {
    before: Vec<Account>,
    /// The rows and the events belong to different histories, so they cannot be compared.
    void: bool,
}

#[derive(Debug, Clone, Default)]
struct Account {
    done: Intervals,
    parked: BTreeSet<Position>,
}

impl Account {
    fn of(view: &View<'_>, subscription: usize) -> Self {
        let rows = view.rows(subscription);
        Self { done: rows.progress.done.clone(), parked: rows.parked.keys().copied().collect() }
    }
}

impl Conservation {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self { before: vec![Account::default(); subscriptions], void: false }
    }

    fn settled(
        &mut self,
        view: &View<'_>,
        subscription: usize,
        settlement: &Settlement,
    ) -> Result<(), String> {
        let after = Account::of(view, subscription);
        let before = std::mem::replace(&mut self.before[subscription], after.clone());
        if after.done != settlement.done {
            return Err(format!("s{subscription}: settled {}, the row says {}", settlement.done, after.done));
        }
        let is_forgotten = |position: Position| {
            let event = view.database.log.get(position);
            // Retention may have deleted it since.
            event.is_none_or(|event| view.forgotten[subscription].contains(&WrittenEvents::number(event)))
        };
        let kept = |row: &&ParkedRow| !after.parked.contains(&row.position) && !is_forgotten(row.position);
        if let Some(row) = settlement.park.iter().find(kept) {
            return Err(format!("s{subscription}: #{} was to be parked and is not", row.position));
        }
        settlement.park.iter().try_for_each(|row| is_truthful(view, subscription, row))?;
        if let Some((start, _)) = after.done.gaps(before.done.highest()).first()
            && before.done.contains(*start)
        {
            return Err(format!("s{subscription}: #{start} was done and is not any more"));
        }
        let added = before.done.gaps(after.done.highest());
        let added = added.into_iter().flat_map(|(start, end)| start.get()..=end.get()).map(Position::new);
        for position in added.filter(|position| after.done.contains(*position)) {
            accounted(view, subscription, position, &after)?;
        }
        for position in before.parked.difference(&after.parked) {
            accounted(view, subscription, *position, &after)?;
        }
        match after.parked.iter().find(|position| !after.done.contains(**position)) {
            Some(position) => Err(format!("s{subscription}: #{position} is parked and not done")),
            None => Ok(()),
        }
    }
}

/// Whether the state of a parked row is true for its event.
fn is_truthful(view: &View<'_>, subscription: usize, row: &ParkedRow) -> Result<(), String> {
    let Some(event) = view.database.log.get(row.position) else { return Ok(()) };
    let written = WrittenEvents::number(event);
    let fine = match row.state {
        ParkedState::Expired => view.written_events.get(written).expires,
        ParkedState::Unrouted => view.topic_route(subscription, written) == TopicRoute::Unrouted,
        _ => true,
    };
    let state = row.state.as_str();
    if fine {
        Ok(())
    } else {
        Err(format!("s{subscription}: {} is not {state}", view.written_events.get(written)))
    }
}

fn accounted(
    view: &View<'_>,
    subscription: usize,
    position: Position,
    after: &Account,
) -> Result<(), String> {
    let Some(event) = view.database.log.get(position) else {
        if view.database.log.is_empty_at(position) {
            return Ok(());
        }
        return Err(format!("s{subscription}: #{position} is done and its transaction is open"));
    };
    let written = WrittenEvents::number(event);
    let fine = view.times_delivered(subscription, written) > 0
        || after.parked.contains(&position)
        || view.forgotten[subscription].contains(&written)
        || view.topic_route(subscription, written) == TopicRoute::Filtered;
    if fine {
        Ok(())
    } else {
        Err(format!("s{subscription}: {} is done without a reason", view.written_events.get(written)))
    }
}

impl Check for Conservation {
    fn promise(&self) -> Promise {
        Promise::Conservation
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        match *observed {
            Observation::Settled { owner, settlement } if !self.void => {
                return self.settled(view, owner.subscription(), settlement);
            }
            Observation::Restored { whole } => {
                self.void |= !whole;
                self.before = view.subscriptions().map(|number| Account::of(view, number)).collect();
            }
            Observation::Accepted { subscription } | Observation::Operated { subscription } => {
                self.before[subscription] = Account::of(view, subscription)
            }
            _ => {}
        }
        Ok(())
    }
}
