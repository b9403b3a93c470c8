//! Databases of one kind that share the rows of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use uuid::Uuid;

use super::CommitError;
use super::plan::{Change, StagedEvent};
use crate::{Code, Error, Event, Result};

/// The highest member of a group: six bits.
const MEMBER_MAX: u8 = 63;

/// One of several databases with the same tables: a group (0 to 255) and a member of it (0 to 63).
///
/// An id that [`Shard::new_id`] created contains its shard: a UUIDv7 has 48 bits of time, and the 14 bits after its variant
/// are member and group. Any other id contains random bits there, so an entity must declare that its ids carry a shard, with
/// `#[model(sharded)]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    group: u8,
    member: u8,
}

impl Shard {
    /// The shard of entities that are not sharded, and of ids whose shard is not registered.
    pub const DEFAULT: Self = Self { group: 0, member: 0 };

    /// A shard by its number.
    ///
    /// # Errors
    /// [`Code::ExecutorInvalid`] if the member is larger than 63.
    pub fn new(group: u8, member: u8) -> Result<Self> {
        if member > MEMBER_MAX {
            let what = format!("member {member} of a group of shards; the limit is {MEMBER_MAX}");
            return Err(Error::new(Code::ExecutorInvalid, what));
        }
        Ok(Self { group, member })
    }

    /// Its group.
    pub fn group(self) -> u8 {
        self.group
    }

    /// Its member.
    pub fn member(self) -> u8 {
        self.member
    }

    /// A new UUIDv7 that carries this shard. Ids of different milliseconds are in the order of their time.
    pub fn new_id(self) -> Uuid {
        let mut bytes = Uuid::now_v7().into_bytes();
        // The two highest bits of this byte are the variant.
        bytes[8] = (bytes[8] & 0b1100_0000) | self.member;
        bytes[9] = self.group;
        Uuid::from_bytes(bytes)
    }

    /// The shard that an id carries.
    pub fn of(id: &Uuid) -> Self {
        let bytes = id.as_bytes();
        Self { group: bytes[9], member: bytes[8] & MEMBER_MAX }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.member)
    }
}

/// Which events a shard gets, if an action changes rows of several shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AcrossShards {
    /// Each shard gets all events of the action, with the same ids. The relays of all shards publish them, and the inbox of a
    /// consumer recognises the copies.
    #[default]
    Copies,
    /// Each shard gets the events of its own models, or the record of an action without events.
    Own,
}

/// The databases of an executor. Shards may be added while it runs.
pub(super) struct Databases<D> {
    default: Arc<D>,
    others: RwLock<BTreeMap<Shard, Arc<D>>>,
}

impl<D> Databases<D> {
    pub(super) fn new(default: D) -> Self {
        Self { default: Arc::new(default), others: RwLock::default() }
    }

    /// The first database stays the one of [`Shard::DEFAULT`] unless that is inserted, too.
    pub(super) fn insert(&self, shard: Shard, database: D) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).insert(shard, Arc::new(database));
    }

    /// The shard that stores the rows of this one, and its database: the default if it is not registered.
    fn resolve(&self, shard: Shard) -> (Shard, Arc<D>) {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        match others.get(&shard) {
            Some(database) => (shard, database.clone()),
            None => {
                let default = others.get(&Shard::DEFAULT).unwrap_or(&self.default);
                (Shard::DEFAULT, default.clone())
            }
        }
    }
}

/// What one shard has to write.
pub(super) struct Part<D> {
    pub(super) shard: Shard,
    pub(super) database: Arc<D>,
    pub(super) changes: Vec<Change>,
    pub(super) events: Vec<Event>,
}

/// Divides a plan by shard, in the order of the shards: two actions that change the same shards lock them in the same order.
/// A plan without rows belongs to the default shard.
///
/// # Errors
/// [`Code::ShardsMixed`] if there are several shards and the call does not allow it.
pub(super) fn parts<D>(
    databases: &Databases<D>,
    changes: Vec<Change>,
    events: Vec<StagedEvent>,
    across: Option<AcrossShards>,
) -> Result<Vec<Part<D>>> {
    let mut parts: BTreeMap<Shard, Part<D>> = BTreeMap::new();
    let mut part_of = |staged: Shard, change: Option<Change>| {
        let (shard, database) = databases.resolve(staged);
        let new = || Part { shard, database, changes: Vec::new(), events: Vec::new() };
        parts.entry(shard).or_insert_with(new).changes.extend(change);
    };
    if changes.is_empty() {
        part_of(Shard::DEFAULT, None);
    }
    changes.into_iter().for_each(|change| part_of(change.shard(), Some(change)));
    if parts.len() > 1 && across.is_none() {
        let shards: Vec<String> = parts.keys().map(Shard::to_string).collect();
        let what = format!("the action changes rows of the shards {}", shards.join(", "));
        return Err(Error::new(Code::ShardsMixed, what));
    }
    for StagedEvent { shard, event } in events {
        let (own, _) = databases.resolve(shard);
        for part in parts.values_mut() {
            if part.shard == own || across != Some(AcrossShards::Own) {
                part.events.push(event.clone());
            }
        }
    }
    Ok(parts.into_values().collect())
}

/// The report of an action that is committed on some shards only.
pub(super) fn diverged(
    action: Uuid,
    committed: &[Shard],
    failed: Shard,
    failure: CommitError,
    rolled_back: &[Shard],
) -> Error {
    let list = |shards: &[Shard]| match shards {
        [] => "none".to_owned(),
        shards => shards.iter().map(Shard::to_string).collect::<Vec<_>>().join(", "),
    };
    let (outcome, error) = match failure {
        CommitError::RolledBack(error) => ("refused the commit", error),
        CommitError::Unknown(error) => ("lost the connection, its outcome is unknown", error),
    };
    let what = format!(
        "action {action}: committed on shards {}; shard {failed} {outcome}; rolled back on shards {}",
        list(committed),
        list(rolled_back)
    );
    Error::new(Code::ShardsDiverged, what).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_survives_in_an_id_that_is_still_a_version_7() {
        for group in 0..=255 {
            for member in 0..=63 {
                let shard = Shard::new(group, member).unwrap();
                let id = shard.new_id();
                assert_eq!(Shard::of(&id), shard);
                assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
            }
        }
        assert_eq!(Shard::new(0, 64).unwrap_err().code(), Code::ExecutorInvalid);
    }
}
