//! Describing a relay and starting it.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::retention::Cleaner;
use super::shell::{Handle, Shell};
use super::{Relay, Retention, Served, Subscription, waker};
use crate::store::Store;
use crate::{Clock, Code, Error, Result, SystemClock};

/// Describes a relay: which outboxes, which subscriptions of each.
#[derive(Default)]
pub struct RelayBuilder {
    name: Option<String>,
    clock: Option<Arc<dyn Clock>>,
    outboxes: Vec<Outbox>,
}

/// One outbox to serve.
struct Outbox {
    store: Arc<dyn Store>,
    subscriptions: Vec<Subscription>,
    retention: Retention,
}

impl RelayBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Names this relay among those that share its subscriptions. Must be unique among running relays, so
    /// the default, a random one, is nearly always right.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Serves these subscriptions of an outbox. May be called for several outboxes. Delivered events are deleted
    /// after seven days.
    #[must_use]
    pub fn outbox(
        self,
        store: Arc<dyn Store>,
        subscriptions: impl IntoIterator<Item = Subscription>,
    ) -> Self {
        self.outbox_keeping(store, subscriptions, Retention::default())
    }

    /// As [`outbox`](Self::outbox), and says how long its delivered events are kept.
    #[must_use]
    pub fn outbox_keeping(
        mut self,
        store: Arc<dyn Store>,
        subscriptions: impl IntoIterator<Item = Subscription>,
        retention: Retention,
    ) -> Self {
        let subscriptions = subscriptions.into_iter().collect();
        self.outboxes.push(Outbox { store, subscriptions, retention });
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Creates the subscriptions that do not exist yet and starts a task for each. When this returns,
    /// everything committed from now on is theirs.
    ///
    /// # Errors
    /// [`Code::PolicyInvalid`], [`Code::NameInvalid`], [`Code::SubscriptionTwice`], or what the database says.
    /// Nothing is started then.
    pub async fn spawn(self) -> Result<Relay> {
        let holder = self.name.unwrap_or_else(|| format!("relay-{}", Uuid::now_v7()));
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        for outbox in &self.outboxes {
            check(&outbox.subscriptions)?;
        }
        for Outbox { store, subscriptions, .. } in &self.outboxes {
            for subscription in subscriptions {
                if store.subscribe(&subscription.name, subscription.start).await? {
                    tell_created(&**store, subscription).await?;
                }
            }
        }
        let (stop, stopped) = watch::channel(false);
        let (mut served, mut tasks) = (Vec::new(), JoinSet::new());
        for Outbox { store, subscriptions, retention } in self.outboxes {
            let mut handles = Vec::new();
            for subscription in subscriptions {
                let handle = Arc::new(Handle::new(&subscription.name));
                handles.push(handle.clone());
                let name = subscription.name.clone();
                served.push(Served { name, store: store.clone(), handle: handle.clone() });
                let shell = Shell::new(&holder, clock.clone(), store.clone(), subscription, handle);
                tasks.spawn(shell.run(stopped.clone()));
            }
            if let Some(wakes) = store.wakes() {
                tasks.spawn(waker::run(wakes, handles.clone(), stopped.clone()));
            }
            if let Some(cleaner) = Cleaner::new(store, clock.clone(), handles, &retention) {
                tasks.spawn(cleaner.run(stopped.clone()));
            }
        }
        Ok(Relay { name: holder, subscriptions: served, stop, tasks })
    }
}

/// Says that a subscription is new, and which events are older than it.
async fn tell_created(store: &dyn Store, of: &Subscription) -> Result<()> {
    let overview = store.overview(0).await?;
    let created = overview.subscriptions.iter().find(|subscription| subscription.name == of.name);
    let skipped = created.map_or(0, |subscription| subscription.floor.get());
    let (subscription, start) = (&of.name, of.start);
    if skipped > 0 {
        tracing::info!(
            subscription,
            ?start,
            skipped,
            "created; the positions before its start are not delivered to it"
        );
    } else {
        tracing::info!(subscription, ?start, "created");
    }
    Ok(())
}

/// Refuses what cannot work, before anything is touched.
fn check(subscriptions: &[Subscription]) -> Result<()> {
    let mut names = HashSet::new();
    for Subscription { name, policy, .. } in subscriptions {
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 100 || !name.chars().all(valid) {
            let what = format!("subscription name {:?}", name.chars().take(120).collect::<String>());
            return Err(Error::new(Code::NameInvalid, what).hint("1 to 100 letters, digits, '_', '-', '.'"));
        }
        if !names.insert(name) {
            return Err(Error::new(Code::SubscriptionTwice, format!("subscription {name:?} is given twice")));
        }
        policy.check()?;
    }
    Ok(())
}

impl std::fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let subscriptions: Vec<_> = self.outboxes.iter().flat_map(|outbox| &outbox.subscriptions).collect();
        f.debug_struct("RelayBuilder")
            .field("name", &self.name)
            .field("subscriptions", &subscriptions)
            .finish_non_exhaustive()
    }
}
