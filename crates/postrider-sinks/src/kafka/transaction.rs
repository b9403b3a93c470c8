//! Publishing in transactions: the producer of the current lease owner, and its transactions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Failure, Message, Outcome};
use postrider::{Code, Error, Result};
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode as ErrorCode};
use rdkafka::producer::Producer as _;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::config::KafkaConfig;
use super::delivery::{Deliveries, Delivery};
use super::error::{Meaning, meaning, not_opened};
use super::message::record;
use super::metadata::fetch_topic_health;
use super::plain::topic_of;
use super::producer::{Client, Kind, Producer, settings};
use super::split::TransactionSplit;

/// Lease duration for the check of the settings at startup, before there is a lease.
const CHECK_LEASE: Duration = Duration::from_secs(15);

/// Publishes with one transactional id, one transaction at a time.
pub(super) struct Transactional {
    config: KafkaConfig,
    owner: Arc<Mutex<Owner>>,
}

/// This process's ownership of the transactional id.
#[derive(Default)]
struct Owner {
    /// The producer of the current term. `None` before the first term and after it was fenced. Creating a producer
    /// fences the one that has the id, so a new one is created only with a new lease.
    producer: Option<Producer>,
    /// How the open transaction must end, if there is one or if the result of its end is not known.
    unfinished: Option<End>,
    timeout: Duration,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
}

/// The result of a transaction.
pub(super) enum TransactionResult {
    /// All messages were written; their delivery reports.
    Committed(Vec<Delivery>),
    /// No message was written; their delivery reports.
    Aborted(Vec<Delivery>),
    /// No message was written, and none of them is the cause.
    Down(String),
    /// Not known.
    Unknown(String),
    /// Another producer uses the id.
    Fenced,
}

impl Transactional {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self> {
        // Created and dropped, so that invalid settings are reported at startup.
        Producer::make(&settings(config, Kind::Transactional(CHECK_LEASE))?)
            .map_err(|error| not_opened(&config.brokers, &error))?;
        Ok(Self { config: config.clone(), owner: Arc::default() })
    }

    /// Creates the producer of a new owner. When this returns, every earlier producer with this id is fenced.
    pub(super) async fn take_over(&self, lease: Duration) -> Result<()> {
        let settings = settings(&self.config, Kind::Transactional(lease))?;
        let timeout = self.config.delivery_timeout.min(lease);
        let mut owner = self.owner.clone().lock_owned().await;
        let brokers = self.config.brokers.clone();
        let taken = tokio::task::spawn_blocking(move || {
            *owner = Owner { timeout, ..Owner::default() };
            let producer = Producer::make(&settings).map_err(|error| not_opened(&brokers, &error))?;
            if let Some(client) = producer.client() {
                client
                    .init_transactions(lease / 4)
                    .map_err(|error| not_taken_over(&brokers, client, &error))?;
            }
            owner.producer = Some(producer);
            Ok(())
        });
        taken.await.map_err(|error| {
            Error::new(Code::SinkFailed, "kafka: the takeover was aborted").with_source(error)
        })?
    }

    /// Publishes a batch. If the future is dropped, the transaction still ends in the background.
    pub(super) async fn publish(&self, batch: &[Message], topic: Option<&str>) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut owner = self.owner.clone().lock_owned().await;
        let (messages, fixed) = (batch.to_vec(), topic.map(str::to_owned));
        let runtime = Handle::current();
        let work = move || {
            let mut split = TransactionSplit::new(&messages, fixed.as_deref());
            split.publish(|indices| owner.transact(&messages, indices, fixed.as_deref(), &runtime));
            split.outcomes()
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            vec![Outcome::Ambiguous(Failure::new(format!("kafka: {error}"))); batch.len()]
        })
    }

    pub(super) async fn close(&self) {
        *self.owner.lock().await = Owner::default();
    }
}

