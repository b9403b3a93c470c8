//! Performs actions and writes their plans.

mod in_transaction;
mod received;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Instrument;
use uuid::Uuid;

use super::builder::ExecutorBuilder;
use super::call::{CallOptions, OnceKey};
use super::names::NameRegistry;
use super::plan::{Change, PlanContext};
use super::repository::ErasedRepository;
use super::retry::{Retries, RetryPolicy};
use super::shard::{Part, diverged, parts};
use super::telemetry::Observed;
use super::{
    AcrossShards, Action, Call, CommitError, Database, EventPersister, Performed, Plan, Shard, Shards,
};
use crate::event;
use crate::inbox::{Once, Received};
use crate::{Clock, Code, Error, Result, Timestamp};

tokio::task_local! {
    /// The action that this task executes.
    static EXECUTING: &'static str;
}

/// Turns parameters into JSON; see [`ExecutorBuilder::serialize_params`].
pub(super) type ParamsSerializer = Box<dyn Fn(&str, serde_json::Value) -> Result<String> + Send + Sync>;

/// Executes actions: performs them, and writes their rows and events in one transaction. Cheap to clone; one per program is
/// enough.
pub struct Executor<D: Database>(Arc<Inner<D>>);

pub(super) struct Inner<D: Database> {
    pub(super) databases: Shards<D>,
    pub(super) namespace: String,
    pub(super) principal: Option<String>,
    pub(super) persister: Box<dyn EventPersister<D>>,
    pub(super) repositories: HashMap<TypeId, Box<dyn ErasedRepository<D>>>,
    pub(super) actions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) names: Arc<NameRegistry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) retry: RetryPolicy,
    pub(super) serializer: Option<ParamsSerializer>,
    pub(super) wake: Option<Box<dyn Fn() + Send + Sync>>,
}

/// One call of `execute`, over all of its tries.
struct Execution {
    name: &'static str,
    id: Uuid,
    params: String,
    principal: Option<String>,
    started: Timestamp,
    across_shards: Option<AcrossShards>,
    once: Option<OnceKey>,
}

/// The caller of `execute` waits as long as this exists. Its transaction checks that between two statements.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the caller has dropped its future.
struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// # Errors
    /// If it has. No caller receives this error; it makes the transaction roll back.
    fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Error::new(Code::StoreFailed, "the caller does not wait any more")),
            false => Ok(()),
        }
    }
}

impl<D: Database> Executor<D> {
    /// An executor that writes to this database.
    pub fn builder(database: D) -> ExecutorBuilder<D> {
        ExecutorBuilder::new(Shards::new(database))
    }

    /// An executor that writes each row to the database of its shard.
    pub fn sharded(databases: Shards<D>) -> ExecutorBuilder<D> {
        ExecutorBuilder::new(databases)
    }

    pub(super) fn from_inner(inner: Inner<D>) -> Self {
        Self(Arc::new(inner))
    }

    /// Adds a database for a shard, or replaces it. Calls that are running keep the one that they began with.
    pub fn add_shard(&self, shard: Shard, database: D) {
        self.0.databases.add(shard, database);
    }

    /// Performs the action, and then writes its rows and events in one transaction.
    ///
    /// If the process dies, or the future is dropped, either everything is committed or nothing is. If another transaction
    /// changed a staged row in between, the action runs again with a new plan, once after 100 ms by default.
    ///
    /// # Errors
    /// An error of the action ends the execution; nothing was written. Of the executor:
    /// - [`Code::ActionStale`]: a row was changed by others in every try.
    /// - [`Code::StoreBusy`]: deadlocks or locks, in every try.
    /// - [`Code::ActionOutcomeUnknown`]: the connection was lost during the COMMIT. It is not tried again.
    /// - [`Code::ActionNested`]: this task executes an action already. A task that the action spawned is not recognised.
    /// - [`Code::ActionUnregistered`], [`Code::PlanInvalid`], [`Code::NameTwice`]: mistakes of the program, before any SQL.
    /// - Errors of the database and of refused events. The transaction was rolled back.
    ///
    /// # Cancel safety
    /// The transaction runs in its own task. If the future is dropped before the COMMIT is sent, the task rolls back after the
    /// statement that it is in. After that, the action is committed. Rows and events always share the outcome.
    pub async fn execute<A: Action>(&self, params: A::Params) -> Result<A::Output, A::Error> {
        self.call::<A>(params).execute().await
    }

