//! A client in Python, which shares no code with the sink.

use super::super::python::{answer, fields, text};
use super::Nats;

const SCRIPT: &str = include_str!("client.py");

/// A message in a stream, as the client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Its body.
    pub body: Vec<u8>,
    /// Its headers, sorted by name.
    pub headers: Vec<(String, String)>,
}

impl Stored {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Nats {
    /// The messages of a stream, in its order.
    pub fn read(&self, stream: &str) -> Vec<Stored> {
        self.python(&["read", stream]).lines().map(stored).collect()
    }

    /// Creates a stream with these subjects, separated by commas, and settings (`max_msgs=2`, `storage="memory"`).
    pub fn create_stream(&self, stream: &str, subjects: &str, settings: &[&str]) {
        self.python(&[&["create", stream, subjects][..], settings].concat());
    }

    /// Deletes a stream.
    pub fn delete_stream(&self, stream: &str) {
        self.python(&["delete", stream]);
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
fn stored(line: &str) -> Stored {
    let fields = fields(line);
    let (known, headers) = fields.split_at_checked(3).expect("three fields or more");
    let header = |pair: &[Vec<u8>]| (text(&pair[0]), text(&pair[1]));
    Stored {
        sequence: text(&known[0]).parse().expect("a sequence"),
        subject: text(&known[1]),
        body: known[2].clone(),
        headers: headers.chunks_exact(2).map(header).collect(),
    }
}
