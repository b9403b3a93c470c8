//! A handle with which other parts of a program use a running relay.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures_util::future::join_all;

use super::bring_up::BringUp;
use super::builder::holder_of;
use super::driver_handle::DriverHandle;
use super::gauges::{OutboxGauges, OutboxHealth};
use super::served_outbox::{OutboxOptions, ServedOutbox};
use super::tasks::Tasks;
use super::{Subscription, SubscriptionStatus};
use crate::operate::AuditRecord;
use crate::store::{IntoStore, Store};
use crate::{Clock, Code, Error, Result};

/// A handle to a running relay: wakes it, pauses subscriptions, reads the status, shuts it down. Cheap to clone; give
/// one to every part of the program that needs it.
///
/// A handle does not keep the relay running: the relay stops when the [`Relay`](super::Relay) is dropped or shut down.
/// Afterwards `wake` does nothing and `status` returns the last state.
///
/// ```
/// # async fn shop(relay: postrider::Relay) -> postrider::Result<()> {
/// let handle = relay.handle();
/// // In a request handler, after the commit:
/// handle.wake();
/// // In the handler of SIGTERM:
/// handle.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RelayHandle(Arc<Inner>);

struct Inner {
    name: String,
    clock: Arc<dyn Clock>,
    /// In the order in which they were added.
    subscriptions: RwLock<Vec<Arc<ServedSubscription>>>,
    /// The names of its outboxes, also of those that come up.
    names: Mutex<HashSet<String>>,
    /// How many outboxes were to be served so far. It distinguishes the holders of their leases.
    outboxes: AtomicUsize,
    /// One per outbox, in the same order.
    gauges: RwLock<Vec<Arc<OutboxGauges>>>,
    tasks: Tasks,
}

/// A subscription that the relay serves.
pub(super) struct ServedSubscription {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) driver: Arc<DriverHandle>,
}

impl ServedSubscription {
    /// Its name in the log.
    pub(super) fn label(&self) -> String {
        self.driver.label()
    }
}

