//! A batch shared out over transactions: one if all goes well; without those who are refused if not.

use std::borrow::Cow;
use std::collections::HashMap;

use postrider::sink::{Failure, Message, Outcome};
use rdkafka::error::RDKafkaErrorCode as Answer;

use super::delivery::Delivery;
use super::error::{self, Meaning, meaning};
use super::message::wrong_topic;
use super::plain::name;
use super::transaction::Ended;

/// The outcomes of a batch while they come together. A message nothing is said of is untried.
pub(super) struct Share<'a> {
    batch: &'a [Message],
    topic: Option<&'a str>,
    outcomes: Vec<Outcome>,
    /// Keys with a message that was refused, and the first such: no later one of theirs may be written.
    stopped: HashMap<Cow<'a, str>, usize>,
    /// How often a transaction that was aborted for no reason may be tried again.
    again: usize,
    over: bool,
}

/// The client may still be clearing up after the last abort, and take new messages with it.
const AGAIN_MAX: usize = 5;

impl<'a> Share<'a> {
    pub(super) fn new(batch: &'a [Message], topic: Option<&'a str>) -> Self {
        let outcomes = vec![Outcome::Untried; batch.len()];
        Self { batch, topic, outcomes, stopped: HashMap::new(), again: AGAIN_MAX, over: false }
    }

    pub(super) fn outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }

    /// Publishes all, by as many transactions as it takes.
    pub(super) fn publish(&mut self, mut transact: impl FnMut(&[usize]) -> Ended) {
        let mut all = Vec::with_capacity(self.batch.len());
        for (at, message) in self.batch.iter().enumerate() {
            if self.is_stopped(at) {
                continue;
            }
            match wrong_topic(name(message, self.topic)) {
                Some(why) => self.refuse(at, Outcome::Rejected(Failure::new(why))),
                None => all.push(at),
            }
        }
        let mut open = vec![all];
        while let Some(mut these) = open.pop() {
            these.retain(|at| !self.is_stopped(*at));
            if these.is_empty() || self.over {
                continue;
            }
            // The last is next: what comes first in the batch goes first.
            open.extend(self.apply_end(&these, transact(&these)).into_iter().rev());
        }
    }

    /// Takes in what became of a transaction. Answers which to try next, in their order.
    fn apply_end(&mut self, these: &[usize], ended: Ended) -> Vec<Vec<usize>> {
        match ended {
            Ended::Committed(reported) => {
                for (&at, delivery) in these.iter().zip(reported) {
                    if let Delivery::Written { partition, offset } = delivery {
                        self.outcomes[at] = error::acknowledged(partition, offset);
                    }
                }
            }
            Ended::Aborted(reported) => return self.aborted(these, &reported),
            Ended::Down(why) => self.end(these, &Outcome::Down(Failure::new(why))),
            Ended::Unknown(why) => self.end(these, &Outcome::Ambiguous(Failure::new(why).while_down())),
            Ended::Fenced => self.end(these, &Outcome::Fenced),
        }
        Vec::new()
    }

    /// Nothing was written. Those who are to blame are out; the others are innocent and go on without them.
    fn aborted(&mut self, these: &[usize], reported: &[Delivery]) -> Vec<Vec<usize>> {
        let (mut refused, mut together, mut other) = (false, false, None);
        for (&at, delivery) in these.iter().zip(reported) {
            let Delivery::Not(answer) = delivery else { continue };
            match meaning(*answer) {
                Meaning::Refused | Meaning::NotAllowedYet => {
                    refused = true;
                    if !self.is_stopped(at) {
                        self.refuse(at, error::outcome(name(&self.batch[at], self.topic), *answer));
                    }
                }
                Meaning::RefusedTogether => together = true,
                _ if matches!(answer, Answer::PurgeQueue | Answer::PurgeInflight) => {}
                Meaning::NotSent | Meaning::Unknown | Meaning::Fenced => other = Some(*answer),
            }
        }
        match (these, refused, together) {
            (_, true, _) => vec![these.iter().copied().filter(|at| self.is_untried(*at)).collect()],
            ([alone], _, true) => {
                if let Some(Delivery::Not(answer)) = reported.first() {
                    self.refuse(*alone, error::outcome(name(&self.batch[*alone], self.topic), *answer));
                }
                Vec::new()
            }
            (_, _, true) => {
                let (first, second) = these.split_at(these.len() / 2);
                vec![first.to_vec(), second.to_vec()]
            }
            _ if other.is_none() && self.again > 0 => {
                self.again -= 1;
                vec![these.to_vec()]
            }
            _ => {
                let why =
                    other.map_or_else(|| "the transaction was aborted".to_owned(), |why| why.to_string());
                self.end(these, &Outcome::Down(Failure::new(why)));
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

    /// The same for all of these, and nothing more is tried.
    fn end(&mut self, these: &[usize], outcome: &Outcome) {
        these.iter().for_each(|at| self.outcomes[*at] = outcome.clone());
        self.over = true;
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
#[path = "share_tests.rs"]
mod tests;
