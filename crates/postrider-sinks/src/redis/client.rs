//! The sink.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider::sink::{Capabilities, Destinations, Failure, Message, Outcome, Receipt, Sink};
use postrider::{BoxFuture, Code, Error, Result};
use redis::{RedisError, Value};

use super::config::{RedisConfig, Replicas};
use super::connection::{Connection, Open};
use super::error::{Meaning, describe, meaning, not_reached, outcome, text_of};
use super::message::{fields, refusal, size};
use super::script::{Entry, EntryReply, Reply, Script};
use super::server::Server;

/// The server runs one script at a time, and nothing else meanwhile: about two milliseconds for this many entries.
const ENTRIES_MAX: usize = 500;
/// The entries of one script have at most this many bytes, unless a single one is larger.
const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
/// A probe costs one small script.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Adds each message as an entry to the stream that its destination names.
///
/// - Acknowledged means that the primary has added the entry, and with [`RedisConfig::replicas`] that replicas have it. What
///   survives a crash depends on the settings of the server, which [`Redis::server`] reports; the receipt contains the
///   entry's id.
/// - The fields of an entry are `key`, `body`, `content-type`, `postrider-id`, and one per header.
/// - Several events of a key may be in a batch: a script adds them in order and stops a key at its first error.
/// - Redis does not recognise an event that is added twice. Consumers recognise it by `postrider-id`.
/// - If the key of a stream has another type, or must not be written to, the message fails and is retried; an operator has
///   to fix it. If the server is full, read-only, loading, or does not let this user in, it is down, and no attempt counts.
/// - With [`RedisConfig::fence`], a relay that lost its lease adds nothing after another one has taken over.
pub struct Redis {
    config: RedisConfig,
    script: Script,
    connection: Connection,
    /// The token of this owner. `None` before the first term.
    token: Mutex<Option<String>>,
}

impl Redis {
    /// Creates the client. It connects at the first message, so a server that is down is not an error here.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] for invalid settings and for certificates that cannot be read.
    pub fn open(config: &RedisConfig) -> Result<Self> {
        Ok(Self {
            config: config.clone(),
            script: Script::new(config),
            connection: Connection::new(config)?,
            token: Mutex::new(None),
        })
    }

    /// Connects, and asks the server for the settings that decide what an acknowledgement is worth.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] if it does not answer, or refuses this user.
    pub async fn server(&self) -> Result<Server> {
        let failed = |error: RedisError| not_reached(&self.config.address, &error);
        let mut connection = self.connection.connect().await.map_err(failed)?;
        Server::read(&mut connection).await.map_err(failed)
    }

    fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stream_of<'a>(&'a self, message: &'a Message) -> &'a str {
        self.config.stream.as_deref().unwrap_or(&message.destination)
    }