    /// A call with options.
    pub fn call<A: Action>(&self, params: A::Params) -> Call<'_, D, A> {
        Call::new(self, params)
    }

    pub(super) async fn run<A: Action>(
        &self,
        params: &A::Params,
        options: CallOptions,
    ) -> Result<Once<A::Output>, A::Error> {
        let (action, execution) = self.start::<A>(params, &options)?;
        let principal = execution.principal.as_deref();
        let mut observed = Observed::begin(A::NAME, execution.id, principal, self.0.clock.clone());
        let span = observed.span();
        let attempts = self.attempts(&*action, params, &execution, &mut observed);
        EXECUTING.scope(A::NAME, attempts).instrument(span).await
    }

    pub(super) async fn perform_only<A: Action>(
        &self,
        params: &A::Params,
        options: CallOptions,
    ) -> Result<(A::Output, Plan), A::Error> {
        let (action, execution) = self.start::<A>(params, &options)?;
        let mut plan = self.new_plan(&execution);
        let output = EXECUTING.scope(A::NAME, action.perform(&mut plan, params)).await?;
        plan.check()?;
        Ok((output, plan))
    }

    fn start<A: Action>(
        &self,
        params: &A::Params,
        options: &CallOptions,
    ) -> Result<(Arc<A>, Arc<Execution>)> {
        if let Ok(outer) = EXECUTING.try_with(|outer| *outer) {
            let what = format!("the action {} was executed inside the action {outer}", A::NAME);
            return Err(Error::new(Code::ActionNested, what));
        }
        let found = self.0.actions.get(&TypeId::of::<A>()).cloned();
        let action = found.and_then(|action| action.downcast::<A>().ok()).ok_or_else(|| {
            Error::new(Code::ActionUnregistered, format!("the action {} is not registered", A::NAME))
        })?;
        let execution = Execution {
            name: A::NAME,
            id: options.action_id.unwrap_or_else(Uuid::now_v7),
            params: self.serialized::<A>(params)?,
            principal: options.principal.clone().or_else(|| self.0.principal.clone()),
            started: self.0.clock.now().wall,
            across_shards: options.across_shards,
            once: options.once.clone(),
        };
        Ok((action, Arc::new(execution)))
    }

    fn serialized<A: Action>(&self, params: &A::Params) -> Result<String> {
        let failed = |error| {
            let what = format!("the parameters of {} cannot be serialised as JSON", A::NAME);
            Error::new(Code::ParamsInvalid, what).with_source(error)
        };
        match &self.0.serializer {
            None => serde_json::to_string(params).map_err(failed),
            Some(serializer) => serializer(A::NAME, serde_json::to_value(params).map_err(failed)?),
        }
    }

    fn new_plan(&self, execution: &Execution) -> Plan {
        Plan::new(PlanContext {
            action_id: execution.id,
            principal: execution.principal.clone(),
            started: execution.started,
            clock: self.0.clock.clone(),
            names: self.0.names.clone(),
            events_max: self.0.persister.events_max(),
        })
    }

    /// Performs and persists until it is written, or until it must not be tried again.
    async fn attempts<A: Action>(
        &self,
        action: &A,
        params: &A::Params,
        execution: &Arc<Execution>,
        observed: &mut Observed,
    ) -> Result<Once<A::Output>, A::Error> {
        let mut retries = Retries::default();
        loop {
            let mut plan = self.new_plan(execution);
            let output = match observed.perform(action.perform(&mut plan, params)).await {
                Ok(output) => output,
                // What the action found may be its own effect.
                Err(error) => match self.is_received(execution).await {
                    Ok(true) => {
                        observed.duplicate();
                        return Ok(Once::Duplicate);
                    }
                    Ok(false) => {
                        observed.refused();
                        return Err(error);
                    }
                    Err(unknown) => {
                        observed.failed(&unknown);
                        return Err(unknown.into());
                    }
                },
            };
            let completed = self.0.clock.now().wall;
            let persisted = observed.persist(plan.len(), self.persist(plan, execution, completed)).await;
            let error = match persisted {
                Ok(Received::First) => {
                    observed.committed();
                    return Ok(Once::Applied(output));
                }
                Ok(Received::Duplicate) => {
                    observed.duplicate();
                    return Ok(Once::Duplicate);
                }
                Err(error) => error,
            };
            let Some((on, delay)) = retries.next(&self.0.retry, &error) else {
                observed.failed(&error);
                return Err(error.into());
            };
            observed.retry(on);
            tracing::debug!(action = A::NAME, action_id = %execution.id, %error, "the action runs again");
            let due = self.0.clock.now().elapsed.saturating_add(delay);
            self.0.clock.sleep_until(due).await;
        }
    }

    /// Writes a plan in its own task: a driver whose future is dropped in the middle of a statement may lose the order of the
    /// answers on its connection (sqlx 0.9.0 does, on MySQL, if it was preparing the statement), and then take the answer of one
    /// statement for that of another. If the caller is dropped, the task rolls back between two statements.
    async fn persist(
        &self,
        plan: Plan,
        execution: &Arc<Execution>,
        completed: Timestamp,
    ) -> Result<Received> {
        let (changes, events) = plan.into_parts()?;
        // Without rows nothing leads to the shard whose inbox may have the call.
        let has_no_shard = execution.once.is_some() && changes.is_empty() && self.0.databases.has_shards();
        if has_no_shard && self.is_received(execution).await? {
            return Ok(Received::Duplicate);
        }
        // The row of the inbox is in one database.
        let across = execution.across_shards.filter(|_| execution.once.is_none());
        let parts = parts(&self.0.databases, changes, events, across)?;
        for change in parts.iter().flat_map(|part| &part.changes) {
            self.repository(change)?;
        }
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let (_waiting, abandoned) = (Waiting(is_abandoned.clone()), Abandoned(is_abandoned));
        let (executor, execution) = (self.clone(), execution.clone());
        let (id, name) = (execution.id, execution.name);
        let transaction = async move { executor.transact(parts, &execution, completed, &abandoned).await };
        match tokio::spawn(EXECUTING.scope(name, transaction).in_current_span()).await {
            Ok(written) => written,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => Err(outcome_unknown(id, name)),
            },
        }
    }

    /// On every shard that takes part one transaction. All are written before the first is committed.
    async fn transact(
        &self,
        parts: Vec<Part<D>>,
        execution: &Execution,
        completed: Timestamp,
        abandoned: &Abandoned,
    ) -> Result<Received> {
        let mut written = Vec::with_capacity(parts.len());
        let mut failed = None;
        for part in parts {
            let shard = part.shard;
            match self.write_part(part, execution, completed, abandoned).await {
                Ok(Some(tx)) => written.push((shard, tx)),
                // A call that is executed once has one part.
                Ok(None) => return Ok(Received::Duplicate),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failed.or_else(|| abandoned.check().err()) {
            for (_, tx) in written {
                D::rollback(tx).await;
            }
            return Err(error);
        }
        let committed = commit_all::<D>(written, execution).await;
        if committed.as_ref().err().is_none_or(|error| error.code() == Code::ShardsDiverged) {
            self.wake();
        }
        committed.map(|()| Received::First)
    }

    /// Wakes the relay. A panic of the caller's function does not hide that the action is committed.
    fn wake(&self) {
        let Some(wake) = &self.0.wake else { return };
        if std::panic::catch_unwind(AssertUnwindSafe(&**wake)).is_err() {
            tracing::error!("the function that wakes the relay panicked; the action is committed");
        }
    }

    /// Writes the rows and events of one shard, and leaves the transaction open. `None`: the call was executed before.
    async fn write_part(
        &self,
        part: Part<D>,
        execution: &Execution,
        completed: Timestamp,
        abandoned: &Abandoned,
    ) -> Result<Option<D::Transaction>> {
        let begun = part.database.begin().await;
        let mut tx = begun.map_err(|error| error.with_message("the transaction could not be begun"))?;
        let written = match &execution.once {
            None => Ok(Received::First),
            Some(OnceKey { inbox, group, id }) => D::receive(&mut tx, inbox, group, *id).await,
        };
        let written = match written {
            Ok(Received::First) => {
                self.write_in(&mut tx, part, execution, completed, abandoned).await.map(|()| true)
            }
            Ok(Received::Duplicate) => Ok(false),
            Err(error) => Err(error),
        };
        if let Ok(true) = written {
            return Ok(Some(tx));
        }
        D::rollback(tx).await;
        written.map(|_| None)
    }

    async fn write_in(
        &self,
        tx: &mut D::Transaction,
        part: Part<D>,
        execution: &Execution,
        completed: Timestamp,
        abandoned: &Abandoned,
    ) -> Result<()> {
        for change in &part.changes {
            abandoned.check()?;
            let changed = self.repository(change)?.write(tx, change).await?;
            expect_rows(change, changed)?;
        }
        abandoned.check()?;
        let action = event::ActionContext {
            id: execution.id,
            name: execution.name.to_owned(),
            params: execution.params.clone(),
            started: execution.started,
            completed,
        };
        let namespace = self.0.namespace.clone();
        let complete = |event: event::Event| event.with_action(action.clone()).with_namespace(&namespace);
        let events = part.events.into_iter().map(complete).collect();
        let principal = execution.principal.clone();
        self.0.persister.persist(tx, &Performed { action, namespace, principal, events }).await
    }

    fn repository(&self, change: &Change) -> Result<&dyn ErasedRepository<D>> {
        self.0.repositories.get(&change.entity()).map(|found| &**found).ok_or_else(|| {
            Error::new(Code::ActionUnregistered, format!("there is no repository for {}", change.name()))
        })
    }
}

/// Fewer rows than staged: another transaction was faster. More: the id is not unique.
fn expect_rows(change: &Change, changed: u64) -> Result<()> {
    let staged = change.len() as u64;
    let name = change.name();
    if changed == staged {
        Ok(())
    } else if changed < staged {
        let what = format!("{changed} of {staged} rows of {name} had the version that the action read");
        Err(Error::new(Code::ActionStale, what))
    } else {
        let what =
            format!("{changed} rows of {name} were changed, but {staged} were staged: its id is not unique");
        Err(Error::new(Code::PlanInvalid, what)
            .with_effect("nothing was written; the transaction was rolled back"))
    }
}

fn outcome_unknown(id: Uuid, name: &str) -> Error {
    Error::new(Code::ActionOutcomeUnknown, format!("the outcome of action {id} ({name}) is unknown"))
}

/// Commits one transaction after the other. Once one is committed, a failure of another one cannot undo it.
async fn commit_all<D: Database>(written: Vec<(Shard, D::Transaction)>, execution: &Execution) -> Result<()> {
    let mut committed = Vec::new();
    let mut left = written.into_iter();
    while let Some((shard, tx)) = left.next() {
        let Err(failure) = D::commit(tx).await else {
            committed.push(shard);
            continue;
        };
        let mut rolled_back = Vec::new();
        for (shard, tx) in left {
            D::rollback(tx).await;
            rolled_back.push(shard);
        }
        return Err(match failure {
            // The transaction of an unknown outcome may be committed, and the others are not.
            failure
                if !committed.is_empty()
                    || matches!(failure, CommitError::Unknown(_)) && !rolled_back.is_empty() =>
            {
                diverged(execution.id, &committed, shard, failure, &rolled_back)
            }
            CommitError::RolledBack(error) => error.with_message("the database refused the commit"),
            CommitError::Unknown(error) => outcome_unknown(execution.id, execution.name).with_source(error),
        });
    }
    Ok(())
}

impl<D: Database> Clone for Executor<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Database> fmt::Debug for Executor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("namespace", &self.0.namespace).finish_non_exhaustive()
    }
}
