//! The whole database: events, subscriptions, and the operations that use both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{Intervals, LastSeen, Progress};
use postrider::operate::AuditEntry;
use postrider::store::{Acquired, Epoch, LeaseRequest, Renewed, Settled, Settlement, Start};
use postrider::{Code, Error, Event, Position, Result};

use super::{Log, MemorySubscription};

/// A database in memory. A clone is a backup of the whole database; [`Log::backup`] is a backup of the events.
#[derive(Debug, Clone, Default)]
pub struct MemoryOutbox {
    /// The events.
    pub log: Log,
    subscriptions: BTreeMap<String, MemorySubscription>,
    /// The audit trail.
    pub(super) audit: Vec<AuditEntry>,
}

/// The result of [`MemoryOutbox::fetch`]. A position in neither list did not fit into the budget.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The events found.
    pub events: Vec<(Position, Arc<Event>)>,
    /// Positions that no longer have an event.
    pub gone: Vec<Position>,
}

impl MemoryOutbox {
    /// Creates a subscription; see `Store::subscribe`.
    pub fn subscribe(&mut self, name: &str, start: Start) -> bool {
        if self.subscriptions.contains_key(name) {
            return false;
        }
        let progress = self.progress_from(start);
        self.subscriptions
            .insert(name.to_owned(), MemorySubscription { progress, ..MemorySubscription::default() });
        true
    }

    /// The rows of a subscription.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn subscription(&self, name: &str) -> Result<&MemorySubscription> {
        self.subscriptions.get(name).ok_or_else(|| unknown(name))
    }

    /// All subscriptions by name.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = (&str, &MemorySubscription)> {
        self.subscriptions.iter().map(|(name, subscription)| (name.as_str(), subscription))
    }

    /// Deletes a subscription.
    pub(super) fn remove(&mut self, name: &str) {
        self.subscriptions.remove(name);
    }

    /// The rows of a subscription, to change.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn subscription_mut(&mut self, name: &str) -> Result<&mut MemorySubscription> {
        self.subscriptions.get_mut(name).ok_or_else(|| unknown(name))
    }

    /// Takes the lease at the database's time `now`; see `Store::acquire`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn acquire(&mut self, request: &LeaseRequest, now: Duration) -> Result<Acquired> {
        Ok(self.subscription_mut(&request.subscription)?.acquire(request, now))
    }

    /// Extends the lease; see `Store::renew`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn renew(&mut self, request: &LeaseRequest, epoch: Epoch, now: Duration) -> Result<Renewed> {
        Ok(self.subscription_mut(&request.subscription)?.renew(request, epoch, now))
    }

    /// Releases the lease; see `Store::release`.
    pub fn release(&mut self, name: &str, epoch: Epoch, clean: bool) {
        if let Some(subscription) = self.subscriptions.get_mut(name) {
            subscription.release(epoch, clean);
        }
    }

    /// Records progress; see `Store::settle`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn settle(&mut self, settlement: Settlement) -> Result<Settled> {
        let name = &settlement.subscription;
        let subscription = self.subscriptions.get_mut(name).ok_or_else(|| unknown(name))?;
        Ok(subscription.settle(settlement, &self.log))
    }

    /// Pauses the subscription as its owner; see `Store::pause_as_owner`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn pause_as_owner(&mut self, name: &str, epoch: Epoch, reason: &str) -> Result<Settled> {
        Ok(self.subscription_mut(name)?.pause_as_owner(epoch, reason))
    }

    /// Halts the subscription as its owner; see `Store::halt`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn halt(&mut self, name: &str, epoch: Epoch, reason: &str) -> Result<Settled> {
        Ok(self.subscription_mut(name)?.halt(epoch, reason))
    }

    /// Reads events again by position, in the requested order; see `Store::fetch`.
    pub fn fetch(&self, positions: &[Position], bytes_max: usize) -> Found {
        let (mut found, mut bytes) = (Found::default(), 0);
        for position in positions {
            let event = self.log.get(*position).filter(|_| !self.log.is_unreadable(*position));
            let Some(event) = event else {
                found.gone.push(*position);
                continue;
            };
            bytes += event.size_bytes();
            if bytes > bytes_max && !found.events.is_empty() {
                break;
            }
            found.events.push((*position, event.clone()));
        }
        found
    }

    /// Accepts the current state of the database; see `Store::accept_history`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    pub fn accept_history(&mut self, name: &str, start: Start) -> Result<()> {
        let progress = self.progress_from(start);
        let subscription = self.subscriptions.get_mut(name).ok_or_else(|| unknown(name))?;
        subscription.begin(progress, &self.log);
        Ok(())
    }

    /// Restores the backup. Open transactions are aborted.
    pub fn restore(&mut self, backup: &Self) {
        self.log.restore(&backup.log);
        self.subscriptions.clone_from(&backup.subscriptions);
    }

    fn progress_from(&self, start: Start) -> Progress {
        match start {
            Start::Beginning => Progress::default(),
            Start::Position(first) => self.progress_below(first),
            Start::Time(time) => {
                let first = self.log.visible().find(|(_, event)| event.time >= time);
                first.map_or_else(|| self.progress_now(), |(position, _)| self.progress_below(position))
            }
            // `Start::Now`: the enum may grow.
            _ => self.progress_now(),
        }
    }

    fn progress_below(&self, first: Position) -> Progress {
        Progress { done: Intervals::up_to(first.previous().max(Position::ZERO)), ..Progress::default() }
    }

    /// Positions of open transactions may still get an event. All others are visible or permanently empty, and
    /// therefore done.
    fn progress_now(&self) -> Progress {
        let (mut done, mut first) = (Intervals::default(), Position::new(1));
        for open in self.log.open() {
            done.insert_range(first, open.previous());
            first = open.next();
        }
        done.insert_range(first, self.log.sequence());
        let highest =
            self.log.visible().next_back().map(|(position, event)| LastSeen { position, id: event.id });
        Progress { done, highest, trial: None }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(Code::SubscriptionUnknown, format!("subscription {name:?} does not exist"))
}
