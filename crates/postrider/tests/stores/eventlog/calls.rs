//! Handlers that remember their calls.

use std::sync::{Arc, Mutex};

use postrider::Event;
use postrider::handler::{Context, HandlerError};
use postrider::relay::Subscription;
use postrider::route::Router;

/// The events that handlers were called with: handler, type, model and number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    /// A handler for all events of these types.
    pub(crate) fn handler(&self, name: &'static str, types: &[&str]) -> Subscription {
        self.answering(name, types, |_, _| Ok(()))
    }

    /// The same with an answer of its own.
    pub(crate) fn answering(
        &self,
        name: &'static str,
        types: &[&str],
        answer: impl Fn(&Event, &Context) -> postrider::handler::Result + Clone + Send + Sync + 'static,
    ) -> Subscription {
        let calls = self.clone();
        let subscription = Subscription::handler(name, move |event: Arc<Event>, cx: Context| {
            let (calls, answer) = (calls.clone(), answer.clone());
            async move {
                calls.record(name, &event);
                answer(&event, &cx)
            }
        });
        subscription.router(Router::to(name).only(types.iter().copied()))
    }

    pub(crate) fn record(&self, name: &str, event: &Event) {
        self.0.lock().unwrap().push(described(name, event));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The calls of one handler.
    pub(crate) fn of(&self, name: &str) -> Vec<String> {
        let prefix = format!("{name} ");
        self.all().iter().filter_map(|call| call.strip_prefix(&prefix)).map(str::to_owned).collect()
    }
}

fn described(name: &str, event: &Event) -> String {
    let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
    let model = event.aggregate.as_ref().map_or("-", |aggregate| &aggregate.id);
    format!("{name} {} {model} {}", event.event_type, payload["n"])
}

/// A failure that is retried.
pub(crate) fn fails(why: &str) -> postrider::handler::Result {
    Err(HandlerError::from(std::io::Error::other(why.to_owned())))
}
