//! The events of an outbox, counted by state.

use std::fmt;

use crate::ledger::ParkedState;
use crate::store::Overview;
use crate::{Code, Error, Result, Timestamp};

/// The events of one subscription, counted by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Not tried yet, or waiting behind another event with the same key.
    pub pending: u64,
    /// Marked as being published.
    pub in_flight: u64,
    /// Failed, and due again now or later.
    pub retrying: u64,
    /// No route matched; they wait for one.
    pub unrouted: u64,
    /// Given up. They do not count as undelivered, and an adoption does not move them.
    pub given_up: u64,
    /// Delivered, or moved to another outbox.
    pub delivered: u64,
    /// When the first undelivered event happened.
    pub oldest: Option<Timestamp>,
    /// When the last undelivered event happened.
    pub newest: Option<Timestamp>,
}

impl Counts {
    /// A limit for an overview that no backlog reaches.
    pub(crate) const BACKLOG_MAX: u64 = i64::MAX as u64 / 2;

    /// The counts of a subscription of the default layout; `total` are all events of the outbox.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if it does not exist.
    pub(crate) fn of(overview: &Overview, name: &str, total: u64) -> Result<Self> {
        let found = overview.subscriptions.iter().find(|subscription| subscription.name == name);
        let subscription = found.ok_or_else(|| {
            Error::new(Code::SubscriptionUnknown, format!("there is no subscription {name:?}"))
        })?;
        let parked = |state| subscription.parked.count(state);
        let mut counts = Self {
            pending: subscription.backlog.events + parked(ParkedState::Behind) + parked(ParkedState::Held),
            in_flight: 0,
            retrying: parked(ParkedState::Retry),
            unrouted: parked(ParkedState::Unrouted),
            given_up: parked(ParkedState::Dead) + parked(ParkedState::Expired),
            delivered: 0,
            oldest: subscription.oldest(),
            newest: None,
        };
        counts.delivered = total.saturating_sub(counts.undelivered() + counts.given_up);
        counts.newest = overview.newest.map(|(_, time)| time).filter(|_| counts.undelivered() > 0);
        Ok(counts)
    }

    /// Undelivered events.
    pub fn undelivered(&self) -> u64 {
        self.pending + self.in_flight + self.retrying + self.unrouted
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pending, in_flight, retrying, unrouted, given_up, delivered, .. } = self;
        write!(
            f,
            "{} undelivered ({pending} pending, {in_flight} in flight, {retrying} waiting for a retry, \
             {unrouted} unrouted), {given_up} dead, {delivered} delivered",
            self.undelivered()
        )
    }
}
