//! The settings of an executor.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use super::executor::{Executor, Inner, ParamsSerializer};
use super::names::{NameKind, NameRegistry};
use super::repository::{ErasedRepository, RepositoryOf};
use super::retry::RetryPolicy;
use super::{Action, Database, Entity, EventPersister, Repository, Retry, RetryOn, Shard, Shards};
use crate::{Clock, Code, Error, Outbox, Result, SystemClock};

/// Bytes of a namespace: the columns for it have 255 characters.
const NAMESPACE_BYTES_MAX: usize = 255;

/// Builds an [`Executor`].
#[must_use]
pub struct ExecutorBuilder<D: Database> {
    databases: Shards<D>,
    namespace: Option<String>,
    principal: Option<String>,
    persister: Box<dyn EventPersister<D>>,
    repositories: HashMap<TypeId, Box<dyn ErasedRepository<D>>>,
    actions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    names: NameRegistry,
    clock: Arc<dyn Clock>,
    retry: RetryPolicy,
    serializer: Option<ParamsSerializer>,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
    /// The first mistake; [`build`](Self::build) returns it.
    refused: Option<Error>,
}

impl<D: Database> ExecutorBuilder<D> {
    pub(super) fn new(databases: Shards<D>) -> Self {
        Self {
            databases,
            namespace: None,
            principal: None,
            persister: Box::new(Outbox::new()),
            repositories: HashMap::new(),
            actions: HashMap::new(),
            names: NameRegistry::default(),
            clock: Arc::new(SystemClock::new()),
            retry: RetryPolicy::default(),
            serializer: None,
            wake: None,
            refused: None,
        }
    }

    /// The name of the service: identifiers separated by dots, for example `com.example.finance`. Required. It is on every
    /// event.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Another database with the same tables, for the rows of this shard.
    pub fn shard(self, shard: Shard, database: D) -> Self {
        self.databases.add(shard, database);
        self
    }

    /// A repository for the rows of one entity type. An action that stages a type without a repository fails.
    pub fn repository<M: Entity, R: Repository<M, D>>(mut self, repository: R) -> Self {
        let reserved = self.names.reserve::<M>(NameKind::Model, M::NAME);
        self.note(reserved);
        let repository = Box::new(RepositoryOf::<M, R>::new(repository));
        if self.repositories.insert(TypeId::of::<M>(), repository).is_some() {
            let what = format!("there are two repositories for {}", M::NAME);
            self.note(Err(Error::new(Code::ExecutorInvalid, what)));
        }
        self
    }

    /// An action that [`Executor::execute`] may run.
    pub fn action<A: Action>(mut self, action: A) -> Self {
        let reserved = self.names.reserve::<A>(NameKind::Action, A::NAME);
        self.note(reserved);
        if self.actions.insert(TypeId::of::<A>(), Arc::new(action)).is_some() {
            let what = format!("the action {} is registered twice", A::NAME);
            self.note(Err(Error::new(Code::ExecutorInvalid, what)));
        }
        self
    }

    /// Where events are written: [`Outbox::new`] if not given, with the table of another layout or another schema otherwise.
    pub fn outbox(self, outbox: Outbox) -> Self {
        self.persister(outbox)
    }

    /// Writes the events instead of an [`Outbox`].
    pub fn persister(mut self, persister: impl EventPersister<D>) -> Self {
        self.persister = Box::new(persister);
        self
    }

    /// On whose behalf actions run, for calls that do not name a principal.
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// The clock for the times of actions and events, and for the time between two tries.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How often an action runs again after an error of this kind. The default for every kind is once, after 100 ms.
    pub fn retry(mut self, on: RetryOn, retry: Retry) -> Self {
        self.retry.set(on, retry);
        self
    }

    /// How the parameters of an action become JSON, for example without secrets. The function gets the name of the action and
    /// the parameters as serde sees them. Without it, they are stored as they are.
    pub fn serialize_params(
        mut self,
        serializer: impl Fn(&str, serde_json::Value) -> Result<String> + Send + Sync + 'static,
    ) -> Self {
        self.serializer = Some(Box::new(serializer));
        self
    }

    /// Called after every commit, for example with [`RelayHandle::wake`](crate::RelayHandle) of a relay in this process. A
    /// relay elsewhere polls.
    pub fn wake(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }

    /// The executor. Nothing was sent to a database.
    ///
    /// # Errors
    /// [`Code::ExecutorInvalid`] if the namespace is missing or not valid, or if something is registered twice;
    /// [`Code::NameTwice`] if two types have one name.
    pub fn build(self) -> Result<Executor<D>> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let namespace = checked_namespace(self.namespace)?;
        Ok(Executor::from_inner(Inner {
            databases: self.databases,
            namespace,
            principal: self.principal,
            persister: self.persister,
            repositories: self.repositories,
            actions: self.actions,
            names: Arc::new(self.names),
            clock: self.clock,
            retry: self.retry,
            serializer: self.serializer,
            wake: self.wake,
        }))
    }

    fn note(&mut self, result: Result<()>) {
        if let (Err(error), None) = (result, &self.refused) {
            self.refused = Some(error);
        }
    }
}

impl<D: Database> std::fmt::Debug for ExecutorBuilder<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutorBuilder").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn checked_namespace(namespace: Option<String>) -> Result<String> {
    let missing = || Error::new(Code::ExecutorInvalid, "the executor has no namespace");
    let namespace = namespace.ok_or_else(missing)?;
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if namespace.len() <= NAMESPACE_BYTES_MAX && namespace.split('.').all(is_part) {
        return Ok(namespace);
    }
    let what = format!("the namespace {namespace:?} is not a list of identifiers separated by dots");
    Err(Error::new(Code::ExecutorInvalid, what)
        .with_hint("use letters, digits and '_', for example com.example.finance, at most 255 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_identifiers_between_dots() {
        for good in ["shop", "com.example.finance", "_a.b2"] {
            assert_eq!(checked_namespace(Some(good.to_owned())).unwrap(), good);
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "2a", "a-b", "a.é", &"x".repeat(256)] {
            let error = checked_namespace(Some(bad.to_owned())).unwrap_err();
            assert_eq!(error.code(), Code::ExecutorInvalid, "{bad:?}");
        }
        assert_eq!(checked_namespace(None).unwrap_err().code(), Code::ExecutorInvalid);
    }
}
