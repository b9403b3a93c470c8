//! The checkers: one per promise, each watching the history from outside.

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

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::{Event, Position};

use super::facts::Facts;
use super::scenario::{Scenario, SubscriptionPlan, Way};
use super::seen::Seen;
use crate::memory::{MemoryDatabase, Subscription};

/// What a checker watches over.
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
    /// An old owner settles nothing.
    Fencing,
    /// A position becomes done only by delivery, parking, filtering or death.
    Conservation,
    /// After the faults the world becomes quiet.
    Liveness,
    /// What is healthy keeps flowing beside what is not.
    Isolation,
    /// An outage burns no attempt.
    Outage,
    /// A restored database is never skipped over.
    History,
}

/// What a checker can read.
pub(crate) struct View<'a> {
    pub(crate) now: Duration,
    pub(crate) scenario: &'a Scenario,
    pub(crate) facts: &'a Facts,
    pub(crate) database: &'a MemoryDatabase,
    /// How often a fact became visible, by subscription and fact.
    pub(crate) delivered: &'a [Vec<u32>],
    /// Subscriptions that said that as much is parked as may be.
    pub(crate) full: &'a [bool],
}

impl View<'_> {
    pub(crate) fn plan(&self, subscription: usize) -> &SubscriptionPlan {
        &self.scenario.subscriptions[subscription]
    }

    pub(crate) fn rows(&self, subscription: usize) -> &Subscription {
        static NONE: std::sync::LazyLock<Subscription> = std::sync::LazyLock::new(Subscription::default);
        self.database.subscription(&self.plan(subscription).name).unwrap_or(&NONE)
    }

    pub(crate) fn way(&self, subscription: usize, fact: usize) -> Way {
        self.plan(subscription).ways[self.facts.get(fact).topic]
    }

    pub(crate) fn times_delivered(&self, subscription: usize, fact: usize) -> u32 {
        self.delivered[subscription].get(fact).copied().unwrap_or_default()
    }

    pub(crate) fn subscriptions(&self) -> std::ops::Range<usize> {
        0..self.scenario.subscriptions.len()
    }

    /// Events that are committed and neither delivered, nor parked, nor unwanted by the subscription.
    pub(crate) fn missing(&self, subscription: usize) -> impl Iterator<Item = (Position, &Event)> {
        let rows = self.rows(subscription);
        self.database.log.visible().map(|(position, event)| (position, &**event)).filter(
            move |(position, event)| {
                let fact = Facts::number(event);
                self.way(subscription, fact) != Way::Filtered
                    && self.times_delivered(subscription, fact) == 0
                    && !rows.parked.contains_key(position)
            },
        )
    }
}

/// Watches one promise.
pub(crate) trait Check {
    fn promise(&self) -> Promise;

    /// Something happened. An error is a broken promise.
    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String>;

    /// The history is over: the world is quiet, or should have been.
    fn finish(&mut self, _: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers, and the first complaint of each.
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
            Box::new(memory::Memory),
            Box::new(fencing::Fencing::new(subscriptions)),
            Box::new(conservation::Conservation::new(subscriptions)),
            Box::new(liveness::Liveness),
            Box::new(isolation::Isolation::default()),
            Box::new(outage::Outages::new(subscriptions)),
            Box::new(history::History::default()),
        ];
        Self { checks, broken: BTreeMap::new() }
    }

    pub(crate) fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) {
        for check in &mut self.checks {
            if let Err(complaint) = check.observe(view, seen) {
                self.broken.entry(check.promise()).or_insert(complaint);
            }
        }
    }

    pub(crate) fn finish(&mut self, view: &View<'_>) {
        for check in &mut self.checks {
            if let Err(complaint) = check.finish(view) {
                self.broken.entry(check.promise()).or_insert(complaint);
            }
        }
    }
}

pub(crate) use liveness::unsettled;
