//! A batch that is being published: which messages may be sent next, and the outcomes so far.
//!
//! After a message of a key that was not written, no later one of the key is sent. It is sent in waves: until a
//! partition has accepted a record of the client, a wave contains only one message of each of its keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use postrider::sink::{Message, Outcome};

use super::confirmed::ConfirmedView;
use super::plain::topic_of;

pub(super) struct Attempt<'a> {
    pub(super) batch: &'a [Message],
    topic: Option<&'a str>,
    /// `None` while a message may still be sent.
    outcomes: Vec<Option<Outcome>>,
    /// The key of each message, by its index; `None`: the message has no order.
    key_of: Vec<Option<usize>>,
    keys: Vec<KeyState>,
    wave: u32,
}

/// The messages of one key in the batch.
#[derive(Debug, Clone, Default)]
struct KeyState {
    /// The first message that failed, or must not be sent with others: later ones stay untried.
    stopped_at: Option<usize>,
    /// Its partition has accepted a record of this client, according to a report of this batch.
    is_confirmed: bool,
    /// The last wave with a message of this key.
    wave: u32,
    /// In that wave, any number of its messages may be sent.
    is_free: bool,
    /// The last wave in which one of its messages was not sent.
    held_in: u32,
    /// Its first message in the batch.
    first: usize,
}

impl KeyState {
    fn is_stopped(&self, at: usize) -> bool {
        self.stopped_at.is_some_and(|stopped_at| stopped_at < at)
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(batch: &'a [Message], topic: Option<&'a str>) -> Self {
        let (mut keys, mut key_of) = (Vec::new(), Vec::with_capacity(batch.len()));
        let mut known: HashMap<(&str, Cow<'_, str>), usize> = HashMap::new();
        let mut last: Option<((&str, Cow<'_, str>), usize)> = None;
        for (index, message) in batch.iter().enumerate() {
            let Some(key) = message.ordering_key() else {
                key_of.push(None);
                continue;
            };
            let key = (topic_of(message, topic), key);
            // Messages of one key usually follow each other.
            if let Some((_, at)) = last.as_ref().filter(|(last, _)| *last == key) {
                key_of.push(Some(*at));
                continue;
            }
            let at = match known.entry(key.clone()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    keys.push(KeyState { first: index, ..KeyState::default() });
                    *new.insert(keys.len() - 1)
                }
            };
            key_of.push(Some(at));
            last = Some((key, at));
        }
        Self { batch, topic, outcomes: vec![None; batch.len()], key_of, keys, wave: 0 }
    }

    pub(super) fn topic_of(&self, at: usize) -> &'a str {
        topic_of(&self.batch[at], self.topic)
    }

    /// The key of a message, as a number within the batch.
    pub(super) fn key_of(&self, at: usize) -> Option<usize> {
        self.key_of[at]
    }

    /// The messages to send next, in the order of the batch.
    pub(super) fn next_wave(&mut self, confirmed: &ConfirmedView<'_>) -> Vec<usize> {
        self.wave += 1;
        let mut wave = Vec::with_capacity(self.batch.len());
        for at in 0..self.batch.len() {
            if self.outcomes[at].is_some() {
                continue;
            }
            let Some(key) = self.key_of[at] else {
                wave.push(at);
                continue;
            };
            let topic = self.topic_of(at);
            let key = &mut self.keys[key];
            if key.is_stopped(at) || (key.wave == self.wave && !key.is_free) {
                continue;
            }
            if key.wave != self.wave {
                key.wave = self.wave;
                let of_partition = self.batch[at].key();
                key.is_free =
                    key.is_confirmed || of_partition.is_some_and(|key| confirmed.has_key(topic, key));
            }
            wave.push(at);
        }
        wave
    }

    /// A new client is used: no partition has accepted a record of it.
    pub(super) fn client_changed(&mut self) {
        self.keys.iter_mut().for_each(|key| key.is_confirmed = false);
    }

    /// Whether an earlier message of its key was not written: this one must not have been either.
    pub(super) fn is_behind(&self, at: usize) -> bool {
        self.is_stopped(at) || self.key_of[at].is_some_and(|key| self.keys[key].held_in == self.wave)
    }

    /// Whether it is the first message of its key in the batch.
    pub(super) fn is_first(&self, at: usize) -> bool {
        self.key_of[at].is_none_or(|key| self.keys[key].first == at)
    }

    /// Whether an earlier message of its key failed, or must not be sent with others.
    pub(super) fn is_stopped(&self, at: usize) -> bool {
        self.key_of[at].is_some_and(|key| self.keys[key].is_stopped(at))
    }

    pub(super) fn acknowledge(&mut self, at: usize, outcome: Outcome) {
        self.outcomes[at] = Some(outcome);
        if let Some(key) = self.key_of[at] {
            self.keys[key].is_confirmed = true;
        }
    }

    /// The message was not sent; it may be sent in another wave.
    pub(super) fn hold(&mut self, at: usize) {
        if let Some(key) = self.key_of[at] {
            self.keys[key].held_in = self.wave;
        }
    }

    /// The message failed, with this outcome; later ones of its key stay untried.
    pub(super) fn stop(&mut self, at: usize, outcome: Outcome) {
        self.outcomes[at] = Some(outcome);
        if let Some(key) = self.key_of[at] {
            let stopped_at = &mut self.keys[key].stopped_at;
            *stopped_at = Some(stopped_at.map_or(at, |before| before.min(at)));
        }
    }

    pub(super) fn set(&mut self, at: usize, outcome: Outcome) {
        self.outcomes[at] = Some(outcome);
    }

    /// Ends it. Messages without an outcome are untried.
    pub(super) fn outcomes(self) -> Vec<Outcome> {
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Untried)).collect()
    }

