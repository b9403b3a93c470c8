//! A destination with counters.

use std::sync::Arc;

use postrider::BoxFuture;
use postrider::sink::{Capabilities, EarlyOutcomes, Message, Outcome, Sink};

use super::Destination;
use crate::demo::meter::Meter;

/// Forwards all messages and counts the outcomes.
pub(in crate::demo) struct Metered {
    destination: Arc<dyn Destination>,
    meter: Arc<Meter>,
}

impl Metered {
    pub(in crate::demo) fn new(destination: Arc<dyn Destination>, meter: Arc<Meter>) -> Self {
        Self { destination, meter }
    }

    fn count(&self, batch: &[Message], outcomes: &[Outcome]) {
        for (message, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Outcome::Acknowledged(_) => self.meter.delivered(&message.event),
                Outcome::Failed(_) | Outcome::Retryable(_) | Outcome::Ambiguous(_) => self.meter.failed(),
                Outcome::Rejected(_) | Outcome::Down(_) | Outcome::Untried | Outcome::Fenced => {}
            }
        }
    }
}

impl Sink for Metered {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = self.destination.publish(batch).await;
            self.count(batch, &outcomes);
            outcomes
        })
    }

    fn publish_each<'a>(
        &'a self,
        batch: &'a [Message],
        early: &'a EarlyOutcomes,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            // The returned outcomes include those that were reported early.
            let outcomes = self.destination.publish_each(batch, early).await;
            self.count(batch, &outcomes);
            outcomes
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.destination.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.destination.close()
    }
}
