//! One outbox that a relay serves: its settings, their checks, and the tasks that are started for it.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::cleanup::{Cleaner, EventDeletion, InboxDeletion};
use super::driver::{Driver, DriverHandle, forward_wakes};
use super::fan_out::FanOutTask;
use super::handle::ServedSubscription;
use super::missed_search::MissedSearchTask;
use super::pace::Pace;
use super::{Order, Retention, Subscription};
use crate::store::Store;
use crate::{Clock, Code, Error, Result};

/// How a relay serves one outbox, apart from its subscriptions.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OutboxOptions {
    /// How long delivered events are kept. `None`: seven days for the layout `postrider`, and forever for a table with a
    /// state per row.
    pub retention: Option<Retention>,
}

impl OutboxOptions {
    /// Sets how long delivered events are kept.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }
}

/// One outbox to serve.
pub(super) struct ServedOutbox {
    pub(super) store: Arc<dyn Store>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) options: OutboxOptions,
}

/// What the tasks of all outboxes share.
pub(super) struct TaskCx<'a> {
    pub(super) holder: &'a str,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stopped: watch::Receiver<bool>,
}

impl ServedOutbox {
    fn retention(&self) -> Retention {
        let set = self.options.retention.clone();
        set.unwrap_or_else(|| Retention::default_for(self.store.row_table()))
    }

    /// Rejects settings that do not fit the table of the outbox.
    pub(super) fn check(&self) -> Result<()> {
        let table = self.store.row_table();
        if let Some(table) = table {
            table.fan_out.check()?;
        }
        self.retention().check(table)?;
        self.check_order()
    }

    /// Rejects a subscription that needs an order if no column defines one.
    fn check_order(&self) -> Result<()> {
        let Some(table) = self.store.row_table().filter(|table| !table.defines_order()) else {
            return Ok(());
        };
        match self.subscriptions.iter().find(|of| of.policy.order == Order::Key) {
            Some(of) => Err(Error::new(
                Code::OrderUndefined,
                format!(
                    "no column of {} defines the order of rows with the same key, but subscription {:?} needs that order",
                    table.full_name(),
                    of.name
                ),
            )),
            None => Ok(()),
        }
    }

    /// Starts its tasks: one per subscription, the fan-out, the wake-ups, and the deletion of expired rows.
    pub(super) fn start(self, cx: &TaskCx<'_>, tasks: &mut JoinSet<()>) -> Result<Vec<ServedSubscription>> {
        let retention = self.retention();
        let Self { store, subscriptions, .. } = self;
        if let Some(what) = retention.deletes(store.row_table()) {
            let names: Vec<&str> = subscriptions.iter().map(|of| of.name.as_str()).collect();
            tracing::info!(subscriptions = names.join(", "), "retention: {what}");
            store.note_deliveries();
        }
        let notifications = store.notifications();
        let wake = notifications.as_ref().map(|_| Arc::new(Notify::new()));
        let mut served = Vec::new();
        for subscription in subscriptions {
            let driver = Arc::new(DriverHandle::new(&subscription.name, wake.clone()));
            let name = subscription.name.clone();
            let store = match &notifications {
                Some(notifications) => notifications.store_of(subscription.to_handler())?,
                None => store.clone(),
            };
            served.push(ServedSubscription { name, store: store.clone(), driver: driver.clone() });
            let driver = Driver::new(cx.holder, cx.clock.clone(), store, subscription, driver);
            tasks.spawn(driver.run(cx.stopped.clone()));
        }
        let handles: Vec<_> = served.iter().map(|of| of.driver.clone()).collect();
        if let (Some(notifications), Some(wake), Some(table)) = (notifications, wake, store.row_table()) {
            let (settings, clock) = (table.fan_out, cx.clock.clone());
            let search =
                MissedSearchTask::new(notifications.clone(), settings, clock.clone(), handles.clone());
            tasks.spawn(search.run(cx.stopped.clone()));
            let fan_out = FanOutTask::new(notifications, settings, clock, handles.clone(), wake);
            tasks.spawn(fan_out.run(cx.stopped.clone()));
        }
        if let Some(wakes) = store.wakes() {
            tasks.spawn(forward_wakes(wakes, handles.clone(), cx.stopped.clone()));
        }
        start_cleaners(store, &retention, Pace(handles), cx, tasks);
        Ok(served)
    }
}

/// Starts the deletion of expired rows of the inbox, and of delivered events if the retention has an end.
fn start_cleaners(
    store: Arc<dyn Store>,
    retention: &Retention,
    pace: Pace,
    cx: &TaskCx<'_>,
    tasks: &mut JoinSet<()>,
) {
    let (inbox, interval) = (InboxDeletion(retention.inbox_purge()), retention.interval);
    let cleaner = Cleaner::new(store.clone(), cx.clock.clone(), pace.clone(), interval, inbox);
    tasks.spawn(cleaner.run(cx.stopped.clone()));
    if let Some(events) = EventDeletion::new(retention) {
        let cleaner = Cleaner::new(store, cx.clock.clone(), pace, interval, events);
        tasks.spawn(cleaner.run(cx.stopped.clone()));
    }
}
