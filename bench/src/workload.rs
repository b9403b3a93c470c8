//! The events of a benchmark, the same for every contender.

use postrider::Event;

/// The events that an outbox is filled with.
pub(crate) struct Workload {
    pub(crate) events: u64,
    pub(crate) payload_bytes: usize,
    /// Number of keys; 0: a separate key for every event.
    pub(crate) keys: u64,
}

impl Workload {
    /// The event with this number.
    pub(crate) fn event(&self, number: u64) -> Event {
        let key = if self.keys == 0 { number } else { number % self.keys };
        let head = format!("{{\"number\":{number},\"text\":\"");
        let filler = self.payload_bytes.saturating_sub(head.len() + 2);
        Event::new("order.placed", format!("{head}{}\"}}", "x".repeat(filler)))
            .with_aggregate("Order", format!("order-{key}"))
    }
}