    /// The messages that may still be sent get this outcome.
    pub(super) fn fail_open(&mut self, outcome: &Outcome) {
        for at in 0..self.batch.len() {
            if self.outcomes[at].is_none() && !self.is_stopped(at) {
                self.outcomes[at] = Some(outcome.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider::sink::{Failure, Receipt};
    use postrider_testkit::conformance::sink::{batch, message};
    use tokio::time::Instant;

    use super::super::confirmed::ConfirmedPartitions;
    use super::*;

    fn messages() -> Vec<Message> {
        let mut messages = batch("a", 0..3);
        messages.extend(batch("b", 0..2));
        messages.push(message("a", 3));
        messages
    }

    fn written() -> Outcome {
        Outcome::Acknowledged(Receipt::default())
    }

    #[test]
    fn the_first_wave_of_a_new_client_has_one_message_per_key() {
        let (messages, confirmed) = (messages(), ConfirmedPartitions::default());
        let mut attempt = Attempt::new(&messages, Some("t"));
        assert_eq!(attempt.next_wave(&confirmed.view(Instant::now())), [0, 3]);
        attempt.acknowledge(0, written());
        attempt.stop(3, Outcome::Failed(Failure::new("refused")));
        assert_eq!(attempt.next_wave(&confirmed.view(Instant::now())), [1, 2, 5], "b is stopped");
        attempt.client_changed();
        assert_eq!(attempt.next_wave(&confirmed.view(Instant::now())), [1]);
    }

    #[test]
    fn keys_of_confirmed_partitions_are_sent_in_one_wave() {
        let (messages, confirmed) = (messages(), ConfirmedPartitions::default());
        let now = Instant::now();
        confirmed.view(now).accepted("t", None, 0);
        confirmed.view(now).set_count("t", 1);
        let mut attempt = Attempt::new(&messages, Some("t"));
        assert_eq!(attempt.next_wave(&confirmed.view(now)), [0, 1, 2, 3, 4, 5]);
        attempt.acknowledge(0, written());
        attempt.hold(1);
        assert!(attempt.is_behind(2) && attempt.is_behind(5) && !attempt.is_behind(4));
        assert!(attempt.is_first(0) && !attempt.is_first(1) && attempt.is_first(3));
        assert_eq!(attempt.next_wave(&confirmed.view(now)), [1, 2, 3, 4, 5]);
        assert!(!attempt.is_behind(2), "it is sent again after the one before it");
        assert_eq!(attempt.outcomes()[1..], vec![Outcome::Untried; 5]);
    }

    #[test]
    fn messages_before_one_that_must_not_be_sent_are_sent() {
        let (messages, confirmed) = (messages(), ConfirmedPartitions::default());
        let now = Instant::now();
        confirmed.view(now).accepted("t", None, 0);
        confirmed.view(now).set_count("t", 1);
        let mut attempt = Attempt::new(&messages, Some("t"));
        attempt.stop(2, Outcome::Untried);
        assert_eq!(attempt.next_wave(&confirmed.view(now)), [0, 1, 3, 4]);
    }
}
