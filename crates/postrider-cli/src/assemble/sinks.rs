//! Opens the sinks of the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

use crate::config::Settings;
use crate::config::settings::SinkSettings;
use crate::sinks::{SinkUser, Target};

/// Open sinks. Subscriptions with the same target share one, unless each needs a separate one.
pub(super) struct Sinks(Vec<Opened>);

struct Opened {
    target: Arc<dyn Target>,
    /// The only subscription that uses it, if it is not shared.
    owner: Option<String>,
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sinks {
    /// Opens the sinks that subscriptions use.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let mut sinks: Vec<Opened> = Vec::new();
        for (name, of) in &settings.subscriptions {
            let Some(SinkSettings { target, .. }) = settings.sinks.get(&of.sink) else { continue };
            if !sinks.iter().any(|opened| opened.serves(target, name)) {
                let sink = target.open(&SinkUser { outbox: &of.outbox, subscription: name })?;
                let owner = (!target.is_shared()).then(|| name.clone());
                sinks.push(Opened { target: target.clone(), owner, sink, users: Arc::default() });
            }
        }
        Ok(Self(sinks))
    }

    /// The sink of a subscription.
    pub(super) fn get(&self, name: &str, target: &Arc<dyn Target>) -> Option<Shared> {
        let Opened { sink, users, .. } = self.0.iter().find(|opened| opened.serves(target, name))?;
        users.fetch_add(1, Ordering::Relaxed);
        Some(Shared { sink: sink.clone(), users: users.clone() })
    }
}

impl Opened {
    fn serves(&self, target: &Arc<dyn Target>, subscription: &str) -> bool {
        self.target.is_same(&**target) && self.owner.as_deref().is_none_or(|owner| owner == subscription)
    }
}

/// A shared sink, which is closed when its last user closes it.
pub(super) struct Shared {
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sink for Shared {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        self.sink.publish(batch)
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        self.sink.take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        match self.users.fetch_sub(1, Ordering::Relaxed) {
            1 => self.sink.close(),
            _ => Box::pin(std::future::ready(())),
        }
    }
}
