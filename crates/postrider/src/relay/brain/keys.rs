//! Ids of keys and destinations: the brain stores no texts.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::Position;

/// The id of an ordering key: a keyed 64-bit hash. If two keys collide, their events only wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

/// The id of a destination name, computed in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u64);

/// Computes ids. They are valid as long as the relay runs and are never stored.
#[derive(Debug, Clone, Default)]
pub struct IdHasher(RandomState);

impl IdHasher {
    /// The id of an event's key. An event without a key is ordered with no other: its position is its key.
    pub fn key(&self, key: Option<&str>, position: Position) -> KeyId {
        match key {
            Some(key) => KeyId(self.0.hash_one(key)),
            None => KeyId(self.0.hash_one(position)),
        }
    }

    /// The id of a destination.
    pub fn destination(&self, name: &str) -> DestinationId {
        DestinationId(self.0.hash_one(name))
    }
}

/// Uses an id as its own hash.
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

/// A map by id.
pub(super) type IdMap<K, V> = std::collections::HashMap<K, V, std::hash::BuildHasherDefault<IdentityHasher>>;