    /// Sends the entries of one script.
    async fn run(
        &self,
        token: Option<&str>,
        entries: &[Entry<'_>],
    ) -> Result<Vec<EntryReply>, ScriptFailure> {
        let down = |error: RedisError| Outcome::Down(Failure::new(self.describe(&error)));
        let mut open = self.connection.open().await.map_err(down)?;
        let fence = self.config.fence.as_deref().zip(token);
        match open.send(&self.script.command(fence, entries)).await {
            Ok(value) => match Reply::read(value, entries.len()) {
                Some(Reply::Entries(replies)) => match self.config.replicas {
                    Some(replicas) if replies.iter().any(|reply| matches!(reply, EntryReply::Added(_))) => {
                        self.wait(&mut open, replicas).await?;
                        Ok(replies)
                    }
                    _ => Ok(replies),
                },
                Some(Reply::Fenced) => Err(Outcome::Fenced.into()),
                None => {
                    let what = format!("redis {}: the reply is not that of the script", self.config.address);
                    Err(Outcome::Ambiguous(Failure::new(what)).into())
                }
            },
            Err(error) => match text_of(&error) {
                // The server ran nothing of it.
                Some(text) if meaning(&text) == Meaning::Down => {
                    Err(Outcome::Down(Failure::new(self.describe(&error))).into())
                }
                Some(text) => Err(ScriptFailure::Refused(text)),
                None => Err(self.lost(&open, &error).await.into()),
            },
        }
    }

    /// Waits for the replicas. The `Err` is the outcome of entries that are on fewer.
    async fn wait(&self, open: &mut Open, replicas: Replicas) -> Result<(), Outcome> {
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas.count).arg(u64::try_from(replicas.timeout.as_millis()).unwrap_or(u64::MAX).max(1));
        match open.send(&wait).await {
            Ok(Value::Int(have)) if have >= i64::from(replicas.count) => Ok(()),
            Ok(value) => {
                let have = if let Value::Int(have) = value { have } else { 0 };
                let what = format!(
                    "redis {}: {have} of {} replica(s) confirmed in time; the primary has the event",
                    self.config.address, replicas.count
                );
                Err(Outcome::Ambiguous(Failure::new(what).while_down()))
            }
            Err(error) if text_of(&error).is_some() => {
                Err(Outcome::Ambiguous(Failure::new(self.describe(&error)).while_down()))
            }
            Err(error) => Err(self.lost(open, &error).await),
        }
    }

    /// The outcome of messages whose reply is missing. Checks whether the server answers on a new connection.
    async fn lost(&self, open: &Open, error: &RedisError) -> Outcome {
        self.connection.forget(open).await;
        let mut failure = Failure::new(self.describe(error));
        // Acknowledgements of earlier scripts say nothing about this failure.
        failure.after_last_acknowledgement = true;
        let answers = async {
            let mut open = self.connection.open().await?;
            let answer = open.send(&redis::cmd("PING")).await;
            if answer.is_err() {
                self.connection.forget(&open).await;
            }
            answer
        };
        Outcome::Ambiguous(if answers.await.is_ok() { failure } else { failure.while_down() })
    }

    fn describe(&self, error: &RedisError) -> String {
        format!("redis {}: {}", self.config.address, describe(error))
    }

