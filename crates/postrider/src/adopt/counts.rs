//! What is in an outbox, by state.

use std::fmt;

use crate::ledger::ParkedState;
use crate::store::Overview;
use crate::{Code, Error, Result, Timestamp};

/// Events of an outbox by what became of them for one subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Not tried yet, or held back behind others.
    pub pending: u64,
    /// Marked as being published.
    pub in_flight: u64,
    /// Failed, and due again now or later.
    pub retrying: u64,
    /// No route matched them; they wait for one.
    pub unrouted: u64,
    /// Given up. They are not undelivered, and no adoption moves them.
    pub given_up: u64,
    /// Delivered, or handed over.
    pub delivered: u64,
    /// When the first of the undelivered ones happened.
    pub oldest: Option<Timestamp>,
    /// When the last of them did.
    pub newest: Option<Timestamp>,
}

impl Counts {
    /// How far an overview has to count to count everything.
    pub(crate) const BACKLOG_MAX: u64 = i64::MAX as u64 / 2;

    /// Of a subscription of the default layout, whose outbox has so many events in all.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if it is not there.
    pub(crate) fn of(overview: &Overview, name: &str, total: u64) -> Result<Self> {
        let of = overview.subscriptions.iter().find(|of| of.name == name).ok_or_else(|| {
            Error::new(Code::SubscriptionUnknown, format!("there is no subscription {name:?}"))
        })?;
        let parked = |state| of.parked.count(state);
        let mut counts = Self {
            pending: of.backlog.events + parked(ParkedState::Behind) + parked(ParkedState::Held),
            in_flight: 0,
            retrying: parked(ParkedState::Retry),
            unrouted: parked(ParkedState::Unrouted),
            given_up: parked(ParkedState::Dead) + parked(ParkedState::Expired),
            delivered: 0,
            oldest: of.oldest(),
            newest: None,
        };
        counts.delivered = total.saturating_sub(counts.undelivered() + counts.given_up);
        counts.newest = overview.newest.map(|(_, time)| time).filter(|_| counts.undelivered() > 0);
        Ok(counts)
    }

    /// Events that are still to be delivered.
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
