//! What the library does in the caller's transaction besides inserting events.

use super::ActionStep;
#[cfg(feature = "_writer")]
use super::{Value, action_record};
#[cfg(feature = "_writer")]
use crate::Result;
use crate::inbox::InboxStep;
#[cfg(feature = "_writer")]
use crate::inbox::statements;

/// One step in the caller's transaction, after all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Of an inbox.
    Inbox(InboxStep),
    /// About the record of an action.
    Action(ActionStep),
}

/// Runs a step. Returns the number of rows that it inserted or deleted.
#[cfg(feature = "_async")]
pub(super) async fn run<X: statements::StepConnection>(tx: &mut X, step: &Step) -> Result<u64> {
    let step = match step {
        Step::Inbox(step) => return statements::run(tx, step).await,
        Step::Action(step) => step,
    };
    let (statement, values) = action_record::statement(tx.sql_family()?, step)?;
    let values: Vec<Value<'_>> = values.iter().map(action_record::Parameter::value).collect();
    tx.execute(statement, &values).await.map_err(action_record::failed)
}

/// The same with a driver for SQLite whose calls block: `execute` runs a statement with its values.
#[cfg(feature = "rusqlite")]
pub(super) fn run_blocking(
    step: &Step,
    execute: impl FnOnce(&str, Vec<Value<'_>>) -> Result<u64>,
) -> Result<u64> {
    match step {
        Step::Inbox(step) => {
            let id = statements::id_of(step);
            let (statement, values) = statements::statement(statements::SqlFamily::Sqlite, step, &id)
                .ok_or_else(statements::only_on_postgres)?;
            execute(&statement, values).map_err(|error| statements::about(step, error))
        }
        Step::Action(step) => {
            let (statement, values) = action_record::statement(statements::SqlFamily::Sqlite, step)?;
            let values = values.iter().map(action_record::Parameter::value).collect();
            execute(&statement, values).map_err(action_record::failed)
        }
    }
}
