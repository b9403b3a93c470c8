//! Publishing in transactions: the producer of one owner of the lease, and one transaction of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Failure, Message, Outcome};
use postrider::{Code, Error, Result};
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode as Answer};
use rdkafka::producer::Producer as _;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::config::KafkaConfig;
use super::delivery::{Deliveries, Delivery};
use super::error::{Meaning, meaning, not_opened};
use super::message::record;
use super::metadata::fetch_topic_health;
use super::plain::name;
use super::producer::{Client, Kind, Producer, settings};
use super::share::Share;

/// For the check of the settings at the start, before any lease.
const SOME_LEASE: Duration = Duration::from_secs(15);

/// One transactional id. Transactions follow one another.
pub(super) struct Transactional {
    config: KafkaConfig,
    owner: Arc<Mutex<Owner>>,
}

/// What this process holds of the transactional id.
#[derive(Default)]
struct Owner {
    /// The producer of the current ownership. `None` before the first, and after it was shut out: only with a
    /// new lease may there be another, for making one fences the producer that has the id.
    producer: Option<Producer>,
    /// A transaction whose end is still to be made or heard of.
    unfinished: Option<End>,
    timeout: Duration,
}

/// How a transaction is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
}

/// What became of one transaction.
pub(super) enum Ended {
    /// Everything is written; where, in the order of the messages.
    Committed(Vec<Delivery>),
    /// Nothing is. What was said of each message.
    Aborted(Vec<Delivery>),
    /// Nothing is, and no message is to blame.
    Down(String),
    /// Not known yet.
    Unknown(String),
    /// Another one has the id.
    Fenced,
}

impl Transactional {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self> {
        // Made and forgotten, so that unusable settings are reported at the start.
        Producer::make(&settings(config, Kind::Transactional(SOME_LEASE))?)
            .map_err(|error| not_opened(&config.brokers, &error))?;
        Ok(Self { config: config.clone(), owner: Arc::default() })
    }

    /// A new producer for a new owner: every producer made with this id before is shut out when this is done.
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

    /// Goes on to the end when dropped: a transaction is not left open.
    pub(super) async fn publish(&self, batch: &[Message], topic: Option<&str>) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut owner = self.owner.clone().lock_owned().await;
        let (messages, fixed) = (batch.to_vec(), topic.map(str::to_owned));
        let runtime = Handle::current();
        let work = move || {
            let mut share = Share::new(&messages, fixed.as_deref());
            share.publish(|these| owner.transact(&messages, these, fixed.as_deref(), &runtime));
            share.outcomes()
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
        these: &[usize],
        topic: Option<&str>,
        runtime: &Handle,
    ) -> Ended {
        let Some(producer) = self.producer.clone() else { return Ended::Fenced };
        let Some(client) = producer.client() else { return Ended::Fenced };
        if let Some(end) = self.unfinished
            && let Err(ended) = self.finish(client, end)
        {
            return ended;
        }
        if let Err(error) = client.begin_transaction() {
            return self.failed(client, &error, End::Abort);
        }
        self.unfinished = Some(End::Abort);
        let deliveries = Deliveries::of(these.len());
        for (place, &at) in these.iter().enumerate() {
            let record = record(name(&batch[at], topic), &batch[at], deliveries.place(place));
            if let Err((error, record)) = client.send(record) {
                let answer = error.rdkafka_error_code().unwrap_or(Answer::InvalidArgument);
                record.delivery_opaque.fill(Delivery::Not(answer));
            }
        }
        let reported = runtime.block_on(deliveries.complete());
        let fenced =
            |reported: &Delivery| matches!(reported, Delivery::Not(why) if meaning(*why) == Meaning::Fenced);
        if reported.iter().any(fenced) {
            return self.shut_out();
        }
        if reported.iter().all(|reported| matches!(reported, Delivery::Written { .. })) {
            return match self.finish(client, End::Commit) {
                Ok(()) => Ended::Committed(reported),
                Err(ended) => ended,
            };
        }
        let missing = |reported: &Delivery| matches!(reported, Delivery::Not(why) if meaning(*why) == Meaning::NotAllowedYet);
        let missing = these.iter().zip(&reported).filter(|(_, reported)| missing(reported));
        let missing: BTreeSet<&str> = missing.map(|(&at, _)| name(&batch[at], topic)).collect();
        missing.into_iter().for_each(|topic| _ = fetch_topic_health(client, topic));
        match self.finish(client, End::Abort) {
            Err(Ended::Fenced) => Ended::Fenced,
            // An abort that is not heard of yet aborts all the same: nothing else can become of it.
            _ => Ended::Aborted(reported),
        }
    }

    /// Ends the transaction, or says what stands in the way.
    fn finish(&mut self, client: &Client, end: End) -> Result<(), Ended> {
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

    /// What an error of a transaction means.
    fn failed(&mut self, client: &Client, error: &KafkaError, end: End) -> Ended {
        let why = format!("{error}; {}", client.context().last_error());
        let KafkaError::Transaction(reported) = error else { return self.unknown(why, end) };
        if meaning(reported.code()) == Meaning::Fenced || self.is_fenced(client) {
            return self.shut_out();
        }
        if reported.is_fatal() {
            // This producer is of no use any more, and another one needs a new lease.
            self.producer = None;
            return self.unknown(why, end);
        }
        if reported.txn_requires_abort() && end == End::Commit {
            return match self.finish(client, End::Abort) {
                Err(Ended::Fenced) => Ended::Fenced,
                _ => Ended::Down(why),
            };
        }
        self.unknown(why, end)
    }

    /// An abort whose answer is missing leaves nothing behind; a commit may have been made.
    fn unknown(&self, why: String, end: End) -> Ended {
        match end {
            End::Commit => Ended::Unknown(why),
            End::Abort => Ended::Down(why),
        }
    }

    fn is_fenced(&self, client: &Client) -> bool {
        client.client().fatal_error().is_some_and(|(code, _)| meaning(code) == Meaning::Fenced)
    }

    fn shut_out(&mut self) -> Ended {
        self.producer = None;
        self.unfinished = None;
        Ended::Fenced
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
