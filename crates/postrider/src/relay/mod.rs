//! The relay: holds a lease and runs claim, route, encode, publish, settle.
//!
//! [`Relay::builder`] starts one, in any program with a tokio runtime. All decisions are made in [`brain`], a pure
//! state machine; the rest of this module carries them out.

#[doc(hidden)]
pub mod brain;
mod bring_up;
mod builder;
mod cleanup;
mod copies;
mod driver;
mod driver_handle;
mod effects;
mod fan_out;
mod gauges;
mod handle;
mod health_log;
mod heartbeat;
mod logged_error;
mod meter;
mod missed_search;
mod pace;
mod policy;
mod publish;
mod refused_events;
mod report;
mod retention;
mod routing;
mod served_as;
mod served_outbox;
mod span;
mod subscription;
mod tasks;

pub use crate::store::RetentionScope;
pub use brain::SubscriptionState;
pub use builder::RelayBuilder;
pub use driver_handle::SubscriptionStatus;
pub use gauges::{OutboxHealth, SubscriptionHealth};
pub use handle::RelayHandle;
pub use policy::{OnDead, Order, Policy};
pub use retention::Retention;
pub use served_as::handler_registration;
pub use served_outbox::OutboxOptions;
pub use subscription::Subscription;

use crate::{Code, Error, Result};

/// A running relay. Serves its subscriptions until it is shut down. One relay can serve several outboxes, such as all
/// shards of a service; a database that is down delays only its own outbox.
///
/// Dropping it stops it immediately, like a crash: no event is lost, but events in flight are delivered again, and
/// another relay waits until the lease expires. [`Relay::shutdown`] stops it cleanly. To use it from other parts of a
/// program, for example from request handlers, give them a [`handle`](Self::handle).
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # async fn shop(search: impl postrider::sink::Sink) -> postrider::Result<()> {
/// use std::time::Duration;
///
/// use postrider::relay::{OutboxOptions, Retention};
/// use postrider::store::sqlite::SqliteStore;
/// use postrider::{Relay, Subscription};
///
/// let store = SqliteStore::open("shop.db")?;
/// let options = OutboxOptions::default().retention(Retention::keep_for(Duration::from_secs(24 * 60 * 60)));
/// let relay = Relay::builder()
///     .name("shop-1")
///     .outbox_with(store, [Subscription::new("search", search)], options)
///     .spawn()
///     .await?;
///
/// // ... until the program stops ...
/// relay.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a relay stops when it is dropped"]
pub struct Relay {
    handle: RelayHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.handle.tasks().abort();
    }
}

impl Relay {
    /// Configures a new relay.
    pub fn builder() -> RelayBuilder {
        RelayBuilder::new()
    }

    /// A handle for other parts of the program. Cheap to clone.
    pub fn handle(&self) -> RelayHandle {
        self.handle.clone()
    }

    /// As [`RelayHandle::wake`].
    pub fn wake(&self) {
        self.handle.wake();
    }

    /// As [`RelayHandle::status`].
    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.handle.status()
    }

    /// As [`RelayHandle::pause`].
    ///
    /// # Errors
    /// As [`RelayHandle::pause`].
    pub async fn pause(&self, subscription: &str, reason: &str) -> Result<()> {
        self.handle.pause(subscription, reason).await
    }

    /// As [`RelayHandle::resume`].
    ///
    /// # Errors
    /// As [`RelayHandle::pause`].
    pub async fn resume(&self, subscription: &str) -> Result<()> {
        self.handle.resume(subscription).await
    }

    /// Waits until a task of the relay panics, and returns the error; never returns if none does. A panic is a bug, and
    /// the subscription of that task is no longer served by this process: shut down and start again.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the relay.
    pub async fn panicked(&mut self) -> Error {
        task_failed(self.handle.tasks().panicked().await)
    }

    /// Stops cleanly: waits for messages in flight, settles them, releases the leases. Takes at most a little more than
    /// the longest `drain_timeout`.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if a task of the relay has panicked. The other tasks have ended cleanly.
    ///
    /// # Cancel safety
    /// If the future is dropped, the relay stops immediately, as if it were dropped.
    pub async fn shutdown(self) -> Result<()> {
        self.handle.tasks().stop();
        let mut failed = None;
        while let Some(ended) = self.handle.tasks().next_ended().await {
            failed = failed.or(ended.err());
        }
        match failed {
            None => Ok(()),
            Some(error) => Err(task_failed(error)),
        }
    }
}

fn task_failed(error: tokio::task::JoinError) -> Error {
    Error::new(Code::RelayStopped, "a task of the relay panicked or was cancelled").with_source(error)
}
