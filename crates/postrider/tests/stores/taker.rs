//! A sink that records what it accepts, and refuses what the test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::BoxFuture;
use postrider::sink::{Message, Outcome, Receipt, Sink};
use tokio::sync::watch;

/// Long enough for anything that will happen.
pub(crate) const LONG: Duration = Duration::from_secs(90);

type Rule = dyn Fn(&str, u64) -> Option<Outcome> + Send + Sync;

/// Clones share what they remember.
#[derive(Clone)]
pub(crate) struct Taker {
    /// Key and number of every message that was acknowledged, in order.
    taken: Arc<Mutex<Vec<(String, u64)>>>,
    count: watch::Sender<usize>,
    rule: Arc<Rule>,
}

impl Taker {
    /// Takes everything for which the rule has no other outcome; it gets the key and the number of a message.
    pub(crate) fn new(rule: impl Fn(&str, u64) -> Option<Outcome> + Send + Sync + 'static) -> Self {
        Self { taken: Arc::default(), count: watch::Sender::new(0), rule: Arc::new(rule) }
    }

    pub(crate) fn taken(&self) -> Vec<(String, u64)> {
        self.taken.lock().unwrap().clone()
    }

    /// The numbers of one key, in the order they came.
    pub(crate) fn of_key(&self, key: &str) -> Vec<u64> {
        self.taken().into_iter().filter(|(of, _)| of.ends_with(key)).map(|(_, number)| number).collect()
    }

    /// Waits until this many messages were accepted.
    pub(crate) async fn wait_for(&self, messages: usize) {
        let mut count = self.count.subscribe();
        let came = tokio::time::timeout(LONG, count.wait_for(|count| *count >= messages)).await.is_ok();
        assert!(came, "of {messages} messages {} came", self.taken().len());
    }
}

impl Sink for Taker {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = batch
                .iter()
                .map(|message| {
                    let key = message.key().unwrap_or_default().to_owned();
                    let payload: serde_json::Value = serde_json::from_slice(&message.event.payload).unwrap();
                    let number = payload["n"].as_u64().unwrap();
                    (self.rule)(&key, number).unwrap_or_else(|| {
                        self.taken.lock().unwrap().push((key, number));
                        Outcome::Acknowledged(Receipt::default())
                    })
                })
                .collect();
            self.count.send_replace(self.taken.lock().unwrap().len());
            outcomes
        })
    }
}
