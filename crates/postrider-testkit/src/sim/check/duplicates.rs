//! Bounded duplicates: none without a fault, and no more than each fault allows.

use postrider::sink::Outcome;

use super::{Check, Observation, Promise, View};

/// Compares the number of duplicates with what the faults so far allow.
#[derive(Debug)]
pub(super) struct Duplicates {
    subscriptions: Vec<Count>,
}

#[derive(Debug, Clone, Default)]
struct Count {
    duplicates: u64,
    allowed: u64,
    granted: bool,
    /// After a restore, every event since the backup may be delivered again.
    unbounded: bool,
}

impl Duplicates {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self { subscriptions: vec![Count::default(); subscriptions] }
    }
}

impl Check for Duplicates {
    fn promise(&self) -> Promise {
        Promise::Duplicates
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        let window = |subscription: usize| view.plan(subscription).policy.window_events_max as u64;
        match *observed {
            Observation::Granted { owner, clean, .. } => {
                let subscription = owner.subscription();
                let count = &mut self.subscriptions[subscription];
                if std::mem::replace(&mut count.granted, true) && !clean {
                    count.allowed += window(subscription);
                }
            }
            Observation::Thawed => {
                for (subscription, count) in self.subscriptions.iter_mut().enumerate() {
                    count.allowed += window(subscription);
                }
            }
            Observation::Answered { owner, answers } => {
                let ambiguous = answers.iter().filter(|a| matches!(a.outcome, Outcome::Ambiguous(_))).count();
                self.subscriptions[owner.subscription()].allowed += ambiguous as u64;
            }
            Observation::Replayed { subscription, events } => {
                self.subscriptions[subscription].allowed += events;
            }
            Observation::Restored { .. } => {
                self.subscriptions.iter_mut().for_each(|count| count.unbounded = true)
            }
            Observation::Accepted { subscription } => self.subscriptions[subscription].unbounded = true,
            Observation::Delivered { owner, written }
                if view.times_delivered(owner.subscription(), written) > 1 =>
            {
                let subscription = owner.subscription();
                let count = &mut self.subscriptions[subscription];
                count.duplicates += 1;
                if count.duplicates > count.allowed && !count.unbounded {
                    return Err(format!(
                        "s{subscription} delivered {} again: duplicate {} where {} are allowed",
                        view.written_events.get(written),
                        count.duplicates,
                        count.allowed
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