impl Owner {
    /// One transaction with these messages.
    fn transact(
        &mut self,
        batch: &[Message],
        indices: &[usize],
        topic: Option<&str>,
        runtime: &Handle,
    ) -> TransactionResult {
        let Some(producer) = self.producer.clone() else { return TransactionResult::Fenced };
        let Some(client) = producer.client() else { return TransactionResult::Fenced };
        if let Some(end) = self.unfinished
            && let Err(ended) = self.finish(client, end)
        {
            return ended;
        }
        if let Err(error) = client.begin_transaction() {
            return self.failed(client, &error, End::Abort);
        }
        self.unfinished = Some(End::Abort);
        let deliveries = Deliveries::of(indices.len());
        for (index, &at) in indices.iter().enumerate() {
            let record = record(topic_of(&batch[at], topic), &batch[at], deliveries.slot(index));
            if let Err((error, record)) = client.send(record) {
                let code = error.rdkafka_error_code().unwrap_or(ErrorCode::InvalidArgument);
                record.delivery_opaque.fill(Delivery::Failed(code));
            }
        }
        let reported = runtime.block_on(deliveries.complete());
        let fenced = |reported: &Delivery| matches!(reported, Delivery::Failed(why) if meaning(*why) == Meaning::Fenced);
        if reported.iter().any(fenced) {
            return self.end_fenced();
        }
        if reported.iter().all(|reported| matches!(reported, Delivery::Written { .. })) {
            return match self.finish(client, End::Commit) {
                Ok(()) => TransactionResult::Committed(reported),
                Err(ended) => ended,
            };
        }
        let missing = |reported: &Delivery| matches!(reported, Delivery::Failed(why) if meaning(*why) == Meaning::NotAllowedYet);
        let missing = indices.iter().zip(&reported).filter(|(_, reported)| missing(reported));
        let missing: BTreeSet<&str> = missing.map(|(&at, _)| topic_of(&batch[at], topic)).collect();
        missing.into_iter().for_each(|topic| _ = fetch_topic_health(client, topic));
        match self.finish(client, End::Abort) {
            Err(TransactionResult::Fenced) => TransactionResult::Fenced,
            // An abort without a response still aborts: the transaction has no other end.
            _ => TransactionResult::Aborted(reported),
        }
    }

    /// Ends the transaction, or returns why it did not end.
    fn finish(&mut self, client: &Client, end: End) -> Result<(), TransactionResult> {
        self.unfinished = Some(end);
        let done = match end {
            End::Commit => client.commit_transaction(self.timeout),
            End::Abort => client.abort_transaction(self.timeout),
        };
        match done {
            Ok(()) => {
                self.unfinished = None;
                Ok(())
            }
            Err(error) => Err(self.failed(client, &error, end)),
        }
    }

    /// The result of a transaction after an error.
    fn failed(&mut self, client: &Client, error: &KafkaError, end: End) -> TransactionResult {
        let why = format!("{error}; {}", client.context().last_error());
        let KafkaError::Transaction(reported) = error else { return self.unknown(why, end) };
        if meaning(reported.code()) == Meaning::Fenced || self.is_fenced(client) {
            return self.end_fenced();
        }
        if reported.is_fatal() {
            // This producer cannot be used any more, and a new one needs a new lease.
            self.producer = None;
            return self.unknown(why, end);
        }
        if reported.txn_requires_abort() && end == End::Commit {
            return match self.finish(client, End::Abort) {
                Err(TransactionResult::Fenced) => TransactionResult::Fenced,
                _ => TransactionResult::Down(why),
            };
        }
        self.unknown(why, end)
    }

    /// After an abort without a response nothing was written; a commit without a response may have succeeded.
    fn unknown(&self, why: String, end: End) -> TransactionResult {
        match end {
            End::Commit => TransactionResult::Unknown(why),
            End::Abort => TransactionResult::Down(why),
        }
    }

    fn is_fenced(&self, client: &Client) -> bool {
        client.client().fatal_error().is_some_and(|(code, _)| meaning(code) == Meaning::Fenced)
    }

    fn end_fenced(&mut self) -> TransactionResult {
        self.producer = None;
        self.unfinished = None;
        TransactionResult::Fenced
    }
}

fn not_taken_over(brokers: &str, client: &Client, error: &KafkaError) -> Error {
    let why = match error {
        KafkaError::Transaction(reported) => RDKafkaError::string(reported),
        error => error.to_string(),
    };
    let last = client.context().last_error();
    Error::new(Code::SinkFailed, format!("kafka {brokers}: transactions cannot begin: {why}; {last}"))
        .with_hint(
            "the relay retries; check that the cluster is up and that this user may use the transactional id",
        )
}
