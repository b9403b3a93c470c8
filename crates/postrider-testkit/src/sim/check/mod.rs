//! The checkers: one per promise. They observe the simulation from outside.

mod conservation;
mod duplicates;
mod fencing;
mod history;
mod isolation;
mod liveness;
mod loss;
mod memory;
mod order;
mod outage;
mod phantom;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider::{Event, Position};

use super::observation::Observation;
use super::scenario::{Scenario, SubscriptionPlan, TopicRoute};
use super::written::WrittenEvents;
use crate::memory::{MemoryOutbox, MemorySubscription};

/// A promise that a checker verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Every committed event is delivered or visibly parked.
    NoLoss,
    /// Nothing uncommitted is published.
    NoPhantom,
    /// No event is delivered for the first time after a later event with the same key.
    Order,
    /// Duplicates stay within what the faults allow.
    Duplicates,
    /// Events in flight or acknowledged but unsettled stay within the window.
    Window,
    /// Events in memory stay within the read-ahead and a batch.
    Memory,
    /// A previous owner cannot settle.
    Fencing,
    /// A position becomes done only because its event was delivered, parked or filtered, or because it is empty.
    Conservation,
    /// After the faults, all relays become idle.
    Liveness,
    /// A failing key or destination does not delay the others.
    Isolation,
    /// An outage does not count as an attempt.
    Outage,
    /// After a restore, no event of the restored database is skipped.
    History,
}

/// What a checker can read.
pub(crate) struct View<'a> {
    pub(crate) now: Duration,
    pub(crate) scenario: &'a Scenario,
    pub(crate) written_events: &'a WrittenEvents,
    pub(crate) database: &'a MemoryOutbox,
    /// How often an event became visible, by subscription and by the index of the event.
    pub(crate) delivered: &'a [Vec<u32>],
    /// Events that an operator skipped or discarded, by subscription.
    pub(crate) forgotten: &'a [BTreeSet<usize>],
    /// Subscriptions that reached the limit of parked rows.
    pub(crate) full: &'a [bool],
}

impl View<'_> {
    pub(crate) fn plan(&self, subscription: usize) -> &SubscriptionPlan {
        &self.scenario.subscriptions[subscription]
    }

    pub(crate) fn rows(&self, subscription: usize) -> &MemorySubscription {
        static NONE: std::sync::LazyLock<MemorySubscription> =
            std::sync::LazyLock::new(MemorySubscription::default);
        self.database.subscription(&self.plan(subscription).name).unwrap_or(&NONE)
    }

    pub(crate) fn topic_route(&self, subscription: usize, written: usize) -> TopicRoute {
        self.plan(subscription).routes[self.written_events.get(written).topic]
    }

    pub(crate) fn times_delivered(&self, subscription: usize, written: usize) -> u32 {
        self.delivered[subscription].get(written).copied().unwrap_or_default()
    }

    pub(crate) fn subscriptions(&self) -> std::ops::Range<usize> {
        0..self.scenario.subscriptions.len()
    }

    /// Events that are committed and neither delivered, nor parked, nor filtered by the subscription.
    pub(crate) fn missing(&self, subscription: usize) -> impl Iterator<Item = (Position, &Event)> {
        let rows = self.rows(subscription);
        self.database.log.visible().map(|(position, event)| (position, &**event)).filter(
            move |(position, event)| {
                let written = WrittenEvents::number(event);
                self.topic_route(subscription, written) != TopicRoute::Filtered
                    && self.times_delivered(subscription, written) == 0
                    && !rows.parked.contains_key(position)
                    && !self.forgotten[subscription].contains(&written)
            },
        )
    }
}

/// Verifies one promise.
pub(crate) trait Check {
    fn promise(&self) -> Promise;

    /// Called for every observation. An error is a broken promise.
    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String>;

    /// Called at the end, when all relays are idle or should be.
    fn finish(&mut self, _: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers, and the first failure of each.
pub(crate) struct Checks {
    checks: Vec<Box<dyn Check>>,
    pub(crate) broken: BTreeMap<Promise, String>,
}

impl Checks {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let subscriptions = scenario.subscriptions.len();
        let checks: Vec<Box<dyn Check>> = vec![
            Box::new(loss::NoLoss::default()),
            Box::new(phantom::NoPhantom),
            Box::new(order::KeyOrder::new(subscriptions)),
            Box::new(duplicates::Duplicates::new(subscriptions)),
            Box::new(window::Window::default()),
            Box::new(memory::MemoryCheck),
            Box::new(fencing::Fencing::new(subscriptions)),
            Box::new(conservation::Conservation::new(subscriptions)),
            Box::new(liveness::Liveness),
            Box::new(isolation::IsolationCheck::default()),
            Box::new(outage::Outages::new(subscriptions)),
            Box::new(history::HistoryCheck::default()),
        ];
        Self { checks, broken: BTreeMap::new() }
    }

    pub(crate) fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) {
        for check in &mut self.checks {
            if let Err(failure) = check.observe(view, observed) {
                self.broken.entry(check.promise()).or_insert(failure);
            }
        }
    }

    pub(crate) fn finish(&mut self, view: &View<'_>) {
        for check in &mut self.checks {
            if let Err(failure) = check.finish(view) {
                self.broken.entry(check.promise()).or_insert(failure);
            }
        }
    }
}

pub(crate) use liveness::unsettled;
