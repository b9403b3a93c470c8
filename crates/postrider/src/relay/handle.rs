//! A handle with which other parts of a program use a running relay.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::SubscriptionStatus;
use super::driver::DriverHandle;
use crate::store::Store;
use crate::{Code, Error, Result};

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
pub struct RelayHandle {
    name: Arc<str>,
    subscriptions: Arc<[ServedSubscription]>,
    stop: Arc<watch::Sender<bool>>,
}

/// A subscription that the relay serves.
pub(super) struct ServedSubscription {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) driver: Arc<DriverHandle>,
}

impl RelayHandle {
    /// Every task of the relay holds a receiver of `stop` until it ends.
    pub(super) fn new(
        name: String,
        subscriptions: Vec<ServedSubscription>,
        stop: watch::Sender<bool>,
    ) -> Self {
        Self { name: name.into(), subscriptions: subscriptions.into(), stop: Arc::new(stop) }
    }

    /// The name under which the relay holds leases: unique, and beginning with the configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the relay read new events immediately instead of at its next poll. Cheap; call it after every commit. It
    /// is only a hint: without it, events are delivered after the next poll.
    pub fn wake(&self) {
        self.subscriptions.iter().for_each(|served| served.driver.wake());
    }

    /// The status of each subscription in this relay, in the order in which they were added to the builder.
    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.subscriptions.iter().map(|served| served.driver.status()).collect()
    }

    /// Pauses a subscription. Messages in flight are finished and settled; other events stay in the outbox.
    ///
    /// The pause is stored in the database, like that of `postrider pause`: it applies to every relay that serves the
    /// subscription, in this process immediately and in others within a third of the lease, and it survives restarts
    /// and crashes. Only [`resume`](Self::resume) or `postrider resume` ends it.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if this relay does not serve the subscription, or an error of the database.
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

    /// Pauses every subscription that this relay serves, as [`pause`](Self::pause) does, one after the other.
    ///
    /// # Errors
    /// An error of the database. The subscriptions before the one that failed are paused.
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
        let mut found = false;
        for served in self.subscriptions.iter().filter(|served| only.is_none_or(|only| served.name == only)) {
            found = true;
            served.store.pause(&served.name, reason).await?;
            served.driver.pause(reason.map(str::to_owned));
        }
        match only {
            Some(name) if !found => {
                let what = format!("this relay serves no subscription {name:?}");
                Err(Error::new(Code::SubscriptionUnknown, what))
            }
            _ => Ok(()),
        }
    }

    /// Stops the relay cleanly, as [`Relay::shutdown`](super::Relay::shutdown) does, and returns when all its tasks
    /// have ended. It may be called several times, also concurrently.
    ///
    /// # Cancel safety
    /// Dropping the future only stops waiting: the shutdown continues.
    pub async fn shutdown(&self) {
        self.begin_shutdown();
        self.stop.closed().await;
    }

    pub(super) fn begin_shutdown(&self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriptions: Vec<&str> = self.subscriptions.iter().map(|served| served.name.as_str()).collect();
        f.debug_struct("RelayHandle")
            .field("name", &self.name)
            .field("subscriptions", &subscriptions)
            .finish()
    }
}
