//! One outbox that a relay serves: its settings, their checks, and the tasks that are started for it.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Notify;

use super::cleanup::{Cleaner, EventDeletion, InboxDeletion};
use super::driver::Driver;
use super::driver_handle::{DriverHandle, forward_wakes};
use super::fan_out::FanOutTask;
use super::gauges::OutboxGauges;
use super::handle::{RelayHandle, ServedSubscription};
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
    /// Its name in the log and in [`status`](RelayHandle::status), to tell apart outboxes with the same subscriptions,
    /// such as shards. It is not stored.
    pub name: Option<String>,
    /// The label `outbox` of its metrics. The default is its name, otherwise `default`.
    pub metrics_name: Option<String>,
}

impl OutboxOptions {
    /// Sets the label `outbox` of its metrics.
    #[must_use]
    pub fn metrics_name(mut self, name: impl Into<String>) -> Self {
        self.metrics_name = Some(name.into());
        self
    }

    /// Sets its name in the log and in the status. No other outbox of the relay may have it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

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

impl ServedOutbox {
    fn retention(&self) -> Retention {
        let set = self.options.retention.clone();
        set.unwrap_or_else(|| Retention::default_for(self.store.row_table()))
    }

    /// Rejects invalid settings before anything is changed, and fits each router to its sink.
    pub(super) fn checked(mut self) -> Result<Self> {
        if self.store.notifications().is_some() {
            self.subscriptions.iter_mut().for_each(Subscription::use_defaults_of_notifications);
        } else if let Some(renamed) = self.subscriptions.iter().find(|of| !of.aliases.is_empty()) {
            let what = format!("subscription {:?} has an alias, and this outbox has none", renamed.name);
            return Err(Error::new(Code::HandlerInvalid, what)
                .with_hint("only layout eventlog has aliases; elsewhere keep the earlier name"));
        }
        check_all(&mut self.subscriptions)?;
        self.check()?;
        Ok(self)
    }

    /// Rejects settings that do not fit the table of the outbox.
    fn check(&self) -> Result<()> {
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

    /// Its subscriptions, as a handle of the relay sees them. They hold their leases under the name `holder`. Nothing is
    /// started.
    ///
    /// # Errors
    /// That of a handler whose table does not fit.
    pub(super) fn served(&self, holder: &str) -> Result<Vec<Arc<ServedSubscription>>> {
        let notifications = self.store.notifications();
        let wake = notifications.as_ref().map(|_| Arc::new(Notify::new()));
        let served = |of: &Subscription| {
            let store = match &notifications {
                Some(notifications) => notifications.store_of(of.to_handler())?,
                None => self.store.clone(),
            };
            let driver = DriverHandle::new(&of.name, self.options.name.as_deref(), holder, wake.clone())
                .with_metrics_outbox(self.options.metrics_name.as_deref());
            Ok(Arc::new(ServedSubscription { name: of.name.clone(), store, driver: Arc::new(driver) }))
        };
        self.subscriptions.iter().map(served).collect()
    }

    /// Its gauges. Nothing is read yet.
    pub(super) fn gauges(&self, served: &[Arc<ServedSubscription>], clock: Arc<dyn Clock>) -> OutboxGauges {
        let limits = self.subscriptions.iter().map(|of| of.policy.parked_max as u64);
        let served = served.iter().cloned().zip(limits).collect();
        OutboxGauges::new(self.label(), self.store.clone(), clock, self.retention().keep, served)
    }

    /// The label `outbox` of its metrics.
    fn label(&self) -> Option<String> {
        self.options.metrics_name.clone().or_else(|| self.options.name.clone())
    }

    /// Starts its tasks: one per subscription, the fan-out, the wake-ups, and the deletion of expired rows.
    pub(super) fn start(self, served: &[Arc<ServedSubscription>], relay: &RelayHandle) {
        let (retention, label) = (self.retention(), self.label());
        let Self { store, subscriptions, .. } = self;
        let (clock, tasks) = (relay.clock(), relay.tasks());
        if let Some(what) = retention.deletes(store.row_table()) {
            let names: Vec<String> = served.iter().map(|of| of.label()).collect();
            tracing::info!(subscriptions = names.join(", "), "retention: {what}");
            store.note_deliveries();
        }
        for (subscription, served) in subscriptions.into_iter().zip(served) {
            let (store, handle) = (served.store.clone(), served.driver.clone());
            let driver = Driver::new(clock.clone(), store, subscription, handle);
            tasks.start(|stopped| driver.run(stopped));
        }
        let handles: Vec<_> = served.iter().map(|of| of.driver.clone()).collect();
        let wake = handles.first().and_then(|handle| handle.fan_out());
        if let (Some(notifications), Some(wake), Some(table)) =
            (store.notifications(), wake, store.row_table())
        {
            let settings = table.fan_out;
            let search =
                MissedSearchTask::new(notifications.clone(), settings, clock.clone(), handles.clone());
            tasks.start(|stopped| search.run(stopped));
            let fan_out = FanOutTask::new(notifications, settings, clock.clone(), handles.clone(), wake);
            tasks.start(|stopped| fan_out.run(stopped));
        }
        if let Some(wakes) = store.wakes() {
            let handles = handles.clone();
            tasks.start(|stopped| forward_wakes(wakes, handles, stopped));
        }
        start_cleaners(&store, &retention, label.as_deref(), &Pace(handles), relay);
    }
}

/// Starts the deletion of expired rows of the inbox, and of delivered events if the retention has an end.
fn start_cleaners(
    store: &Arc<dyn Store>,
    retention: &Retention,
    label: Option<&str>,
    pace: &Pace,
    relay: &RelayHandle,
) {
    let (inbox, interval) = (InboxDeletion(retention.inbox_purge()), retention.interval);
    let cleaner = Cleaner::new(store.clone(), relay.clock(), pace.clone(), interval, inbox);
    relay.tasks().start(|stopped| cleaner.run(stopped));
    if let Some(events) = EventDeletion::new(retention, label) {
        let cleaner = Cleaner::new(store.clone(), relay.clock(), pace.clone(), interval, events);
        relay.tasks().start(|stopped| cleaner.run(stopped));
    }
}

/// Rejects invalid settings before anything is changed, and fits each router to its sink.
fn check_all(subscriptions: &mut [Subscription]) -> Result<()> {
    let all: HashSet<String> = subscriptions.iter().map(|of| of.name.clone()).collect();
    for of in &*subscriptions {
        if let Some(alias) = of.aliases.iter().find(|alias| all.contains(*alias)) {
            let what = format!("{alias:?} is a subscription of this relay and an alias of {:?}", of.name);
            return Err(Error::new(Code::HandlerInvalid, what).with_hint("an alias is an earlier name"));
        }
    }
    let mut names = HashSet::new();
    for Subscription { name, policy, router, sink, invalid, .. } in subscriptions {
        if let Some(error) = invalid.take() {
            return Err(error);
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 100 || !name.chars().all(valid) {
            let what = format!("subscription name {:?}", name.chars().take(120).collect::<String>());
            return Err(
                Error::new(Code::NameInvalid, what).with_hint("1 to 100 letters, digits, '_', '-', '.'")
            );
        }
        if !names.insert(name.clone()) {
            return Err(Error::new(
                Code::SubscriptionTwice,
                format!("subscription {name:?} is defined twice"),
            ));
        }
        policy.check()?;
        let fitting = router.clone().for_destinations(sink.capabilities().destinations);
        *router = fitting.map_err(|error| error.within(&format!("subscription {name:?}")))?;
    }
    Ok(())
}
