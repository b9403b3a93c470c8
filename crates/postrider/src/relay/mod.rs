//! The relay: holds a lease and runs claim, route, encode, publish, settle.
//!
//! [`Relay::builder`] starts one, in any program with a tokio runtime. What it decides is in [`brain`], a
//! pure state machine; the rest of this module only does what the brain says.

#[doc(hidden)]
pub mod brain;
mod builder;
mod fanout;
mod effects;
mod policy;
mod publish;
mod report;
mod retention;
mod routing;
mod driver;
mod span;
mod subscription;
mod handle;
mod health_log;
mod waker;

pub use crate::store::RetentionScope;
pub use brain::Snapshot;
pub use builder::RelayBuilder;
pub use driver::SubscriptionStatus;
pub use handle::RelayHandle;
pub use policy::{OnDead, Order, Policy};
pub use retention::Retention;
pub use subscription::Subscription;

use tokio::task::JoinSet;

use crate::{Code, Error, Result};

/// A running relay. Serves the subscriptions it was built with until it is shut down.
///
/// Dropping it stops it immediately, like a crash: nothing is lost, except that what was in flight is delivered
/// again and another relay waits for the lease to expire. [`Relay::shutdown`] is the clean way. To use it from
/// other parts of a program, for instance from request handlers, give them a [`handle`](Self::handle).
#[derive(Debug)]
pub struct Relay {
    handle: RelayHandle,
    tasks: JoinSet<()>,
}

impl Relay {
    /// Starts describing a relay.
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

    /// Waits until a task of the relay dies, and says how; never returns if none does. A death is a bug, and its
    /// subscription is no longer served: shut down and start again.
    ///
    /// # Cancel safety
    /// Dropping the future loses only the answer of this call.
    pub async fn died(&mut self) -> Error {
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) => return task_died(error),
                Some(Ok(())) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Stops cleanly: finishes what is in flight, settles it, releases the leases. Takes at most the longest
    /// `drain_timeout` and a little more.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if a task of the relay had died before.
    pub async fn shutdown(mut self) -> Result<()> {
        self.handle.begin_shutdown();
        let mut died = None;
        while let Some(ended) = self.tasks.join_next().await {
            died = died.or(ended.err());
        }
        match died {
            None => Ok(()),
            Some(error) => Err(task_died(error)),
        }
    }
}

fn task_died(error: tokio::task::JoinError) -> Error {
    Error::new(Code::RelayStopped, "a task of the relay panicked or was cancelled").with_source(error)
}
