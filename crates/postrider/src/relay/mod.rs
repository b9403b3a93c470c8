//! The relay: holds a lease and runs claim, route, encode, publish, settle.
//!
//! [`Relay::builder`] starts one, in any program with a tokio runtime. All decisions are made in [`brain`], a pure
//! state machine; the rest of this module carries them out.

#[doc(hidden)]
pub mod brain;
mod builder;
mod cleanup;
mod copies;
mod driver;
mod effects;
mod fan_out;
mod handle;
mod health_log;
mod logged_error;
mod missed_search;
mod pace;
mod policy;
mod publish;
mod refused_events;
mod report;
mod retention;
mod routing;
mod served_outbox;
mod span;
mod subscription;

pub use crate::store::RetentionScope;
pub use brain::SubscriptionState;
pub use builder::RelayBuilder;
pub use driver::SubscriptionStatus;
pub use handle::RelayHandle;
pub use policy::{OnDead, Order, Policy};
pub use retention::Retention;
pub use served_outbox::OutboxOptions;
pub use subscription::Subscription;

use tokio::task::JoinSet;

use crate::{Code, Error, Result};

/// A running relay. Serves the subscriptions it was built with until it is shut down.
///
/// Dropping it stops it immediately, like a crash: no event is lost, but events in flight are delivered again, and
/// another relay waits until the lease expires. [`Relay::shutdown`] stops it cleanly. To use it from other parts of a
/// program, for example from request handlers, give them a [`handle`](Self::handle).
#[derive(Debug)]
#[must_use = "a relay stops when it is dropped"]
pub struct Relay {
    handle: RelayHandle,
    tasks: JoinSet<()>,
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
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) => return task_failed(error),
                Some(Ok(())) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Stops cleanly: waits for messages in flight, settles them, releases the leases. Takes at most a little more than
    /// the longest `drain_timeout`.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if a task of the relay has panicked. The other tasks have ended cleanly.
    ///
    /// # Cancel safety
    /// If the future is dropped, the relay stops immediately, as if it were dropped.
    pub async fn shutdown(mut self) -> Result<()> {
        self.handle.begin_shutdown();
        let mut failed = None;
        while let Some(ended) = self.tasks.join_next().await {
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
