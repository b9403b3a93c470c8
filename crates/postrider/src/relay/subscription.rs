//! A subscription as a program describes it.

use std::sync::Arc;

use super::{Order, Policy};
use crate::encode::{Encoder, Envelope};
use crate::handler::{self, Context, FromEvent, Handlers, Unencoded};
use crate::route::Router;
use crate::sink::{Message, Outcome, Sink};
use crate::store::Start;
use crate::{BoxFuture, Error};

/// A durable, named consumer of an outbox: where its events go, how, and where it starts.
///
/// Progress is stored under its name: a renamed subscription is a new one.
///
/// ```
/// # fn shop(broker: impl postrider::sink::Sink) -> postrider::Result<()> {
/// use postrider::Subscription;
/// use postrider::encode::Plain;
/// use postrider::relay::Policy;
/// use postrider::route::{Router, Rule};
/// use postrider::store::Start;
///
/// let orders = Subscription::new("orders", broker)
///     .router(Router::by_topic().first_match([Rule::to("orders").types(["order.*"])])?)
///     .encoder(Plain)
///     .policy(Policy::default().max_attempts(5))
///     .start(Start::Now);
/// # Ok(())
/// # }
/// ```
#[must_use = "a subscription is served by a relay"]
pub struct Subscription {
    pub(super) name: String,
    pub(super) start: Start,
    pub(super) policy: Policy,
    /// The policy was set.
    has_policy: bool,
    /// No order, whatever the policy says.
    is_unordered: bool,
    /// Earlier names.
    pub(super) aliases: Vec<String>,
    pub(super) router: Router,
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) sink: Arc<dyn Sink>,
    /// Functions of this program are called for its events.
    pub(super) is_handler: bool,
    /// Its sink may take the events of a handler with the same name.
    pub(super) replaces_handler: bool,
    /// The label `sink` of its metrics.
    pub(super) sink_name: Option<String>,
    /// Identifies its settings.
    pub(super) settings_digest: String,
    /// Why it cannot be started.
    pub(super) invalid: Option<Error>,
}

impl Subscription {
    /// A subscription that sends JSON envelopes of all events in the outbox to a sink, with the event's topic
    /// as destination, otherwise the subscription's name. [`start`](Self::start) changes where it starts.
    pub fn new(name: impl Into<String>, sink: impl Sink) -> Self {
        let name = name.into();
        Self {
            start: Start::default(),
            policy: Policy::default(),
            has_policy: false,
            is_unordered: false,
            aliases: Vec::new(),
            router: Router::to(name.as_str()),
            encoder: Arc::new(Envelope),
            sink: Arc::new(sink),
            is_handler: false,
            replaces_handler: false,
            sink_name: None,
            settings_digest: String::new(),
            invalid: None,
            name,
        }
    }

    /// A subscription that calls a function of this program for every event of a type, or with `Arc<Event>` for every
    /// event. See [`handler`](crate::handler) for what is guaranteed and an example, and
    /// [`handlers`](Self::handlers) for several types, the number of calls at a time, and the timeout.
    pub fn handler<E, F, R>(name: impl Into<String>, function: F) -> Self
    where
        E: FromEvent,
        F: Fn(E, Context) -> R + Send + Sync + 'static,
        R: Future<Output = handler::Result> + Send + 'static,
    {
        Self::handlers(name, Handlers::new().on(function))
    }

    /// A subscription that calls functions of this program. Events of other types are not for it, and count as done.
    ///
    /// What is wrong with the functions, such as two for one type, is returned when the relay is started:
    /// [`Code::HandlerInvalid`](crate::Code::HandlerInvalid).
    pub fn handlers(name: impl Into<String>, handlers: Handlers) -> Self {
        let name = name.into();
        match handlers.into_sink(&name) {
            Ok((sink, types)) => {
                let router = Router::to(name.as_str());
                let router = match types {
                    Some(types) => router.only(types),
                    None => router,
                };
                Self { is_handler: true, ..Self::new(name, sink).router(router).encoder(Unencoded) }
            }
            Err(error) => Self { invalid: Some(error), ..Self::new(name, NoSink) },
        }
    }

    /// Allows a sink under a name that a program has registered as its handler: the sink gets the events, and the handler
    /// none. Without it the relay refuses to start, with
    /// [`Code::SubscriptionIsHandler`](crate::Code::SubscriptionIsHandler). A program that starts the handler again is not
    /// refused.
    pub fn replaces_handler(mut self) -> Self {
        self.replaces_handler = true;
        self
    }

    /// Delivers events in no particular order, so that no event waits for another one of its key. Takes precedence over
    /// the order of the [`policy`](Self::policy).
    pub fn unordered(mut self) -> Self {
        self.is_unordered = true;
        self.policy.order = Order::None;
        self
    }

    /// Where a new subscription starts. Ignored once the subscription exists: it then continues where it left off.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Its limits and times.
    pub fn policy(mut self, policy: Policy) -> Self {
        let order = if self.is_unordered { Order::None } else { policy.order };
        self.policy = Policy { order, ..policy };
        self.has_policy = true;
        self
    }

    /// An earlier name of a handler in an outbox of layout `eventlog`. Notifications under that name are handled too, and
    /// no event is fanned out to it any more. Other outboxes have no aliases: the relay does not start, because a renamed
    /// subscription would be a new one.
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// The defaults of an outbox with notifications, unless the policy was set.
    pub(super) fn use_defaults_of_notifications(&mut self) {
        if !self.has_policy {
            self.policy = Policy { order: self.policy.order, ..Policy::for_notifications() };
        }
    }

    /// As an outbox with notifications stores it.
    pub(super) fn to_handler(&self) -> crate::layout::RegisteredHandler {
        let mut handler = crate::layout::RegisteredHandler::new(&self.name);
        handler.aliases.clone_from(&self.aliases);
        handler.types = self.router.types();
        handler
    }

    /// Which events it wants and where they go.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// The name of the sink in metrics: the label `sink`. The default is the name of the subscription. Use one of few
    /// names: each is a new series.
    pub fn sink_name(mut self, name: impl Into<String>) -> Self {
        self.sink_name = Some(name.into());
        self
    }

    /// Identifies the settings of the subscription, without secrets, in at most 100 characters. The relay reports it, so that
    /// `postrider doctor` finds relays with other settings. Without it, settings are not compared.
    pub fn settings_digest(mut self, digest: impl Into<String>) -> Self {
        self.settings_digest = digest.into();
        self
    }

    /// How events become bytes.
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

/// Stands for the sink of a subscription that cannot be started.
struct NoSink;

impl Sink for NoSink {
    fn publish<'a>(&'a self, _: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unordered_takes_precedence_over_the_policy_in_any_order_of_the_calls() {
        let subscription = || Subscription::new("mail", NoSink);
        let policy = || Policy::default().max_attempts(3);
        for unordered in
            [subscription().unordered().policy(policy()), subscription().policy(policy()).unordered()]
        {
            assert_eq!(unordered.policy.order, Order::None);
            assert_eq!(unordered.policy.max_attempts, 3);
        }
        assert_eq!(subscription().policy(policy()).policy.order, Order::Key);
        let mut of_notifications = subscription().unordered();
        of_notifications.use_defaults_of_notifications();
        assert_eq!(of_notifications.policy.order, Order::None);
    }
}
