//! The partitions that have accepted a record of a client.
//!
//! A broker accepts the records of an idempotent client only in sequence, but it knows the client only after the first
//! record that it accepted. Until then it would accept a later record although it refused an earlier one. The same
//! happens after a long pause, when the broker has forgotten the client.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a partition is confirmed. Brokers forget a client after a day without records by default.
const CONFIRMED_MAX: Duration = Duration::from_secs(60);

/// The confirmed partitions of one client.
#[derive(Debug, Default)]
pub(super) struct ConfirmedPartitions {
    topics: Mutex<HashMap<String, TopicPartitions>>,
}

#[derive(Debug, Default)]
struct TopicPartitions {
    /// When each partition last accepted a record.
    accepted: Vec<Option<Instant>>,
    /// The number of partitions is known.
    is_counted: bool,
}

impl ConfirmedPartitions {
    /// Answers for many messages with one lock.
    pub(super) fn view(&self, now: Instant) -> ConfirmedView<'_> {
        ConfirmedView { topics: self.topics.lock().unwrap_or_else(PoisonError::into_inner), now }
    }
}

pub(super) struct ConfirmedView<'a> {
    topics: MutexGuard<'a, HashMap<String, TopicPartitions>>,
    now: Instant,
}

impl ConfirmedView<'_> {
    /// Whether the partition of this key is confirmed.
    pub(super) fn has_key(&self, topic: &str, key: &str) -> bool {
        let Some(topic) = self.topics.get(topic).filter(|topic| topic.is_counted) else { return false };
        let accepted = partition(key, topic.accepted.len()).and_then(|at| topic.accepted.get(at));
        matches!(accepted, Some(Some(at)) if self.now.duration_since(*at) < CONFIRMED_MAX)
    }

    /// A record with this key was accepted by this partition.
    pub(super) fn accepted(&mut self, topic: &str, key: Option<&str>, at: i32) {
        let Ok(at) = usize::try_from(at) else { return };
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), TopicPartitions::default());
        }
        let Some(topic) = self.topics.get_mut(topic) else { return };
        if topic.is_counted
            && let Some(key) = key
            && partition(key, topic.accepted.len()) != Some(at)
        {
            // The topic has more partitions now.
            topic.is_counted = false;
        }
        if topic.accepted.len() <= at {
            topic.accepted.resize(at + 1, None);
            topic.is_counted = false;
        }
        topic.accepted[at] = Some(self.now);
    }

    /// Whether the number of partitions of a topic with a confirmed partition is not known.
    pub(super) fn needs_count(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|topic| !topic.is_counted)
    }

    pub(super) fn set_count(&mut self, topic: &str, partitions: usize) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.accepted.resize(partitions, None);
            topic.is_counted = true;
        }
    }
}

/// The partition of a key, as the client's partitioner `murmur2_random` and Java clients choose it.
fn partition(key: &str, partitions: usize) -> Option<usize> {
    let hash = usize::try_from(murmur2(key.as_bytes()) & 0x7fff_ffff).ok()?;
    hash.checked_rem(partitions)
}

fn murmur2(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mix = |hash: u32| (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    // Kafka limits a key to less than 2 GiB.
    let mut hash = SEED ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0, |word: u32, byte| (word << 8) | u32::from(*byte));
        let word = word.wrapping_mul(MULTIPLIER);
        let word = (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let rest = rest.iter().rev().fold(0, |word: u32, byte| (word << 8) | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(MULTIPLIER);
    }
    let hash = mix(hash);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_key_is_that_of_java_clients() {
        // The values of the tests of Kafka's client.
        assert_eq!(murmur2(b"21"), (-973_932_308_i32).cast_unsigned());
        assert_eq!(murmur2(b"foobar"), (-790_332_482_i32).cast_unsigned());
        assert_eq!(murmur2(b"a-little-bit-long-string"), (-985_981_536_i32).cast_unsigned());
        assert_eq!(partition("", 6), Some((murmur2(b"") & 0x7fff_ffff) as usize % 6));
        assert_eq!(partition("a", 0), None);
    }

    #[test]
    fn a_partition_is_confirmed_for_a_minute_after_it_accepted_a_record() {
        let confirmed = ConfirmedPartitions::default();
        let (of_a, of_b) = (partition("a", 6).unwrap(), partition("c", 6).unwrap());
        assert_ne!(of_a, of_b);
        let now = Instant::now();
        let accept = |at| confirmed.view(at).accepted("t", Some("a"), i32::try_from(of_a).unwrap());
        accept(now);
        assert!(confirmed.view(now).needs_count("t"));
        assert!(!confirmed.view(now).has_key("t", "a"), "the number of partitions is not known");
        confirmed.view(now).set_count("t", 6);
        assert!(confirmed.view(now).has_key("t", "a"));
        assert!(!confirmed.view(now).has_key("t", "c"));
        assert!(!confirmed.view(now).has_key("other", "a"));
        let later = now + CONFIRMED_MAX;
        assert!(!confirmed.view(later).has_key("t", "a"), "the broker may have forgotten the client");
        accept(later);
        assert!(confirmed.view(later).has_key("t", "a"));
    }

    #[test]
    fn a_topic_with_more_partitions_is_counted_again() {
        let confirmed = ConfirmedPartitions::default();
        let mut view = confirmed.view(Instant::now());
        view.accepted("t", None, 0);
        view.set_count("t", 1);
        assert!(view.has_key("t", "a"));
        let moved = i32::try_from(partition("a", 6).unwrap()).unwrap();
        assert_ne!(moved, 0);
        view.accepted("t", Some("a"), moved);
        assert!(view.needs_count("t"));
        assert!(!view.has_key("t", "a"));
    }
}
