//! Fencing: the database accepts a settle, a halt and a pause only with the last epoch that it granted.

use postrider::store::Epoch;

use super::{Check, Observation, Promise, View};

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

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        match *observed {
            Observation::Granted { owner, epoch, .. } => self.last[owner.subscription()] = epoch,
            // The restored rows contain older epochs; accepting a history assigns a new one.
            Observation::Restored { .. } | Observation::Accepted { .. } => {
                for subscription in view.subscriptions() {
                    self.last[subscription] = view.rows(subscription).epoch;
                }
            }
            Observation::Settled { owner, settlement } => {
                let last = self.last[owner.subscription()];
                if settlement.epoch != last {
                    return Err(format!(
                        "{owner} settled with epoch {}, the last is {}",
                        settlement.epoch.0, last.0
                    ));
                }
            }
            Observation::Stopped { owner, epoch } => {
                let last = self.last[owner.subscription()];
                if epoch < last {
                    return Err(format!("{owner} stopped it with epoch {}, the last is {}", epoch.0, last.0));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
