//! A sink that records the events that arrived.

use std::sync::{Arc, Mutex};

use postrider::BoxFuture;
use postrider::sink::{Failure, Message, Outcome, Receipt, Sink};

/// Accepts all events except those of type `bad`, and records the type, key, topic and payload of each.
#[derive(Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<Vec<[String; 4]>>>);

impl Arrivals {
    pub(crate) fn sorted(&self) -> Vec<[String; 4]> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort();
        all
    }
}

/// The expected arrivals.
pub(crate) fn strings(all: &[[&str; 4]]) -> Vec<[String; 4]> {
    all.iter().map(|arrived| arrived.map(str::to_owned)).collect()
}

impl Sink for Arrivals {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let one = |message: &Message| {
            let event = &message.event;
            if event.event_type == "bad" {
                return Outcome::Failed(Failure::new("refused by the test"));
            }
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            let payload = String::from_utf8_lossy(&event.payload).into_owned();
            let arrived = [
                event.event_type.clone(),
                text(event.ordering_key().as_deref()),
                text(event.topic.as_deref()),
                payload,
            ];
            self.0.lock().unwrap().push(arrived);
            Outcome::Acknowledged(Receipt::default())
        };
        Box::pin(async move { batch.iter().map(one).collect() })
    }
}
