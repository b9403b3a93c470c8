//! Liveness: after the faults have stopped, all relays become idle in bounded time.

use postrider::Position;
use postrider::ledger::{ParkedRow, ParkedState};
use postrider::relay::OnDead;

use super::{Check, Observation, Promise, View};

#[derive(Debug)]
pub(super) struct Liveness;

impl Check for Liveness {
    fn promise(&self) -> Promise {
        Promise::Liveness
    }

    fn observe(&mut self, _: &View<'_>, _: &Observation<'_>) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        view.subscriptions().try_for_each(|subscription| match unsettled(view, subscription) {
            Some(what) => Err(format!("s{subscription} is not idle at {:?}: {what}", view.now)),
            None => Ok(()),
        })
    }
}

/// Why a subscription is not idle; `None` if it is. It is idle if it is halted, or if every committed event is done and
/// every row that is still parked needs an operator.
pub(crate) fn unsettled(view: &View<'_>, subscription: usize) -> Option<String> {
    let rows = view.rows(subscription);
    if rows.halted.is_some() {
        return None;
    }
    let waits = |row: &&ParkedRow| !needs_operator(view, subscription, row);
    if let Some(row) = rows.parked.values().find(waits) {
        return Some(format!("#{} is parked as {}", row.position, row.state.as_str()));
    }
    if view.full[subscription] {
        return None;
    }
    if let Some((position, _)) = view.missing(subscription).next() {
        return Some(format!("#{position} is not delivered, progress {}", rows.progress.done));
    }
    let open = view.database.log.visible().find(|(position, _)| !rows.progress.done.contains(*position));
    open.map(|(position, _)| format!("#{position} is not done, progress {}", rows.progress.done))
}

/// Whether the row stays as it is until an operator changes it.
fn needs_operator(view: &View<'_>, subscription: usize, row: &ParkedRow) -> bool {
    let blocks = |other: &ParkedRow| match other.state {
        ParkedState::Unrouted => true,
        ParkedState::Dead => view.plan(subscription).policy.on_dead == OnDead::Block,
        _ => false,
    };
    match row.state {
        ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted => true,
        // An operator may have retried an event behind another one of its key.
        ParkedState::Behind | ParkedState::Retry => {
            let before = view.rows(subscription).parked.range(..row.position);
            row.key.is_some()
                && before.map(|(_, other): (&Position, _)| other).any(|o| o.key == row.key && blocks(o))
        }
        // Held: the relay must act. So must it in a state that this check does not know.
        _ => false,
    }
}