impl RelayHandle {
    pub(super) fn new(name: String, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            name,
            clock,
            subscriptions: RwLock::default(),
            names: Mutex::default(),
            outboxes: AtomicUsize::new(0),
            gauges: RwLock::default(),
            tasks: Tasks::new(),
        }))
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }

    /// The subscriptions at this moment.
    fn subscriptions(&self) -> Vec<Arc<ServedSubscription>> {
        self.0.subscriptions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Brings outboxes up and serves them.
    pub(super) async fn serve(&self, outboxes: Vec<ServedOutbox>, mut bring_up: BringUp) -> Result<()> {
        // Before anything is changed in a database.
        let names = self.reserve(outboxes.iter().filter_map(|outbox| outbox.options.name.clone()))?;
        let (mut added, mut gauges) = (Vec::new(), Vec::new());
        for outbox in outboxes {
            let served = outbox.served(&self.next_holder())?;
            gauges.push(Arc::new(outbox.gauges(&served, self.clock())));
            added.extend(served.iter().cloned());
            bring_up.add(self, outbox, served);
        }
        let begin = bring_up.finish().await?;
        self.0.subscriptions.write().unwrap_or_else(PoisonError::into_inner).extend(added);
        self.0.gauges.write().unwrap_or_else(PoisonError::into_inner).extend(gauges);
        names.keep();
        begin.begin().await;
        Ok(())
    }

    /// Reserves the names of new outboxes.
    ///
    /// # Errors
    /// [`Code::SubscriptionTwice`] if a name is reserved. Then none is.
    fn reserve(&self, names: impl Iterator<Item = String>) -> Result<Reserved<'_>> {
        let mut reserved = Reserved { relay: self, names: Vec::new() };
        let mut all = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if !all.insert(name.clone()) {
                drop(all);
                let what = format!("the relay serves an outbox {name:?} already");
                return Err(Error::new(Code::SubscriptionTwice, what)
                    .with_effect("no subscription was created; outboxes that are served go on")
                    .with_hint("give each outbox of a relay its own name"));
            }
            reserved.names.push(name);
        }
        Ok(reserved)
    }

    /// The name under which the next outbox holds its leases. Each outbox has its own: if two of them are the same database,
    /// one leads, and the other one stands by.
    fn next_holder(&self) -> String {
        holder_of(&self.0.name, self.0.outboxes.fetch_add(1, Ordering::Relaxed))
    }

    /// Serves another outbox, such as a new shard, without a restart: the other subscriptions go on.
    ///
    /// Waits until its subscriptions are created. If its database is unavailable, or does not answer within two seconds,
    /// this returns, and the outbox is served as soon as it is available, as at [`spawn`](super::RelayBuilder::spawn).
    ///
    /// # Errors
    /// As [`spawn`](super::RelayBuilder::spawn), and [`Code::RelayStopped`] if the relay stops. Then the outbox is not
    /// served.
    ///
    /// # Cancel safety
    /// If the future is dropped, the outbox is not served, unless it was about to return. Its subscriptions may have been
    /// created.
    pub async fn add_outbox(
        &self,
        store: impl IntoStore,
        subscriptions: impl IntoIterator<Item = Subscription>,
        options: OutboxOptions,
    ) -> Result<()> {
        let subscriptions = subscriptions.into_iter().collect();
        let outbox = ServedOutbox { store: store.into_store(), subscriptions, options };
        self.serve(vec![outbox.checked()?], BringUp::while_running()).await
    }

    /// The name under which the relay holds leases: unique, and beginning with the configured name. From the second outbox
    /// on, a number follows; see [`SubscriptionStatus::holder`].
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Makes the relay read new events immediately instead of at its next poll. Cheap; call it after every commit. It
    /// is only a hint: without it, events are delivered after the next poll.
    pub fn wake(&self) {
        self.subscriptions().iter().for_each(|served| served.driver.wake());
    }

    /// The status of each subscription in this relay, in the order in which they were added.
    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.subscriptions().iter().map(|served| served.driver.status()).collect()
    }

    /// Sets the metrics that come from the databases (`postrider_backlog_events` and others), from one overview per
    /// outbox, and returns what it says. An overview is read again only if it is older than five seconds, however often
    /// this is called. Call it before the metrics are exported: without it, these metrics are missing.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the relay.
    pub async fn refresh_metrics(&self) -> Vec<OutboxHealth> {
        let all = self.0.gauges.read().unwrap_or_else(PoisonError::into_inner).clone();
        crate::telemetry::set(&crate::telemetry::BUILD_INFO, [env!("CARGO_PKG_VERSION").into()], 1.0);
        futures_util::future::join_all(all.iter().map(|of| of.refresh())).await
    }

    /// Pauses a subscription. Messages in flight are finished and settled; other events stay in the outbox.
    ///
    /// The pause is stored in the database, like that of `postrider pause`: it applies to every relay that serves the
    /// subscription, in this process immediately and in others within a third of the lease, and it survives restarts
    /// and crashes. Only [`resume`](Self::resume) or `postrider resume` ends it. The audit trail records it under the name of
    /// this relay.
    ///
    /// If the relay serves several outboxes with this subscription, such as shards, it is paused in all of them, at the same
    /// time. One that fails does not prevent the others.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if this relay does not serve the subscription, or an error of a database. With several
    /// outboxes the error lists those that failed, and where the pause is stored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the pause may or may not have been stored.
    pub async fn pause(&self, subscription: &str, reason: &str) -> Result<()> {
        self.set_paused(Some(subscription), Some(reason)).await
    }

    /// Ends the pause of a subscription.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, subscription: &str) -> Result<()> {
        self.set_paused(Some(subscription), None).await
    }

    /// Pauses every subscription that this relay serves, as [`pause`](Self::pause) does.
    ///
    /// # Errors
    /// An error of a database. The error lists the subscriptions that failed; the others are paused.
    pub async fn pause_all(&self, reason: &str) -> Result<()> {
        self.set_paused(None, Some(reason)).await
    }

    /// Ends the pause of every subscription that this relay serves.
    ///
    /// # Errors
    /// As [`pause_all`](Self::pause_all).
    pub async fn resume_all(&self) -> Result<()> {
        self.set_paused(None, None).await
    }

    async fn set_paused(&self, only: Option<&str>, reason: Option<&str>) -> Result<()> {
        let all = self.subscriptions();
        let chosen = all.iter().filter(|served| only.is_none_or(|only| served.name == only));
        let answers = join_all(chosen.map(async |served| {
            let action = if reason.is_some() { "pause" } else { "resume" };
            let audit = AuditRecord::new(&self.0.name, action, &served.name, reason);
            let stored = served.store.pause_audited(&served.name, reason, audit).await;
            if stored.is_ok() {
                served.driver.pause(reason.map(str::to_owned));
            }
            (served.label(), stored)
        }));
        let answers = answers.await;
        if let (Some(name), []) = (only, answers.as_slice()) {
            let what = format!("this relay serves no subscription {name:?}");
            return Err(Error::new(Code::SubscriptionUnknown, what));
        }
        all_stored(answers, if reason.is_some() { "paused" } else { "resumed" })
    }

    /// Stops the relay cleanly, as [`Relay::shutdown`](super::Relay::shutdown) does, and returns when all its tasks
    /// have ended. It may be called several times, also concurrently.
    ///
    /// # Cancel safety
    /// Dropping the future only stops waiting: the shutdown continues.
    pub async fn shutdown(&self) {
        self.0.tasks.stop();
        self.0.tasks.all_ended().await;
    }
}

/// One error for all subscriptions that a decision could not be stored for.
fn all_stored(answers: Vec<(String, Result<()>)>, decision: &str) -> Result<()> {
    let (mut stored, mut failed) = (Vec::new(), Vec::new());
    let is_one = answers.len() == 1;
    for (label, answer) in answers {
        match answer {
            Ok(()) => stored.push(label),
            Err(error) if is_one => return Err(error),
            Err(error) => failed.push((label, error)),
        }
    }
    let reasons: Vec<_> =
        failed.iter().map(|(label, error)| format!("{label}: {}", error.one_line())).collect();
    let Some((_, first)) = failed.into_iter().next() else { return Ok(()) };
    let what = format!(
        "{} of {} subscriptions could not be {decision}: ",
        reasons.len(),
        reasons.len() + stored.len()
    );
    let effect = match stored.as_slice() {
        [] => format!("no subscription is {decision}"),
        stored => format!("these subscriptions are {decision}: {}", stored.join(", ")),
    };
    Err(Error::new(first.code(), what + &reasons.join("; "))
        .with_effect(effect)
        .with_hint(first.hint())
        .with_source(first))
}

/// Names of outboxes that come up. If this is dropped, they are free again.
struct Reserved<'a> {
    relay: &'a RelayHandle,
    names: Vec<String>,
}

impl Reserved<'_> {
    /// The outboxes are served from now on.
    fn keep(mut self) {
        self.names.clear();
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut all = self.relay.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| _ = all.remove(name));
    }
}

impl fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriptions: Vec<String> = self.subscriptions().iter().map(|served| served.label()).collect();
        f.debug_struct("RelayHandle")
            .field("name", &self.0.name)
            .field("subscriptions", &subscriptions)
            .finish()
    }
}
