//! An action in a transaction that the caller opened.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracing::Instrument;

use super::{Abandoned, EXECUTING, Execution, Executor};
use crate::action::call::CallOptions;
use crate::action::shard::parts;
use crate::action::{Action, Database, Plan};
use crate::{Code, Error, Result};

impl<D: Database> Executor<D> {
    /// See [`Call::execute_in`](crate::action::Call::execute_in).
    pub(in crate::action) async fn run_in<A: Action>(
        &self,
        tx: &mut D::Transaction,
        params: &A::Params,
        options: CallOptions,
    ) -> Result<A::Output, A::Error> {
        let (action, execution) = self.start::<A>(params, &options)?;
        let span = tracing::info_span!(
            "execute_in",
            action = A::NAME,
            action_id = %execution.id,
            principal = execution.principal.as_deref(),
        );
        let executing = async {
            let mut plan = self.new_plan(&execution);
            let output = action.perform(&mut plan, params).await?;
            self.write_plan_in(tx, plan, &execution).await?;
            Ok(output)
        };
        EXECUTING.scope(A::NAME, executing).instrument(span).await
    }

    async fn write_plan_in(&self, tx: &mut D::Transaction, plan: Plan, execution: &Execution) -> Result<()> {
        if self.0.databases.has_shards() {
            let what = format!(
                "the action {} was executed in a transaction, and the executor has shards",
                execution.name
            );
            return Err(Error::new(Code::ShardsMixed, what).with_hint(
                "use `execute`, or an executor for the one database that the transaction belongs to",
            ));
        }
        let completed = self.0.clock.now().wall;
        let (changes, events) = plan.into_parts()?;
        let not_abandoned = Abandoned(Arc::new(AtomicBool::new(false)));
        for part in parts(&self.0.databases, changes, events, None)? {
            for change in &part.changes {
                self.repository(change)?;
            }
            self.write_in(tx, part, execution, completed, &not_abandoned).await?;
        }
        Ok(())
    }
}
