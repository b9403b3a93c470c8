//! A client in Python, which shares no code with the sink.

use std::process::{Command, Stdio};

use super::Kafka;

const SCRIPT: &str = include_str!("client.py");

/// Which records a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Records of committed transactions, and records without a transaction.
    Committed,
    /// Also records of aborted and of open transactions.
    Uncommitted,
}

/// A record as the client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// How long [`Kafka::wait_for`] waits, on a machine that is busy with other tests.
const WAIT_SECONDS_MAX: u32 = 120;

/// Tries to read a topic.
const READS_MAX: usize = 3;

impl Kafka {
    /// Reads a topic from its beginning to its end, partition by partition. `None` if the topic does not exist.
    pub fn read(&self, topic: &str, isolation: Isolation) -> Vec<Record> {
        let isolation = match isolation {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        };
        let arguments = ["read", topic, isolation];
        // The client failed once after outages, for an unknown reason. A read returns everything or fails; its error is
        // printed.
        let tried = |_| self.answer(&arguments).inspect_err(|reason| complain(reason)).ok();
        let read = (1..READS_MAX).find_map(tried);
        read.unwrap_or_else(|| self.python(&arguments)).lines().map(record).collect()
    }

    /// Waits until a topic exists and has at least this many records.
    ///
    /// # Errors
    /// A sentence, if that did not happen within two minutes.
    pub fn wait_for(&self, topic: &str, records: usize) -> Result<(), String> {
        self.answer(&["wait", topic, &records.to_string(), &WAIT_SECONDS_MAX.to_string()]).map(drop)
    }

    /// Creates a topic with these settings (`max.message.bytes=1000`).
    pub fn create_topic(&self, topic: &str, partitions: u16, settings: &[&str]) {
        let partitions = partitions.to_string();
        let arguments = ["create", topic, &partitions];
        self.python(&[&arguments[..], settings].concat());
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, topic: &str) {
        self.python(&["delete", topic]);
    }

    /// The existing topics, except Kafka's internal ones.
    pub fn topics(&self) -> Vec<String> {
        self.python(&["topics"]).lines().map(str::to_owned).collect()
    }

    /// Allows a user to write to topics with this prefix.
    pub fn allow_write(&self, user: &str, prefix: &str) {
        self.python(&["allow", user, prefix]);
    }

    /// Removes the permission to write of [`Kafka::allow_write`].
    pub fn forbid_write(&self, user: &str, prefix: &str) {
        self.python(&["forbid", user, prefix]);
    }

    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    fn python(&self, arguments: &[&str]) -> String {
        self.answer(arguments).unwrap_or_else(|reason| panic!("python {arguments:?}: {reason}"))
    }

    fn answer(&self, arguments: &[&str]) -> Result<String, String> {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT, &self.brokers()]).args(arguments).env("PYTHONPATH", self.packages());
        let ended = python.stdin(Stdio::null()).output().map_err(|e| format!("it cannot be run: {e}"))?;
        let said = if ended.status.success() { &ended.stdout } else { &ended.stderr };
        let said = String::from_utf8_lossy(said).into_owned();
        if ended.status.success() { Ok(said) } else { Err(said) }
    }
}

#[allow(clippy::print_stderr, reason = "for who reads the output of a test")]
fn complain(reason: &str) {
    eprintln!("the Python client could not read a topic, and tries again: {reason}");
}

/// Partition, offset, key, value, then the name and value of each header. Everything except the numbers is hexadecimal.
#[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
fn record(line: &str) -> Record {
    let mut fields = line.split('\t');
    let mut next = || fields.next().expect("five fields or more");
    let (partition, offset, key, value) = (next(), next(), next(), next());
    let rest: Vec<Vec<u8>> = fields.map(bytes).collect();
    let header = |pair: &[Vec<u8>]| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone());
    Record {
        partition: partition.parse().expect("a partition"),
        offset: offset.parse().expect("an offset"),
        key: (key != "-").then(|| bytes(key)),
        value: bytes(value),
        headers: rest.chunks_exact(2).map(header).collect(),
    }
}

#[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}
