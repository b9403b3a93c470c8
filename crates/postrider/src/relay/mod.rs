//! The relay: holds a lease and runs claim, route, encode, publish, settle.
//!
//! [`Relay::builder`] starts one, in any program with a tokio runtime. What it decides is in [`brain`], a
//! pure state machine; the rest of this module only does what the brain says.

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
mod health_log;
mod waker;

pub use crate::store::RetentionScope;
pub use builder::RelayBuilder;
pub use driver::SubscriptionStatus;
pub use policy::{OnDead, Order, Policy};
pub use retention::Retention;
pub use subscription::Subscription;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::store::Store;
use crate::{Code, Error, Result};
use driver::Handle;

/// A running relay. Serves the subscriptions it was built with until it is shut down.
///
/// Dropping it stops it where it stands, like a crash: nothing is lost, but what was in flight is delivered
/// again, and another relay waits for the lease to run out. [`Relay::shutdown`] is the good way.
#[derive(Debug)]
pub struct Relay {
    name: String,
    subscriptions: Vec<Served>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Looks at a running relay. After its end, shows how it was last.
#[derive(Debug, Clone)]
pub struct Observer {
    name: String,
    handles: Vec<Arc<Handle>>,
}

impl Observer {
    /// How each subscription is doing, in the order they were given.
    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.handles.iter().map(|handle| handle.status()).collect()
    }

    /// The name under which it holds leases: unique, and beginning with the name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A subscription this relay takes part in.
pub(crate) struct Served {
    name: String,
    store: Arc<dyn Store>,
    handle: Arc<Handle>,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Relay {
    /// Starts describing a relay.
    pub fn builder() -> RelayBuilder {
        RelayBuilder::new()
    }

    /// Says that events were committed, so that the relay does not wait for the next poll. Cheap; call it after every commit.
    pub fn wake(&self) {
        for served in &self.subscriptions {
            served.handle.wake();
        }
    }

    /// How each subscription is doing here, in the order they were given.
    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.observer().status()
    }

    /// Reads the state of the relay from anywhere.
    pub fn observer(&self) -> Observer {
        let handles = self.subscriptions.iter().map(|served| served.handle.clone()).collect();
        Observer { name: self.name.clone(), handles }
    }

    /// Pauses a subscription, wherever it runs: here at once, elsewhere within a third of the lease. What is
    /// in flight is finished and settled.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if this relay does not serve it, or what the database says.
    pub async fn pause(&self, subscription: &str, reason: &str) -> Result<()> {
        self.set_paused(subscription, Some(reason)).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// As [`Relay::pause`].
    pub async fn resume(&self, subscription: &str) -> Result<()> {
        self.set_paused(subscription, None).await
    }

    async fn set_paused(&self, subscription: &str, reason: Option<&str>) -> Result<()> {
        let served = self.subscriptions.iter().filter(|served| served.name == subscription);
        let mut found = false;
        for served in served {
            found = true;
            served.store.pause(subscription, reason).await?;
            served.handle.pause(reason.map(str::to_owned));
        }
        let unknown = || {
            Error::new(
                Code::SubscriptionUnknown,
                format!("this relay serves no subscription {subscription:?}"),
            )
        };
        if found { Ok(()) } else { Err(unknown()) }
    }

    /// Waits until a task of the relay dies, and says how; forever if none does. That is a bug, and its
    /// subscription is served no more: shut down and start again.
    ///
    /// # Cancel safety
    /// Dropping the future loses only this call's answer.
    pub async fn died(&mut self) -> Error {
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) => return task_died(error),
                Some(Ok(())) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Stops in good order: finishes what is in flight, settles it, gives the leases up. Takes at most the
    /// longest `drain_timeout` and a little more.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if a task of the relay had died before.
    pub async fn shutdown(mut self) -> Result<()> {
        self.stop.send_replace(true);
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
