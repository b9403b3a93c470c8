//! Keys and destinations as the brain identifies them: by number.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::Position;

/// Stands for an ordering key. Two keys with one number would only wait for each other, so 64 bits of a
/// keyed hash do; the brain then holds no key texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

/// Stands for a destination name, in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u64);

/// Gives names their numbers. Lives as long as the relay; numbers are never stored.
#[derive(Debug, Clone, Default)]
pub struct IdHasher(RandomState);

impl IdHasher {
    /// The number of an event's key. An event without a key is alone: its position is its key.
    pub fn key(&self, key: Option<&str>, position: Position) -> KeyId {
        match key {
            Some(key) => KeyId(self.0.hash_one(key)),
            None => KeyId(self.0.hash_one(position)),
        }
    }

    /// The number of a destination.
    pub fn destination(&self, name: &str) -> DestinationId {
        DestinationId(self.0.hash_one(name))
    }
}

/// Hashes what is a good hash already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A map by number.
pub(super) type IdMap<K, V> = std::collections::HashMap<K, V, std::hash::BuildHasherDefault<IdentityHasher>>;