    async fn publish_batch(&self, batch: &[Message]) -> Vec<Outcome> {
        let token = self.token();
        if self.config.fence.is_some() && token.is_none() {
            return vec![Outcome::Fenced; batch.len()];
        }
        let mut state = BatchState::new(batch);
        let (mut next, mut one_stream_each) = (0, false);
        while next < batch.len() {
            let (mut indices, mut entries, mut bytes): (Vec<usize>, Vec<Entry<'_>>, usize) =
                Default::default();
            while next < batch.len() && entries.len() < ENTRIES_MAX {
                let (index, message, stream) = (next, &batch[next], self.stream_of(&batch[next]));
                if state.is_stopped(index) {
                    next += 1;
                    continue;
                }
                let fields = fields(message);
                if let Some(why) = refusal(stream, &fields, self.config.message_bytes_max) {
                    // Entries of its key before it are in this script or an earlier one.
                    state.end(index, Outcome::Rejected(Failure::new(format!("stream {stream:?}: {why}"))));
                    next += 1;
                    continue;
                }
                let size = size(&fields);
                if let Some(first) = entries.first()
                    && (bytes + size > SCRIPT_BYTES_MAX || one_stream_each && first.stream != stream)
                {
                    break;
                }
                bytes += size;
                indices.push(index);
                entries.push(Entry { stream, group: state.groups[index], fields });
                next += 1;
            }
            if entries.is_empty() {
                continue;
            }
            match self.run(token.as_deref(), &entries).await {
                Ok(replies) => {
                    for ((index, entry), reply) in indices.into_iter().zip(&entries).zip(replies) {
                        match reply {
                            EntryReply::Added(id) => {
                                let receipt = Receipt::new(format!("entry {id}"));
                                state.outcomes[index] = Some(Outcome::Acknowledged(receipt));
                            }
                            EntryReply::Failed(error) => state.end(index, outcome(entry.stream, &error)),
                            EntryReply::LeftOut => {}
                        }
                    }
                }
                // The server refuses a whole script for one stream that this user may not use: find it.
                Err(ScriptFailure::Refused(_))
                    if entries.iter().any(|entry| entry.stream != entries[0].stream) =>
                {
                    (next, one_stream_each) = (indices[0], true);
                }
                Err(ScriptFailure::Refused(error)) => {
                    for (index, entry) in indices.into_iter().zip(&entries) {
                        if !state.is_stopped(index) {
                            state.end(index, outcome(entry.stream, &error));
                        }
                    }
                }
                Err(ScriptFailure::All(failed)) => {
                    indices.into_iter().for_each(|index| state.outcomes[index] = Some(failed.clone()));
                    return state.ended_by(&failed);
                }
            }
        }
        state.outcomes()
    }
}

/// Why a script added nothing, as far as is known.
enum ScriptFailure {
    /// The outcome of its entries, after which nothing more is sent.
    All(Outcome),
    /// The error of the server, which other entries may not have.
    Refused(String),
}

impl From<Outcome> for ScriptFailure {
    fn from(outcome: Outcome) -> Self {
        Self::All(outcome)
    }
}

/// What is known of a batch so far.
struct BatchState {
    outcomes: Vec<Option<Outcome>>,
    /// The group of each message: messages with the same ordering key have the same.
    groups: Vec<usize>,
    stopped: HashSet<usize>,
}

impl BatchState {
    fn new(batch: &[Message]) -> Self {
        let mut known: HashMap<Cow<'_, str>, usize> = HashMap::new();
        let group = |(index, message): (usize, &'_ Message)| match message.ordering_key() {
            Some(key) => *known.entry(Cow::Owned(key.into_owned())).or_insert(index),
            None => index,
        };
        let groups = batch.iter().enumerate().map(group).collect();
        Self { outcomes: vec![None; batch.len()], groups, stopped: HashSet::new() }
    }

    fn is_stopped(&self, index: usize) -> bool {
        self.stopped.contains(&self.groups[index])
    }

    /// A message that was not added: later messages of its key are left out.
    fn end(&mut self, index: usize, outcome: Outcome) {
        self.stopped.insert(self.groups[index]);
        self.outcomes[index] = Some(outcome);
    }

    /// The outcomes if nothing more can be sent.
    fn ended_by(self, failed: &Outcome) -> Vec<Outcome> {
        let rest = match failed {
            Outcome::Fenced => Outcome::Fenced,
            Outcome::Down(failure) => Outcome::Down(failure.clone()),
            _ => Outcome::Untried,
        };
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| rest.clone())).collect()
    }

    fn outcomes(self) -> Vec<Outcome> {
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Untried)).collect()
    }
}

impl Sink for Redis {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.publish_batch(batch))
    }

    /// Writes a new token. From then on, scripts with an earlier one add nothing.
    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        let Some(fence) = &self.config.fence else { return Box::pin(std::future::ready(Ok(()))) };
        Box::pin(async move {
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let token = uuid::Uuid::now_v7().simple().to_string();
            let write = async {
                let mut open = self.connection.open().await?;
                let written = open.send(redis::cmd("SET").arg(fence).arg(&token)).await;
                if written.is_err() {
                    self.connection.forget(&open).await;
                }
                written
            };
            match tokio::time::timeout(lease / 4, write).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(not_reached(&self.config.address, &error)),
                Err(_) => {
                    let what = format!("redis {}: no answer in a quarter of the lease", self.config.address);
                    return Err(Error::new(Code::SinkFailed, what));
                }
            }
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
            Ok(())
        })
    }

    fn capabilities(&self) -> Capabilities {
        let destinations =
            if self.config.stream.is_some() { Destinations::Fixed } else { Destinations::Names };
        Capabilities::PREFIX_SAFE.with_probe_max(PROBE_MAX).with_destinations(destinations)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.connection.close())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.config).finish()
    }
}
