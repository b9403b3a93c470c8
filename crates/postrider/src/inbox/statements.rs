//! The steps of an inbox, with any driver. Each driver implements [`StepConnection`] next to its writer.

#[cfg(feature = "_async")]
use std::future::Future;

#[cfg(feature = "_async")]
use super::processed_events;
use super::{InboxStep, InboxTable, mysql, postgres, sqlite};
#[cfg(feature = "_async")]
use crate::Result;
use crate::write::Value;
use crate::{Code, Error};

/// Databases that take the same statements of writers and inboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "a build has the drivers of some of these databases")]
pub(crate) enum SqlFamily {
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    Sqlite,
}

/// The operations of a driver that the steps of an inbox, and of the records of actions, need.
#[cfg(feature = "_async")]
pub(crate) trait StepConnection: Send {
    /// What the connection is to. It decides which SQL is sent.
    fn sql_family(&self) -> Result<SqlFamily>;

    /// Runs a statement and returns the number of rows that it inserted or deleted. On MySQL and MariaDB, a row whose
    /// primary key exists counts as none.
    fn execute(
        &mut self,
        statement: String,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64>> + Send;

    /// The first column of every row. Only `processed_events` needs it, which exists on PostgreSQL.
    fn numbers(
        &mut self,
        _statement: String,
        _values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<i64>>> + Send {
        std::future::ready(Err(only_on_postgres()))
    }
}

/// Runs a step. Returns the number of rows that it inserted or deleted.
#[cfg(feature = "_async")]
pub(crate) async fn run<X: StepConnection>(tx: &mut X, step: &InboxStep) -> Result<u64> {
    let family = tx.sql_family()?;
    let id = id_of(step);
    let rows = match statement(family, step, &id) {
        Some((statement, values)) => tx.execute(statement, &values).await,
        None if family == SqlFamily::Postgres => processed_events::run(tx, step, &id).await,
        None => Err(only_on_postgres()),
    };
    rows.map_err(|error| about(step, error))
}

/// The event's id as text. A PostgreSQL driver may know no other type for a UUID; the statements convert it.
pub(crate) fn id_of(step: &InboxStep) -> String {
    match step {
        InboxStep::Receive { event_id, .. } => event_id.to_string(),
        InboxStep::DeleteExpired { .. } => String::new(),
    }
}

/// The statement of a step on Postrider's own table, with its values; `None` for `processed_events`. `id` is that of
/// [`id_of`].
pub(crate) fn statement<'a>(
    family: SqlFamily,
    step: &'a InboxStep,
    id: &'a str,
) -> Option<(String, Vec<Value<'a>>)> {
    match step {
        InboxStep::Receive { table: InboxTable::Postrider(schema), group, event_id, retention_micros } => {
            let (statement, id) = match family {
                SqlFamily::Postgres => (schema.put_into(postgres::RECEIVE), Value::Text(Some(id))),
                SqlFamily::MySql => (schema.put_into_mysql(mysql::RECEIVE), Value::Id(event_id)),
                SqlFamily::Sqlite => (sqlite::RECEIVE.to_owned(), Value::Id(event_id)),
            };
            Some((statement, vec![Value::Text(Some(group)), id, Value::Number(Some(*retention_micros))]))
        }
        InboxStep::DeleteExpired { table: InboxTable::Postrider(schema), rows_max } => {
            let statement = match family {
                SqlFamily::Postgres => schema.put_into(postgres::DELETE_EXPIRED),
                SqlFamily::MySql => schema.put_into_mysql(mysql::DELETE_EXPIRED),
                SqlFamily::Sqlite => sqlite::DELETE_EXPIRED.to_owned(),
            };
            // Every expired row, however recently it was processed.
            Some((statement, vec![Value::Number(Some(0)), Value::Number(Some(*rows_max))]))
        }
        InboxStep::Receive { table: InboxTable::ProcessedEvents(_), .. }
        | InboxStep::DeleteExpired { table: InboxTable::ProcessedEvents(_), .. } => None,
    }
}

/// The error of a driver names an event; this names the inbox. An error of the inbox itself stays as it is.
pub(crate) fn about(step: &InboxStep, error: Error) -> Error {
    match (error.code(), step) {
        (Code::InboxUnfit | Code::TransactionMissing, _) => error,
        (_, InboxStep::Receive { .. }) => error.with_message("the inbox row could not be inserted"),
        (_, InboxStep::DeleteExpired { .. }) => {
            error.with_message("expired rows of the inbox could not be deleted")
        }
    }
}

/// The error of `processed_events` on another database.
pub(crate) fn only_on_postgres() -> Error {
    Error::new(Code::InboxUnfit, "processed_events is an inbox on PostgreSQL only")
        .with_hint("use Inbox::new(), and run `postrider migrate up`")
}
