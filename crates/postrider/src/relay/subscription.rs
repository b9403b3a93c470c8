//! A subscription as a program describes it.

use std::sync::Arc;

use super::Policy;
use crate::encode::{Encoder, Envelope};
use crate::route::Router;
use crate::sink::Sink;
use crate::store::Start;

/// A durable, named consumer of an outbox: where its events go, how, and where it starts.
///
/// Progress is stored under its name: a renamed subscription is a new one.
pub struct Subscription {
    pub(super) name: String,
    pub(super) start: Start,
    pub(super) policy: Policy,
    pub(super) router: Router,
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) sink: Arc<dyn Sink>,
}

impl Subscription {
    /// A subscription that sends JSON envelopes of all events in the outbox to a sink, with the event's topic
    /// as destination, otherwise the subscription's name. [`start`](Self::start) changes where it starts.
    pub fn new(name: impl Into<String>, sink: impl Sink) -> Self {
        let name = name.into();
        Self {
            start: Start::default(),
            policy: Policy::default(),
            router: Router::to(name.as_str()),
            encoder: Arc::new(Envelope),
            sink: Arc::new(sink),
            name,
        }
    }

    /// Where a new subscription starts. Ignored once the subscription exists: it then continues where it left off.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Its limits and times.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which events it wants and where they go.
    #[must_use]
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// How events become bytes.
    #[must_use]
    pub fn encoder(mut self, encoder: impl Encoder) -> Self {
        self.encoder = Arc::new(encoder);
        self
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("name", &self.name)
            .field("start", &self.start)
            .field("router", &self.router)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
