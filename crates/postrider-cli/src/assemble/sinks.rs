//! Opens the sinks of the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::sink::{Capabilities, EarlyOutcomes, Message, Outcome, Sink};
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

    fn publish_each<'a>(
        &'a self,
        batch: &'a [Message],
        early: &'a EarlyOutcomes,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        self.sink.publish_each(batch, early)
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

#[cfg(test)]
mod tests {
    use postrider::sink::Receipt;

    use super::*;

    /// Answers with the name of the method that was called.
    struct Named;

    fn called(method: &str) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(async move { vec![Outcome::Acknowledged(Receipt::new(method))] })
    }

    impl Sink for Named {
        fn publish<'a>(&'a self, _: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
            called("publish")
        }

        fn publish_each<'a>(&'a self, _: &'a [Message], _: &'a EarlyOutcomes) -> BoxFuture<'a, Vec<Outcome>> {
            called("publish_each")
        }
    }

    #[tokio::test]
    async fn a_shared_sink_reports_early_outcomes() {
        let shared = Shared { sink: Arc::new(Named), users: Arc::new(AtomicUsize::new(1)) };
        let answered = |method: &str| vec![Outcome::Acknowledged(Receipt::new(method))];
        assert_eq!(shared.publish(&[]).await, answered("publish"));
        assert_eq!(shared.publish_each(&[], &EarlyOutcomes::default()).await, answered("publish_each"));
    }
}
