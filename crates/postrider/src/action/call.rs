//! One call of an action, with its options.

use uuid::Uuid;

use super::shard::AcrossShards;
use super::{Action, Database, Executor, Plan};
use crate::inbox::{Inbox, Once};
use crate::{Code, Error};

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
    pub(super) action_id: Option<Uuid>,
    pub(super) principal: Option<String>,
    pub(super) across_shards: Option<AcrossShards>,
    pub(super) once: Option<OnceKey>,
}

/// Under which the inbox records a call.
#[derive(Debug, Clone)]
pub(super) struct OnceKey {
    pub(super) inbox: Inbox,
    pub(super) group: String,
    pub(super) id: Uuid,
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

    /// The id of the action, which is stored with its rows; otherwise it is a new one. A caller that stores it before the call
    /// can search for it after a crash, as after [`Code::ActionOutcomeUnknown`](crate::Code::ActionOutcomeUnknown).
    ///
    /// An id does not prevent a second execution: that is what [`execute_once`](Self::execute_once) is for, which may get the
    /// same id.
    pub fn action_id(mut self, id: Uuid) -> Self {
        self.options.action_id = Some(id);
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
        match self.executor.run::<A>(&self.params, self.options).await? {
            Once::Applied(output) => Ok(output),
            // Only a call with an id is recorded.
            Once::Duplicate => Err(Error::new(Code::PlanInvalid, "the call has no id").into()),
        }
    }

    /// Executes the action once per group and id, however often this is called: with the id of the event in a handler, or
    /// with the id of a request that a client may send again. The transaction of the action also inserts a row into the
    /// [inbox](crate::inbox); if that row exists, nothing is written, and the answer is [`Once::Duplicate`].
    ///
    /// The action itself may run for a duplicate, because the shard is known only after it. If it then returns an error, such
    /// as an insufficient balance that its own first execution caused, the inboxes of all databases are asked before, at the
    /// same time, and the answer is [`Once::Duplicate`] if one of them has the row. If none has it, and one of them does not
    /// answer within five seconds, the answer is [`Code::ActionOutcomeUnknown`] instead of the action's error.
    ///
    /// This holds as long as the inbox keeps its rows, see [`Inbox::retention`], and for an action that changes rows of one
    /// shard: others are refused with [`Code::ShardsMixed`], also with [`across_shards`](Self::across_shards). An id
    /// must always lead to the same shard. If the action stages nothing, no row leads to a shard, so the inboxes of all
    /// databases are asked in this case, too.
    ///
    /// Group and id name one call of one action. Neither the action's name nor its parameters are compared: use a group of
    /// its own for each action, or the second action of an event is taken for a duplicate of the first one.
    ///
    /// # Errors
    /// As [`Executor::execute`], and as [`Inbox::receive`]. After [`Code::ActionOutcomeUnknown`], call it again with the same
    /// id.
    pub async fn execute_once(
        mut self,
        inbox: &Inbox,
        group: &str,
        id: Uuid,
    ) -> Result<Once<A::Output>, A::Error> {
        self.options.once = Some(OnceKey { inbox: inbox.clone(), group: group.to_owned(), id });
        self.executor.run::<A>(&self.params, self.options).await
    }

    /// Performs the action, and writes its rows and events in your transaction. It commits nothing: the action happens if
    /// and when you commit. In a [handler](crate::handler) that is together with the record that the event is handled.
    ///
    /// ```
    /// # #[cfg(all(feature = "sqlx-sqlite", feature = "relay", feature = "derive"))]
    /// # mod example {
    /// use postrider::action::{Action, Executor};
    /// use postrider::handler::{Context, Result};
    /// use postrider::inbox::{Inbox, Received};
    /// use sqlx::SqlitePool;
    /// # use postrider::action::Plan;
    /// # #[derive(postrider::Event, serde::Serialize, serde::Deserialize)]
    /// # #[event(type = "order.placed")]
    /// # pub struct OrderPlaced { order: i64 }
    /// # #[derive(Action)]
    /// # pub struct SendBill;
    /// # impl Action for SendBill {
    /// #     type Params = i64;
    /// #     type Output = ();
    /// #     type Error = postrider::Error;
    /// #     async fn perform(&self, _: &mut Plan, _: &i64) -> postrider::Result<()> { Ok(()) }
    /// # }
    ///
    /// pub async fn bill(pool: SqlitePool, executor: Executor<SqlitePool>, placed: OrderPlaced, cx: Context) -> Result {
    ///     let mut tx = pool.begin().await?;
    ///     if cx.receive(&Inbox::new(), &mut tx).await? == Received::First {
    ///         executor.call::<SendBill>(placed.order).execute_in(&mut tx).await?;
    ///     }
    ///     tx.commit().await?; // the action, its events, and that this event is handled: all of them or none
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// The action reads as always, with the connections of its repositories: it does not see what the transaction has
    /// written, and the pool needs a second connection. It runs once: after
    /// [`Code::ActionStale`](crate::Code::ActionStale) and every other error, roll back and try again with a new
    /// transaction, as a handler does that returns the error. The `wake` of the executor is not called.
    ///
    /// # Errors
    /// As [`Executor::execute`], except those of the commit. Some rows of the action may be written: roll back.
    /// [`Code::ShardsMixed`](crate::Code::ShardsMixed) if the executor has shards: it does not know which one the
    /// transaction belongs to. Nothing was written then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back. As with every statement, sqlx and SeaORM may leave the
    /// connection unusable; see `docs/src/writers.md` of the repository.
    pub async fn execute_in(self, tx: &mut D::Transaction) -> Result<A::Output, A::Error> {
        self.executor.run_in::<A>(tx, &self.params, self.options).await
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
