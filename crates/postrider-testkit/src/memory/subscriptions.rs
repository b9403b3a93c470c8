//! Creating, moving and removing subscriptions.

use postrider::ledger::Intervals;
use postrider::operate::{ParkedCount, SubscriptionAction, SubscriptionChange, SubscriptionPlan};
use postrider::store::Start;
use postrider::{Code, Error, Now, Position, Result};

use super::MemoryOutbox;

impl MemoryOutbox {
    /// See `Store::plan_subscription`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn plan_subscription(&self, name: &str, start: Start) -> Result<SubscriptionPlan> {
        let old = self.subscription(name)?.progress.done.clone();
        let mut moved = self.clone();
        moved.accept_history(name, start)?;
        let new = moved.subscription(name)?.progress.done.clone();
        let count = |set: &Intervals, other: &Intervals| {
            let events =
                self.log.visible().filter(|(at, _)| set.contains(*at) && !other.contains(*at)).count();
            ParkedCount::up_to(events as u64, 100_000)
        };
        Ok(SubscriptionPlan::new(count(&new, &old), count(&old, &new)))
    }

    /// See `Store::change_subscription`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`], [`Code::LeaseHeld`], [`Code::HistoryChanged`]
    pub fn change_subscription(&mut self, change: &SubscriptionChange, now: Now) -> Result<bool> {
        let name = change.subscription.as_str();
        let old = self.subscription(name).map(|of| of.progress.done.clone()).unwrap_or_default();
        match change.action {
            SubscriptionAction::Add(start) => {
                if !self.subscribe(name, start) {
                    return Ok(false);
                }
            }
            SubscriptionAction::Move(start) => {
                if self.subscription(name)?.halted.is_some() {
                    return Err(Error::new(Code::HistoryChanged, "it is halted"));
                }
                self.accept_history(name, start)?;
            }
            SubscriptionAction::AcceptHistory(start) => self.accept_history(name, start)?,
            _ => {
                if self.subscription(name)?.lease.as_ref().is_some_and(|lease| lease.until > now.elapsed) {
                    return Err(Error::new(Code::LeaseHeld, "a relay leads it"));
                }
                self.remove(name);
            }
        }
        let done = self.subscription(name).map(|of| of.progress.done.clone()).unwrap_or_default();
        let skipped = (1..=done.highest().get()).map(Position::new);
        let skipped: Vec<String> =
            skipped.filter(|at| done.contains(*at) && !old.contains(*at)).map(|at| at.to_string()).collect();
        self.record_audit(name, &change.audit, 0, skipped.join(" "), now.wall);
        Ok(true)
    }
}
