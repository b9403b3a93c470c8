//! A sink that records the messages it accepts, and refuses those that the test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::BoxFuture;
use postrider::sink::{Message, Outcome, Receipt, Sink};
use tokio::sync::watch;

/// Longer than anything in a test takes.
pub(crate) const LONG: Duration = Duration::from_secs(90);

type Rule = dyn Fn(&str, u64) -> Option<Outcome> + Send + Sync;

/// Clones share their records.
#[derive(Clone)]
pub(crate) struct RecordingSink {
    /// Key and number of every message that was acknowledged, in order.
    accepted: Arc<Mutex<Vec<(String, u64)>>>,
    count: watch::Sender<usize>,
    rule: Arc<Rule>,
}

impl RecordingSink {
    /// Accepts every message for which the rule returns no other outcome. The rule gets the key and the number of a message.
    pub(crate) fn new(rule: impl Fn(&str, u64) -> Option<Outcome> + Send + Sync + 'static) -> Self {
        Self { accepted: Arc::default(), count: watch::Sender::new(0), rule: Arc::new(rule) }
    }

    pub(crate) fn accepted(&self) -> Vec<(String, u64)> {
        self.accepted.lock().unwrap().clone()
    }

    /// The numbers of one key, in order of arrival.
    pub(crate) fn of_key(&self, key: &str) -> Vec<u64> {
        self.accepted().into_iter().filter(|(of, _)| of.ends_with(key)).map(|(_, number)| number).collect()
    }

    /// Waits until this many messages were accepted.
    pub(crate) async fn wait_for(&self, messages: usize) {
        let mut count = self.count.subscribe();
        let arrived = tokio::time::timeout(LONG, count.wait_for(|count| *count >= messages)).await.is_ok();
        assert!(arrived, "{} of {messages} messages arrived", self.accepted().len());
    }
}

impl Sink for RecordingSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = batch
                .iter()
                .map(|message| {
                    let key = message.key().unwrap_or_default().to_owned();
                    let payload: serde_json::Value = serde_json::from_slice(&message.event.payload).unwrap();
                    let number = payload["n"].as_u64().unwrap();
                    (self.rule)(&key, number).unwrap_or_else(|| {
                        self.accepted.lock().unwrap().push((key, number));
                        Outcome::Acknowledged(Receipt::default())
                    })
                })
                .collect();
            self.count.send_replace(self.accepted.lock().unwrap().len());
            outcomes
        })
    }
}
