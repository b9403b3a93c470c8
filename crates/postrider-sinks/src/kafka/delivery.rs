//! What became of each message of a batch, told by the client's thread and waited for by the sink.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::ProducerContext;
use tokio::sync::Notify;

/// Where the broker put a message, or why it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Written { partition: i32, offset: i64 },
    Not(RDKafkaErrorCode),
}

/// The deliveries of one batch.
#[derive(Debug)]
pub(super) struct Deliveries {
    open: Mutex<Open>,
    complete: Notify,
}

#[derive(Debug)]
struct Open {
    deliveries: Vec<Option<Delivery>>,
    missing: usize,
}

/// A message's claim to its place among the deliveries; it travels with the message.
#[derive(Debug)]
pub(super) struct Place {
    batch: Arc<Deliveries>,
    at: usize,
}

impl Deliveries {
    /// Of so many messages.
    pub(super) fn of(messages: usize) -> Arc<Self> {
        let open = Open { deliveries: vec![None; messages], missing: messages };
        Arc::new(Self { open: Mutex::new(open), complete: Notify::new() })
    }

    pub(super) fn place(self: &Arc<Self>, at: usize) -> Box<Place> {
        Box::new(Place { batch: self.clone(), at })
    }

    /// Waits until all are known.
    pub(super) async fn complete(&self) -> Vec<Delivery> {
        loop {
            let told = self.complete.notified();
            if let Some(all) = self.all() {
                return all;
            }
            told.await;
        }
    }

    /// All, if all are known.
    pub(super) fn all(&self) -> Option<Vec<Delivery>> {
        self.lock().deliveries.iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn fill(&self, delivery: Delivery) {
        let mut open = self.batch.lock();
        let Some(place @ None) = open.deliveries.get_mut(self.at) else { return };
        *place = Some(delivery);
        open.missing -= 1;
        if open.missing == 0 {
            self.batch.complete.notify_one();
        }
    }
}

/// What the client tells while it works.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Troubles with connections since the start. One more than before: there was an outage meanwhile.
    troubles: AtomicU64,
    /// What the last one was.
    last_trouble: Mutex<String>,
}

impl Context {
    pub(super) fn troubles(&self) -> u64 {
        self.troubles.load(Ordering::SeqCst)
    }

    pub(super) fn last_trouble(&self) -> String {
        self.last_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", "{reason}");
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::Fatal) {
            let mut last = self.last_trouble.lock().unwrap_or_else(PoisonError::into_inner);
            // That all brokers are down follows from something that was told before and says more.
            if last.is_empty() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
                reason.clone_into(&mut last);
            }
            self.troubles.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Place>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<Place>) {
        place.fill(match result {
            Ok(message) => Delivery::Written { partition: message.partition(), offset: message.offset() },
            Err((error, _)) => Delivery::Not(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_is_complete_when_each_message_has_its_delivery() {
        let batch = Deliveries::of(2);
        let (first, second) = (batch.place(0), batch.place(1));
        second.fill(Delivery::Written { partition: 1, offset: 7 });
        assert_eq!(batch.all(), None);
        first.fill(Delivery::Not(RDKafkaErrorCode::MessageTimedOut));
        let expected =
            [Delivery::Not(RDKafkaErrorCode::MessageTimedOut), Delivery::Written { partition: 1, offset: 7 }];
        assert_eq!(batch.complete().await, expected);
    }

    #[tokio::test]
    async fn nothing_is_complete_at_once() {
        assert_eq!(Deliveries::of(0).complete().await, []);
    }
}
