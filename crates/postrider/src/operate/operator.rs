//! An operator at work on one outbox.

use std::sync::Arc;

use super::{
    AuditRecord, BATCH_ROWS_MAX, ParkedAction, ParkedChange, ParkedChanged, ParkedCount, ParkedFilter,
    ParkedItem, ParkedQuery,
};
use crate::Result;
use crate::store::Store;
use crate::telemetry::{self, add};

/// Called after each batch of a change, with the result so far.
pub type OnProgress<'a> = &'a mut (dyn FnMut(ParkedChanged) + Send);

/// An operator at work on one outbox, with a name for the audit trail.
#[derive(Clone)]
pub struct Operator {
    store: Arc<dyn Store>,
    name: String,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Operator {
    /// An operator with this name, usually the user and the host: `alice@shop-1`.
    pub fn new(store: Arc<dyn Store>, name: impl Into<String>) -> Self {
        Self { store, name: name.into() }
    }

    /// Its name in the audit trail.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Parked events of these subscriptions, at most `rows_max`, each subscription in its order.
    ///
    /// # Errors
    /// The database's error.
    pub async fn list(
        &self,
        subscriptions: &[String],
        filter: &ParkedFilter,
        rows_max: usize,
    ) -> Result<Vec<ParkedItem>> {
        let mut found = Vec::new();
        for subscription in subscriptions {
            let left = rows_max.saturating_sub(found.len());
            if left == 0 {
                break;
            }
            found.extend(self.store.list_parked(ParkedQuery::new(subscription, filter.clone(), left)).await?);
        }
        Ok(found)
    }

    /// As [`list`](Self::list), but with a filter by type, which has to read the row of each event, only the first
    /// 200,000 parked events of each subscription are searched. Returns whether there were more of them.
    ///
    /// # Errors
    /// The database's error.
    pub async fn search(
        &self,
        subscriptions: &[String],
        filter: &ParkedFilter,
        rows_max: usize,
    ) -> Result<(Vec<ParkedItem>, bool)> {
        let (mut found, mut is_cut) = (Vec::new(), false);
        for subscription in subscriptions {
            let left = rows_max.saturating_sub(found.len());
            if left == 0 {
                break;
            }
            let query = ParkedQuery::new(subscription, filter.clone(), left).search_max(search_max(filter));
            let more = self.store.list_parked(query).await?;
            is_cut |= more.len() < left && self.is_cut(subscription, filter).await?;
            found.extend(more);
        }
        Ok((found, is_cut))
    }

    /// Whether a subscription has more parked events than are searched with this filter.
    async fn is_cut(&self, subscription: &str, filter: &ParkedFilter) -> Result<bool> {
        let Some(most) = search_max(filter) else { return Ok(false) };
        let all = ParkedQuery::new(subscription, ParkedFilter::default(), most.saturating_add(1));
        Ok(self.store.count_parked(all).await? > most as u64)
    }

    /// How many parked events of these subscriptions match, counted up to `max`. A count by type searches only the first
    /// 200,000 parked events of each subscription, and says "at least" if there are more.
    ///
    /// # Errors
    /// The database's error.
    pub async fn count(
        &self,
        subscriptions: &[String],
        filter: &ParkedFilter,
        max: u64,
    ) -> Result<ParkedCount> {
        let (mut events, mut is_cut) = (0, false);
        for subscription in subscriptions {
            let left = max.saturating_sub(events);
            let rows_max = usize::try_from(left).unwrap_or(usize::MAX);
            if left > 0 {
                let query =
                    ParkedQuery::new(subscription, filter.clone(), rows_max).search_max(search_max(filter));
                events += self.store.count_parked(query).await?;
                is_cut |= events < max && self.is_cut(subscription, filter).await?;
            }
        }
        let count = ParkedCount::up_to(events, max);
        Ok(ParkedCount { at_least: count.at_least || is_cut, ..count })
    }

    /// Changes every event of a subscription that matches, in batches of one transaction each. An event that is parked
    /// while this runs may be changed too. If the process dies, the batches that are committed stay, each with its audit
    /// row; run the command again for the rest.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown), or what the layout or the database refuses. The
    /// batches before it are committed.
    pub async fn change(
        &self,
        subscription: &str,
        action: ParkedAction,
        filter: &ParkedFilter,
        options: ChangeOptions,
        progress: OnProgress<'_>,
    ) -> Result<ParkedChanged> {
        let changed = self.change_all(subscription, action, filter, options, progress).await;
        counted(action.as_str(), changed)
    }

    /// Pauses a subscription until [`resume`](Self::resume), with an audit row in the same transaction. A relay that leads
    /// it finishes what is in flight. Without a relay the pause applies to the next one.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown), or the database's error.
    pub async fn pause(&self, subscription: &str, reason: &str) -> Result<()> {
        let audit = AuditRecord::new(&self.name, "pause", subscription, Some(reason));
        counted("pause", self.store.pause_audited(subscription, Some(reason), audit).await)
    }

    /// Continues a paused subscription, with an audit row in the same transaction.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, subscription: &str) -> Result<()> {
        let audit = AuditRecord::new(&self.name, "resume", subscription, None);
        counted("resume", self.store.pause_audited(subscription, None, audit).await)
    }

    async fn change_all(
        &self,
        subscription: &str,
        action: ParkedAction,
        filter: &ParkedFilter,
        options: ChangeOptions,
        progress: OnProgress<'_>,
    ) -> Result<ParkedChanged> {
        let ChangeOptions { reason, out_of_order } = options;
        let mut audit =
            AuditRecord::new(&self.name, action.as_str(), &filter.description(), reason.as_deref());
        let (mut total, mut after) = (ParkedChanged::default(), None);
        loop {
            let query = ParkedQuery::new(subscription, filter.clone(), BATCH_ROWS_MAX).after(after.take());
            let rows: Vec<String> =
                self.store.list_parked(query).await?.into_iter().map(|item| item.row).collect();
            let is_last = rows.len() < BATCH_ROWS_MAX;
            let Some(last) = rows.last() else { return Ok(total) };
            after = Some(last.clone());
            let change =
                ParkedChange::new(subscription, action, rows, audit.clone()).out_of_order(out_of_order);
            let changed = self.store.change_parked(change).await?;
            total.add(changed);
            // Only a batch that changed something has an audit row, and the first of a command has number 0.
            if changed.changed > 0 {
                audit = audit.next_part();
            }
            progress(total);
            if is_last {
                return Ok(total);
            }
        }
    }
}

/// Parked events that are searched when the row of each has to be read: less than half a second on PostgreSQL.
const SEARCH_MAX: usize = 200_000;

/// The type of an event is only in its own row.
fn search_max(filter: &ParkedFilter) -> Option<usize> {
    (filter.event_type.is_some() && filter.events.is_empty()).then_some(SEARCH_MAX)
}

/// Counts a command of an operator by its result.
pub(super) fn counted<T>(action: &'static str, result: Result<T>) -> Result<T> {
    let outcome = if result.is_ok() { "done" } else { "failed" };
    add(&telemetry::OPERATOR_ACTIONS, [action.into(), outcome.into()], 1);
    result
}

/// Options of [`Operator::change`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ChangeOptions {
    /// Why, for the audit trail.
    pub reason: Option<String>,
    /// Also retry dead events whose key has moved on.
    pub out_of_order: bool,
}

crate::setters! { ChangeOptions:
    reason: Option<String>,
    out_of_order: bool,
}
