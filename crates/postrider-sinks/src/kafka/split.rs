//! Publishes a batch in transactions: one if no message is refused, otherwise further ones without the refused
//! messages.

use std::borrow::Cow;
use std::collections::HashMap;

use postrider::sink::{Failure, Message, Outcome};
use rdkafka::error::RDKafkaErrorCode as ErrorCode;

use super::delivery::Delivery;
use super::error::{self, Meaning, meaning};
use super::message::invalid_topic;
use super::plain::topic_of;
use super::transaction::TransactionResult;

/// The outcomes of a batch so far. A message without an outcome is untried.
pub(super) struct TransactionSplit<'a> {
    batch: &'a [Message],
    topic: Option<&'a str>,
    outcomes: Vec<Outcome>,
    /// The first refused message of each key: later messages of the key must not be written.
    stopped: HashMap<Cow<'a, str>, usize>,
    /// How often a transaction that was aborted without a reason may still be retried.
    retries_left: usize,
    is_over: bool,
}

/// The client may still be cleaning up after the last abort and purge new messages with the old ones.
const RETRIES_MAX: usize = 5;

impl<'a> TransactionSplit<'a> {
    pub(super) fn new(batch: &'a [Message], topic: Option<&'a str>) -> Self {
        let outcomes = vec![Outcome::Untried; batch.len()];
        Self { batch, topic, outcomes, stopped: HashMap::new(), retries_left: RETRIES_MAX, is_over: false }
    }

    pub(super) fn outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }

    /// Publishes the batch, in as many transactions as necessary.
    pub(super) fn publish(&mut self, mut transact: impl FnMut(&[usize]) -> TransactionResult) {
        let mut all = Vec::with_capacity(self.batch.len());
        for (at, message) in self.batch.iter().enumerate() {
            if self.is_stopped(at) {
                continue;
            }
            match invalid_topic(topic_of(message, self.topic)) {
                Some(why) => self.refuse(at, Outcome::Rejected(Failure::new(why))),
                None => all.push(at),
            }
        }
        let mut open = vec![all];
        while let Some(mut indices) = open.pop() {
            indices.retain(|at| !self.is_stopped(*at));
            if indices.is_empty() || self.is_over {
                continue;
            }
            // The last group is next, so that groups are published in the order of the batch.
            open.extend(self.apply_result(&indices, transact(&indices)).into_iter().rev());
        }
    }

    /// Records the result of a transaction. Returns the groups to try next, in order.
    fn apply_result(&mut self, indices: &[usize], ended: TransactionResult) -> Vec<Vec<usize>> {
        match ended {
            TransactionResult::Committed(reported) => {
                for (&at, delivery) in indices.iter().zip(reported) {
                    if let Delivery::Written { partition, offset } = delivery {
                        self.outcomes[at] = error::acknowledged(partition, offset);
                    }
                }
            }
            TransactionResult::Aborted(reported) => return self.aborted(indices, &reported),
            TransactionResult::Down(why) => self.end(indices, &Outcome::Down(Failure::new(why))),
            TransactionResult::Unknown(why) => {
                self.end(indices, &Outcome::Ambiguous(Failure::new(why).while_down()))
            }
            TransactionResult::Fenced => self.end(indices, &Outcome::Fenced),
        }
        Vec::new()
    }

    /// Nothing was written. Messages that caused the abort get their outcome; the others are tried again without them.
    fn aborted(&mut self, indices: &[usize], reported: &[Delivery]) -> Vec<Vec<usize>> {
        let (mut refused, mut together, mut other) = (false, false, None);
        for (&at, delivery) in indices.iter().zip(reported) {
            let Delivery::Failed(code) = delivery else { continue };
            match meaning(*code) {
                Meaning::Refused | Meaning::NotAllowedYet => {
                    refused = true;
                    if !self.is_stopped(at) {
                        self.refuse(at, error::outcome(topic_of(&self.batch[at], self.topic), *code));
                    }
                }
                Meaning::RefusedTogether => together = true,
                _ if matches!(code, ErrorCode::PurgeQueue | ErrorCode::PurgeInflight) => {}
                Meaning::NotSent | Meaning::Unknown | Meaning::Fenced => other = Some(*code),
            }
        }
        match (indices, refused, together) {
            (_, true, _) => vec![indices.iter().copied().filter(|at| self.is_untried(*at)).collect()],
            ([alone], _, true) => {
                if let Some(Delivery::Failed(code)) = reported.first() {
                    self.refuse(*alone, error::outcome(topic_of(&self.batch[*alone], self.topic), *code));
                }
                Vec::new()
            }
            (_, _, true) => {
                let (first, second) = indices.split_at(indices.len() / 2);
                vec![first.to_vec(), second.to_vec()]
            }
            _ if other.is_none() && self.retries_left > 0 => {
                self.retries_left -= 1;
                vec![indices.to_vec()]
            }
            _ => {
                let why =
                    other.map_or_else(|| "the transaction was aborted".to_owned(), |why| why.to_string());
                self.end(indices, &Outcome::Down(Failure::new(why)));
                Vec::new()
            }
        }
    }

    fn refuse(&mut self, at: usize, outcome: Outcome) {
        self.outcomes[at] = outcome;
        if let Some(key) = self.batch[at].ordering_key() {
            let first = self.stopped.entry(key).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Sets the same outcome for these messages and tries nothing more.
    fn end(&mut self, indices: &[usize], outcome: &Outcome) {
        indices.iter().for_each(|at| self.outcomes[*at] = outcome.clone());
        self.is_over = true;
    }

    fn is_untried(&self, at: usize) -> bool {
        self.outcomes[at] == Outcome::Untried
    }

    /// Whether an earlier message of its key was refused, in this or an earlier transaction.
    fn is_stopped(&self, at: usize) -> bool {
        self.batch[at].ordering_key().and_then(|key| self.stopped.get(&key)).is_some_and(|first| *first < at)
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
