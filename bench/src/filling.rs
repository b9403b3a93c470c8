//! The events that every contender gets.

use postrider::Event;

/// What to fill an outbox with.
pub(crate) struct Filling {
    pub(crate) events: u64,
    pub(crate) payload_bytes: usize,
    /// Different keys; 0: every event has its own.
    pub(crate) keys: u64,
}

impl Filling {
    /// The event of this number.
    pub(crate) fn event(&self, number: u64) -> Event {
        let key = if self.keys == 0 { number } else { number % self.keys };
        let head = format!("{{\"number\":{number},\"text\":\"");
        let filler = self.payload_bytes.saturating_sub(head.len() + 2);
        Event::new("order.placed", format!("{head}{}\"}}", "x".repeat(filler)))
            .with_aggregate("Order", format!("order-{key}"))
    }
}
