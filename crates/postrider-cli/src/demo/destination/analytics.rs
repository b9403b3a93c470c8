//! `analytics`: a handler in this process that is slow, fails now and then, and can be down.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::sink::{Failure, Message, Outcome, Receipt, Sink};
use postrider::{BoxFuture, Result};
use postrider_verify::Sighting;
use uuid::Uuid;

use super::Destination;
use super::audit::Payload;

/// One in this many events fails at first.
const UNLUCKY_ONE_IN: u128 = 150;

/// How often such an event fails before it succeeds.
const FAILURES: u32 = 2;

/// Counts events, like a handler that calls another system.
#[derive(Debug)]
pub(crate) struct Analytics {
    /// How long it takes per batch.
    delay: Duration,
    down: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    received: Vec<Sighting>,
    failures: HashMap<Uuid, u32>,
}

impl Analytics {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, down: AtomicBool::new(false), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn handle(&mut self, message: &Message) -> Outcome {
        let id = message.event.id;
        // The last bits of an id are random.
        if id.as_u128().is_multiple_of(UNLUCKY_ONE_IN) {
            let failures = self.failures.entry(id).or_default();
            if *failures < FAILURES {
                *failures += 1;
                return Outcome::Failed(Failure::new("the warehouse did not answer in time"));
            }
        }
        let Ok(Payload { version }) = serde_json::from_slice(&message.event.payload) else {
            return Outcome::Rejected(Failure::new("the payload has no version"));
        };
        let key = message.key().unwrap_or_default().to_owned();
        self.received.push(Sighting { id, key, version });
        Outcome::Acknowledged(Receipt::default())
    }
}

impl Sink for Analytics {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            if self.down.load(Ordering::Relaxed) {
                return vec![Outcome::Down(Failure::new("connection refused")); batch.len()];
            }
            let mut seen = self.seen();
            batch.iter().map(|message| seen.handle(message)).collect()
        })
    }
}

impl Destination for Analytics {
    fn received(&self) -> Result<Vec<Sighting>> {
        Ok(self.seen().received.clone())
    }

    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }
}
