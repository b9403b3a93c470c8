//! Fencing: a settle, a halt and a pause take effect only with the last epoch that was given.

use postrider::store::Epoch;

use super::{Check, Promise, Seen, View};

#[derive(Debug)]
pub(super) struct Fencing {
    last: Vec<Epoch>,
}

impl Fencing {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self { last: vec![Epoch::default(); subscriptions] }
    }
}

impl Check for Fencing {
    fn promise(&self) -> Promise {
        Promise::Fencing
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::Granted { owner, epoch, .. } => self.last[owner.seat.subscription] = epoch,
            // The restored rows bring their own epochs; accepting a history makes a new one.
            Seen::Restored { .. } | Seen::Accepted { .. } => {
                for subscription in view.subscriptions() {
                    self.last[subscription] = view.rows(subscription).epoch;
                }
            }
            Seen::Settled { owner, settlement } => {
                let last = self.last[owner.seat.subscription];
                if settlement.epoch != last {
                    return Err(format!(
                        "{owner} settled with epoch {}, the last is {}",
                        settlement.epoch.0, last.0
                    ));
                }
            }
            Seen::Stopped { owner, epoch } => {
                let last = self.last[owner.seat.subscription];
                if epoch < last {
                    return Err(format!("{owner} stopped it with epoch {}, the last is {}", epoch.0, last.0));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
