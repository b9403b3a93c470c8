//! Splits a batch into waves: each contains at most one message of a key, and the next one begins when every message of
//! this one has its outcome. A message that is not acknowledged stops its key, so no later message of the key is sent:
//! a sink that sends in waves is prefix safe.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use postrider::sink::{Message, Outcome};

/// The waves of a batch, and its outcomes so far. A message without an outcome is untried.
pub(crate) struct Waves {
    waiting: VecDeque<Vec<usize>>,
    outcomes: Vec<Outcome>,
    /// The message of the same key after this one, by index.
    next: Vec<Option<usize>>,
    stopped: Vec<bool>,
}

impl Waves {
    pub(crate) fn of(batch: &[Message]) -> Self {
        let mut waiting: VecDeque<Vec<usize>> = VecDeque::new();
        let mut next = vec![None; batch.len()];
        // The wave of the newest message of each key, and its index.
        let mut newest: HashMap<Cow<'_, str>, (usize, usize)> = HashMap::new();
        for (at, message) in batch.iter().enumerate() {
            let wave = match message.ordering_key() {
                None => 0,
                Some(key) => {
                    let wave = newest.get(&key).map_or(0, |(wave, _)| wave + 1);
                    if let Some((_, before)) = newest.insert(key, (wave, at)) {
                        next[before] = Some(at);
                    }
                    wave
                }
            };
            match waiting.get_mut(wave) {
                Some(wave) => wave.push(at),
                None => waiting.push_back(vec![at]),
            }
        }
        Self {
            waiting,
            outcomes: vec![Outcome::Untried; batch.len()],
            next,
            stopped: vec![false; batch.len()],
        }
    }

    /// The messages to send next, by index, in the order of the batch. `None`: nothing is left.
    pub(crate) fn next(&mut self) -> Option<Vec<usize>> {
        while let Some(mut wave) = self.waiting.pop_front() {
            wave.retain(|at| !self.stopped[*at]);
            if !wave.is_empty() {
                return Some(wave);
            }
        }
        None
    }

    /// Records the outcome of a message. Unless it is acknowledged, the later messages of its key stay untried.
    pub(crate) fn settle(&mut self, at: usize, outcome: Outcome) {
        let mut later = match outcome {
            Outcome::Acknowledged(_) => None,
            _ => self.next[at],
        };
        self.outcomes[at] = outcome;
        while let Some(at) = later {
            self.stopped[at] = true;
            later = self.next[at];
        }
    }

    /// The outcomes of the batch, in its order.
    pub(crate) fn into_outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }
}

#[cfg(test)]
mod tests {
    use postrider::sink::{Failure, Receipt};
    use postrider_testkit::conformance::sink::message;

    use super::*;

    fn acknowledge(waves: &mut Waves, wave: &[usize]) {
        wave.iter().for_each(|at| waves.settle(*at, Outcome::Acknowledged(Receipt::default())));
    }

    #[test]
    fn a_wave_contains_each_key_once_and_keys_keep_their_order() {
        let keys = ["a", "b", "a", "c", "a", "b"];
        let batch: Vec<Message> = keys.iter().enumerate().map(|(at, key)| message(key, at)).collect();
        let mut waves = Waves::of(&batch);
        let mut found = Vec::new();
        while let Some(wave) = waves.next() {
            acknowledge(&mut waves, &wave);
            found.push(wave);
        }
        assert_eq!(found, [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert!(waves.into_outcomes().iter().all(|outcome| matches!(outcome, Outcome::Acknowledged(_))));
    }

    #[test]
    fn a_failure_stops_its_key_and_no_other() {
        let batch: Vec<Message> = ["a", "b", "a", "b", "a"].iter().map(|key| message(key, 0)).collect();
        let mut waves = Waves::of(&batch);
        assert_eq!(waves.next(), Some(vec![0, 1]));
        waves.settle(0, Outcome::Retryable(Failure::new("no")));
        acknowledge(&mut waves, &[1]);
        assert_eq!(waves.next(), Some(vec![3]));
        acknowledge(&mut waves, &[3]);
        assert_eq!(waves.next(), None);
        let outcomes = waves.into_outcomes();
        assert_eq!((&outcomes[2], &outcomes[4]), (&Outcome::Untried, &Outcome::Untried));
    }
}
