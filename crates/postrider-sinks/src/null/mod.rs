//! A sink that discards all messages.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider::BoxFuture;
use postrider::sink::{Capabilities, Message, Outcome, Receipt, Sink};

/// Acknowledges and discards every message. For benchmarks, and to count what a subscription would send.
#[derive(Debug, Default)]
pub struct Null {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Null {
    /// A sink with both counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages acknowledged so far.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Bytes of their bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Sink for Null {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let bytes: usize = batch.iter().map(|message| message.body.len()).sum();
            self.messages.fetch_add(batch.len() as u64, Ordering::Relaxed);
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            vec![Outcome::Acknowledged(Receipt::default()); batch.len()]
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PREFIX_SAFE
    }
}
