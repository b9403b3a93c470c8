//! One call of an action, with its options.

use super::shard::AcrossShards;
use super::{Action, Database, Executor, Plan};

/// A call of an action; see [`Executor::call`].
#[must_use = "nothing happens until execute() is awaited"]
pub struct Call<'e, D: Database, A: Action> {
    executor: &'e Executor<D>,
    params: A::Params,
    options: CallOptions,
}

/// The options of one call.
#[derive(Debug, Clone, Default)]
pub(super) struct CallOptions {
    pub(super) principal: Option<String>,
    pub(super) across_shards: Option<AcrossShards>,
}

impl<'e, D: Database, A: Action> Call<'e, D, A> {
    pub(super) fn new(executor: &'e Executor<D>, params: A::Params) -> Self {
        Self { executor, params, options: CallOptions::default() }
    }

    /// On whose behalf the action runs.
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        self.options.principal = Some(principal.into());
        self
    }

    /// Allows that the action changes rows of several shards. Each shard has its own transaction. All of them are written
    /// before the first one is committed, but a crash or a lost connection between two commits leaves the change on some
    /// shards only: [`Code::ShardsDiverged`](crate::Code::ShardsDiverged) then lists them.
    pub fn across_shards(mut self, events: AcrossShards) -> Self {
        self.options.across_shards = Some(events);
        self
    }

    /// Executes the action; see [`Executor::execute`].
    ///
    /// # Errors
    /// As there.
    pub async fn execute(self) -> Result<A::Output, A::Error> {
        self.executor.run::<A>(&self.params, self.options).await
    }

    /// Performs the action without writing anything, and returns its output and its plan. For tests and dry runs.
    ///
    /// # Errors
    /// Those of the action.
    pub async fn plan(self) -> Result<(A::Output, Plan), A::Error> {
        self.executor.perform_only::<A>(&self.params, self.options).await
    }
}

impl<D: Database, A: Action> std::fmt::Debug for Call<'_, D, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("action", &A::NAME)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
