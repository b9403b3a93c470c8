//! A client in Python, which shares no code with the sink.

use super::super::python::{answer, fields, text};
use super::RabbitMq;

const SCRIPT: &str = include_str!("client.py");

/// A message as the client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The exchange that it was published to.
    pub exchange: String,
    /// Its routing key.
    pub routing_key: String,
    /// Its message id.
    pub message_id: String,
    /// Its media type.
    pub content_type: String,
    /// Whether the publisher asked the server to store it on disk.
    pub is_persistent: bool,
    /// Its body.
    pub body: Vec<u8>,
    /// Its headers, sorted by name.
    pub headers: Vec<(String, String)>,
}

impl RabbitMq {
    /// The messages of a queue, in its order. They stay in the queue.
    pub fn read(&self, queue: &str) -> Vec<Delivery> {
        self.python(&["read", queue]).lines().map(delivery).collect()
    }

    /// Creates a durable queue with these arguments (`x-queue-type=quorum`).
    pub fn create_queue(&self, queue: &str, arguments: &[&str]) {
        self.python(&[&["queue", queue][..], arguments].concat());
    }

    /// Creates a durable exchange.
    pub fn create_exchange(&self, exchange: &str, exchange_type: &str) {
        self.python(&["exchange", exchange, exchange_type]);
    }

    /// Binds a queue to an exchange.
    pub fn bind(&self, queue: &str, exchange: &str, routing_key: &str) {
        self.python(&["bind", queue, exchange, routing_key]);
    }

    /// Deletes an exchange.
    pub fn delete_exchange(&self, exchange: &str) {
        self.python(&["delete-exchange", exchange]);
    }

    /// Deletes the messages of a queue.
    pub fn purge(&self, queue: &str) {
        self.python(&["purge", queue]);
    }

    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    fn python(&self, arguments: &[&str]) -> String {
        let url = self.url();
        let arguments = [&[&*url][..], arguments].concat();
        answer(SCRIPT, &self.packages, &arguments)
            .unwrap_or_else(|reason| panic!("python {arguments:?}: {reason}"))
    }
}

#[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
fn delivery(line: &str) -> Delivery {
    let fields = fields(line);
    let (known, headers) = fields.split_at_checked(6).expect("six fields or more");
    let header = |pair: &[Vec<u8>]| (text(&pair[0]), text(&pair[1]));
    Delivery {
        exchange: text(&known[0]),
        routing_key: text(&known[1]),
        message_id: text(&known[2]),
        content_type: text(&known[3]),
        is_persistent: text(&known[4]) == "2",
        body: known[5].clone(),
        headers: headers.chunks_exact(2).map(header).collect(),
    }
}
