//! No loss: at the end every committed event was delivered, or lies parked where people see it.

use super::{Check, Promise, Seen, View};

/// After a restore the history checker asks the same question.
#[derive(Debug, Default)]
pub(super) struct NoLoss {
    restored: bool,
}

impl Check for NoLoss {
    fn promise(&self) -> Promise {
        Promise::NoLoss
    }

    fn observe(&mut self, _: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        self.restored |= matches!(seen, Seen::Restored { .. });
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        if self.restored { Ok(()) } else { nothing_missing(view) }
    }
}

/// Every event of every subscription that runs has arrived or is parked.
pub(super) fn nothing_missing(view: &View<'_>) -> Result<(), String> {
    for subscription in view.subscriptions() {
        if view.rows(subscription).halted.is_some() || view.full[subscription] {
            continue;
        }
        let lost: Vec<String> =
            view.missing(subscription).map(|(_, event)| view.facts.of(event).to_string()).collect();
        if !lost.is_empty() {
            return Err(format!("s{subscription} never delivered {}", lost.join(" ")));
        }
    }
    Ok(())
}
