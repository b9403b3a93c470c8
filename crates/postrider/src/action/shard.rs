//! Databases of one kind that share the rows of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use uuid::Uuid;

use super::CommitError;
use super::plan::{Change, StagedEvent};
use crate::{Code, Error, Event, Result, Shard};

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

/// The databases of a service by shard, each with the same tables. An [`Executor`](super::Executor) writes to them and
/// `SqlxRepository` reads from them. Cheap to clone; clones share the databases, also those that are added later.
///
/// Rows of a shard that is not registered are on the default database. So register a shard in every instance of the service
/// before the first id of it is created, and never one whose rows are elsewhere.
pub struct Shards<D>(Arc<Registry<D>>);

struct Registry<D> {
    default: Arc<D>,
    others: RwLock<BTreeMap<Shard, Arc<D>>>,
}

impl<D> Shards<D> {
    /// One database for everything: that of [`Shard::DEFAULT`].
    pub fn new(default: D) -> Self {
        Self(Arc::new(Registry { default: Arc::new(default), others: RwLock::default() }))
    }

    /// Adds a database for a shard, or replaces it.
    #[must_use]
    pub fn with(self, shard: Shard, database: D) -> Self {
        self.add(shard, database);
        self
    }

    /// As [`with`](Self::with), while the service runs. Calls in progress keep the database that they began with.
    pub fn add(&self, shard: Shard, database: D) {
        let mut others = self.0.others.write().unwrap_or_else(PoisonError::into_inner);
        others.insert(shard, Arc::new(database));
    }

    /// The database with the rows of this shard: the default if it is not registered.
    pub fn get(&self, shard: Shard) -> Arc<D> {
        self.resolve(shard).1
    }

    /// Whether there is more than the first database.
    pub(super) fn has_shards(&self) -> bool {
        !self.0.others.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The shard that stores the rows of this one, and its database.
    fn resolve(&self, shard: Shard) -> (Shard, Arc<D>) {
        let others = self.0.others.read().unwrap_or_else(PoisonError::into_inner);
        match others.get(&shard) {
            Some(database) => (shard, database.clone()),
            None => {
                let default = others.get(&Shard::DEFAULT).unwrap_or(&self.0.default);
                (Shard::DEFAULT, default.clone())
            }
        }
    }

    /// Every database.
    pub(super) fn all(&self) -> Vec<(Shard, Arc<D>)> {
        let default = (Shard::DEFAULT, self.get(Shard::DEFAULT));
        let others = self.0.others.read().unwrap_or_else(PoisonError::into_inner);
        let others = others.iter().filter(|(shard, _)| **shard != Shard::DEFAULT);
        std::iter::once(default).chain(others.map(|(shard, database)| (*shard, database.clone()))).collect()
    }
}

impl<D> Clone for Shards<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D> fmt::Debug for Shards<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.0.others.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entry(&Shard::DEFAULT).entries(others.keys()).finish()
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
    databases: &Shards<D>,
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
