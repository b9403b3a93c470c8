//! Creating, moving and removing subscriptions.

use serde::Serialize;

use super::operator::counted;
use super::{AuditRecord, ParkedCount};
use crate::Result;
use crate::operate::Operator;
use crate::store::Start;

/// What to do with a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionAction {
    /// Create it, so that it begins here.
    Add(Start),
    /// Continue it from here: events before are skipped, events after are delivered, also if they were before.
    Move(Start),
    /// The same for a subscription that is halted because the history of the database changed.
    AcceptHistory(Start),
    /// Delete it with its progress and its parked rows.
    Remove,
}

impl SubscriptionAction {
    /// Its name in the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add(_) => "subscribe",
            Self::Move(_) => "move",
            Self::AcceptHistory(_) => "accept-history",
            Self::Remove => "remove",
        }
    }

    /// Where it continues.
    pub const fn start(self) -> Option<Start> {
        match self {
            Self::Add(start) | Self::Move(start) | Self::AcceptHistory(start) => Some(start),
            Self::Remove => None,
        }
    }
}

/// A change of one subscription, in one transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscriptionChange {
    /// The subscription.
    pub subscription: String,
    /// What to do.
    pub action: SubscriptionAction,
    /// What to write to the audit trail. The store adds which positions are skipped.
    pub audit: AuditRecord,
}

impl SubscriptionChange {
    /// A change with this audit row.
    pub fn new(subscription: impl Into<String>, action: SubscriptionAction, audit: AuditRecord) -> Self {
        Self { subscription: subscription.into(), action, audit }
    }
}

/// What a change would do, counted up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SubscriptionPlan {
    /// Events that the subscription has not delivered and never will.
    pub skipped: ParkedCount,
    /// Events that it is past and will read again.
    pub repeated: ParkedCount,
}

impl SubscriptionPlan {
    /// A plan with these counts.
    pub const fn new(skipped: ParkedCount, repeated: ParkedCount) -> Self {
        Self { skipped, repeated }
    }
}

impl Operator {
    /// What moving a subscription would skip and repeat. Changes nothing.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown), or
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) for a table with a state per row.
    pub async fn plan_move(&self, subscription: &str, start: Start) -> Result<SubscriptionPlan> {
        self.store().plan_subscription(subscription, start).await
    }

    /// Changes a subscription, with an audit row in the same transaction. Returns whether it changed: adding one that
    /// exists changes nothing.
    ///
    /// A relay that leads it loses its lease and begins again with the new state; what it has in flight may be delivered
    /// twice.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown);
    /// [`Code::LeaseHeld`](crate::Code::LeaseHeld) if a relay leads a subscription that is to be removed;
    /// [`Code::HistoryChanged`](crate::Code::HistoryChanged) if a halted one is to be moved; or what the layout refuses.
    pub async fn change_subscription(
        &self,
        subscription: &str,
        action: SubscriptionAction,
        reason: Option<&str>,
    ) -> Result<bool> {
        let selection = action.start().map_or_else(|| "all".to_owned(), |start| format!("start {start}"));
        let audit = AuditRecord::new(self.name(), action.as_str(), &selection, reason);
        let subscription = subscription.to_owned();
        let change = SubscriptionChange { subscription, action, audit };
        counted(action.as_str(), self.store().change_subscription(change).await)
    }
}
