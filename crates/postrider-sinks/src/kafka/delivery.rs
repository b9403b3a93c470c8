//! The delivery reports of a batch: the client's thread fills them in, the sink waits for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::ProducerContext;
use tokio::sync::Notify;

/// In the reason of the fatal error after a refused message: later messages must not be written.
const GAPLESS: &str = "gap-less guarantee";

/// Where the broker wrote a message, or why it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Written { partition: i32, offset: i64 },
    Failed(RDKafkaErrorCode),
}

/// The delivery reports of one batch.
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

/// Receives the delivery report of one message; the client returns it with the report.
#[derive(Debug)]
pub(super) struct DeliverySlot {
    batch: Arc<Deliveries>,
    at: usize,
}

impl Deliveries {
    /// For a batch of this many messages.
    pub(super) fn of(messages: usize) -> Arc<Self> {
        let open = Open { deliveries: vec![None; messages], missing: messages };
        Arc::new(Self { open: Mutex::new(open), complete: Notify::new() })
    }

    pub(super) fn slot(self: &Arc<Self>, at: usize) -> Box<DeliverySlot> {
        Box::new(DeliverySlot { batch: self.clone(), at })
    }

    /// Waits until all reports have arrived.
    pub(super) async fn complete(&self) -> Vec<Delivery> {
        loop {
            let reported = self.complete.notified();
            if let Some(all) = self.all() {
                return all;
            }
            reported.await;
        }
    }

    /// The report of one message, if it has arrived.
    pub(super) fn get(&self, at: usize) -> Option<Delivery> {
        self.lock().deliveries.get(at).copied().flatten()
    }

    /// The reports that have arrived.
    pub(super) fn reported(&self) -> Vec<Option<Delivery>> {
        self.lock().deliveries.clone()
    }

    /// All reports, if they have arrived.
    pub(super) fn all(&self) -> Option<Vec<Delivery>> {
        let open = self.lock();
        if open.missing > 0 {
            return None;
        }
        open.deliveries.iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeliverySlot {
    pub(super) fn fill(&self, delivery: Delivery) {
        let mut open = self.batch.lock();
        let Some(slot @ None) = open.deliveries.get_mut(self.at) else { return };
        *slot = Some(delivery);
        open.missing -= 1;
        if open.missing == 0 {
            self.batch.complete.notify_one();
        }
    }
}

/// Receives the client's errors, log lines and delivery reports.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Connection errors since the start. If the count grows during a batch, there was an outage in between.
    error_count: AtomicU64,
    /// The last of these errors.
    last_error: Mutex<String>,
    /// All brokers are down, and that was logged.
    down: AtomicBool,
    /// The sink failed all messages of this client.
    given_up: AtomicBool,
}

impl Context {
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    pub(super) fn error_count(&self) -> u64 {
        self.error_count.load(Ordering::SeqCst)
    }

    pub(super) fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Context {
    /// A broker wrote a message: logs the end of an outage that was logged before.
    fn log_recovery(&self) {
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::SeqCst) {
            tracing::info!(target: "librdkafka", "the brokers are reachable again");
        }
    }
}

/// During an outage the client repeats its errors with every connection attempt, several times per second. The log
/// contains one warning when the outage begins and one line when it ends; the other lines have the level debug.
impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::Fatal) {
            // A refused message has an outcome, and the next client sends the others.
            if self.is_given_up() || reason.contains(GAPLESS) {
                tracing::debug!(target: "librdkafka", "{reason}");
            } else {
                tracing::warn!(target: "librdkafka", "{reason}");
            }
            return;
        }
        tracing::debug!(target: "librdkafka", "{reason}");
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        // The error before "all brokers are down" is more specific, so it is kept.
        if last.is_empty() || code != Some(RDKafkaErrorCode::AllBrokersDown) {
            reason.clone_into(&mut last);
        }
        self.error_count.fetch_add(1, Ordering::SeqCst);
        if code == Some(RDKafkaErrorCode::AllBrokersDown) && !self.down.swap(true, Ordering::SeqCst) {
            tracing::warn!(target: "librdkafka", reason = last.as_str(), "no broker is reachable");
        }
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::warn!(target: "librdkafka", facility, "{message}");
            }
            // Invalid settings are reported once, when the client is created. The sink sets this one itself.
            _ if facility == "CONFWARN" && !message.contains("enable.gapless.guarantee") => {
                tracing::warn!(target: "librdkafka", facility, "{message}")
            }
            _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<DeliverySlot>;

    fn delivery(&self, result: &DeliveryResult<'_>, slot: Box<DeliverySlot>) {
        slot.fill(match result {
            Ok(message) => {
                self.log_recovery();
                Delivery::Written { partition: message.partition(), offset: message.offset() }
            }
            Err((error, _)) => {
                Delivery::Failed(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use postrider_testkit::CapturedLog;

    use super::*;

    #[test]
    fn an_outage_of_the_brokers_is_one_line_and_its_end_another() {
        let lines = CapturedLog::of(|log| {
            let context = Context::default();
            context.log_recovery();
            for _ in 0..100 {
                let global = |code| KafkaError::Global(code);
                context.error(global(RDKafkaErrorCode::BrokerTransportFailure), "connection refused");
                context.log(RDKafkaLogLevel::Error, "FAIL", "connection refused");
                context.error(global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
            }
            assert_eq!(context.last_error(), "connection refused");
            assert_eq!(context.error_count(), 200);
            assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
            context.log_recovery();
            context.log_recovery();
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[tokio::test]
    async fn a_batch_is_complete_when_each_message_has_its_delivery() {
        let batch = Deliveries::of(2);
        let (first, second) = (batch.slot(0), batch.slot(1));
        second.fill(Delivery::Written { partition: 1, offset: 7 });
        assert_eq!(batch.all(), None);
        first.fill(Delivery::Failed(RDKafkaErrorCode::MessageTimedOut));
        let expected = [
            Delivery::Failed(RDKafkaErrorCode::MessageTimedOut),
            Delivery::Written { partition: 1, offset: 7 },
        ];
        assert_eq!(batch.complete().await, expected);
    }

    #[tokio::test]
    async fn nothing_is_complete_at_once() {
        assert_eq!(Deliveries::of(0).complete().await, []);
    }
}
