//! Opens the sinks of the configuration.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::sink::{Capabilities, EarlyOutcomes, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

use crate::sinks::{SinkUser, Target};

/// Open sinks. Subscriptions with the same target share one, unless each needs a separate one.
#[derive(Default)]
pub struct Sinks(Mutex<Vec<Opened>>);

struct Opened {
    target: Arc<dyn Target>,
    /// The only outbox and subscription that use it, if it is not shared.
    owner: Option<(String, String)>,
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
}

impl Sinks {
    /// The sink of a subscription of this outbox; opens it if it is not open.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(super) fn get(&self, outbox: &str, subscription: &str, target: &Arc<dyn Target>) -> Result<Shared> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().position(|opened| opened.serves(target, outbox, subscription));
        let at = match found {
            Some(at) => at,
            None => {
                let sink = target.open(&SinkUser { outbox: user_name(outbox), subscription })?;
                let owner = (!target.is_shared()).then(|| (outbox.to_owned(), subscription.to_owned()));
                all.push(Opened { target: target.clone(), owner, sink, users: Arc::default() });
                all.len() - 1
            }
        };
        let Opened { sink, users, .. } = &all[at];
        users.fetch_add(1, Ordering::Relaxed);
        Ok(Shared { sink: sink.clone(), users: users.clone(), is_closed: AtomicBool::new(false) })
    }
}

/// The name under which a sink knows an outbox. It stays the same when an outbox gets shards.
fn user_name(outbox: &str) -> &str {
    outbox.strip_suffix(":0.0").unwrap_or(outbox)
}

impl Opened {
    fn serves(&self, target: &Arc<dyn Target>, outbox: &str, subscription: &str) -> bool {
        let is_owner = |(of, name): &(String, String)| of == outbox && name == subscription;
        self.target.is_same(&**target) && self.owner.as_ref().is_none_or(is_owner)
    }
}

/// A shared sink, which is closed when its last user closes it.
pub(super) struct Shared {
    sink: Arc<dyn Sink>,
    users: Arc<AtomicUsize>,
    is_closed: AtomicBool,
}

impl Drop for Shared {
    /// A subscription that could not be started does not close its sink, and does not use it any more.
    fn drop(&mut self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
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
        let is_last =
            !self.is_closed.swap(true, Ordering::Relaxed) && self.users.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last { self.sink.close() } else { Box::pin(std::future::ready(())) }
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
        let (sink, users) = (Arc::new(Named), Arc::new(AtomicUsize::new(1)));
        let shared = Shared { sink, users, is_closed: AtomicBool::new(false) };
        let answered = |method: &str| vec![Outcome::Acknowledged(Receipt::new(method))];
        assert_eq!(shared.publish(&[]).await, answered("publish"));
        assert_eq!(shared.publish_each(&[], &EarlyOutcomes::default()).await, answered("publish_each"));
    }
}
