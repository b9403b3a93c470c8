//! No loss: at the end, every committed event was delivered or is parked.

use super::{Check, Observation, Promise, View};

/// After a restore, the history checker checks the same instead.
#[derive(Debug, Default)]
pub(super) struct NoLoss {
    restored: bool,
}

impl Check for NoLoss {
    fn promise(&self) -> Promise {
        Promise::NoLoss
    }

    fn observe(&mut self, _: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        self.restored |= matches!(observed, Observation::Restored { .. });
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        if self.restored { Ok(()) } else { nothing_missing(view) }
    }
}

/// Every event of every subscription that is not halted was delivered or is parked.
pub(super) fn nothing_missing(view: &View<'_>) -> Result<(), String> {
    for subscription in view.subscriptions() {
        if view.rows(subscription).halted.is_some() || view.full[subscription] {
            continue;
        }
        let lost: Vec<String> =
            view.missing(subscription).map(|(_, event)| view.written_events.of(event).to_string()).collect();
        if !lost.is_empty() {
            return Err(format!("s{subscription} never delivered {}", lost.join(" ")));
        }
    }
    Ok(())
}
