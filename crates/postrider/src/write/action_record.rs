//! The record of an action, where no event row carries it: a sentinel row in layout `eventlog`, a row of the table
//! `actions` elsewhere; see adr/0068-actions.md.

use uuid::Uuid;

#[cfg(feature = "_writer")]
use super::Value;
use crate::event::{ActionContext, validate_action};
#[cfg(feature = "_writer")]
use crate::inbox::statements::SqlFamily;
use crate::layout::{Ability, RowTable};
use crate::{Code, Error, Ident, Limits, Result, Timestamp};

/// An action that was performed, to be recorded in the transaction of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionRecord {
    /// Its id, name, parameters and times.
    pub action: ActionContext,
    /// The service it ran in.
    pub namespace: String,
    /// On whose behalf it ran. Layout `eventlog` has no column for it.
    pub principal: Option<String>,
    /// The ids of its events. Layout `eventlog` needs none: its event rows contain the action.
    pub event_ids: Vec<Uuid>,
}

impl ActionRecord {
    /// A record of an action without events.
    pub fn new(action: ActionContext, namespace: impl Into<String>) -> Self {
        Self { action, namespace: namespace.into(), principal: None, event_ids: Vec::new() }
    }
}

/// A step about the record of an action. Names and limits were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionStep {
    /// Inserts a row into `actions` of this schema.
    Insert(Ident, Box<ActionRecord>),
    /// Inserts a row without an event into a table of layout `eventlog`.
    InsertSentinel(RowTable, Box<ActionRecord>),
    /// Deletes rows from `actions` of this schema.
    Delete {
        /// Where.
        schema: Ident,
        /// Those that completed before.
        before: Timestamp,
        /// At most this number of rows.
        rows_max: i64,
    },
}

impl ActionStep {
    /// The step that records an action.
    ///
    /// # Errors
    /// The first rule that the action breaks, with its code.
    pub(super) fn record(
        schema: &Ident,
        table: Option<&RowTable>,
        limits: &Limits,
        record: ActionRecord,
    ) -> Result<Self> {
        validate_action(&record.action, &record.namespace, record.principal.as_deref(), limits)?;
        let sentinels = table.filter(|table| table.layout().spec().has(Ability::Notifications));
        Ok(match sentinels {
            Some(table) => Self::InsertSentinel(table.clone(), Box::new(record)),
            None => Self::Insert(schema.clone(), Box::new(record)),
        })
    }
}

/// A parameter of a statement.
#[cfg(feature = "_writer")]
pub(super) enum Parameter {
    Id(Uuid),
    Text(Option<String>),
    Number(i64),
}

#[cfg(feature = "_writer")]
impl Parameter {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Id(id) => Value::Id(id),
            Self::Text(text) => Value::Text(text.as_deref()),
            Self::Number(number) => Value::Number(Some(*number)),
        }
    }
}

/// The statement of a step, with its values.
#[cfg(feature = "_writer")]
pub(super) fn statement(family: SqlFamily, step: &ActionStep) -> Result<(String, Vec<Parameter>)> {
    Ok(match step {
        ActionStep::Insert(schema, record) => (insert(family, schema), values(family, record)),
        ActionStep::InsertSentinel(table, record) => (sentinel(family, table)?, sentinel_values(record)),
        ActionStep::Delete { schema, before, rows_max } => (
            delete(family, schema),
            vec![Parameter::Number(before.as_micros()), Parameter::Number(*rows_max)],
        ),
    })
}

/// Uses no index.
#[cfg(feature = "_writer")]
fn insert(family: SqlFamily, schema: &Ident) -> String {
    const COLUMNS: &str = "(id, namespace, name, params, principal, started_at, completed_at, event_ids)";
    match family {
        SqlFamily::Postgres => schema.put_into(&format!(
            "INSERT INTO {{schema}}.actions {COLUMNS}
             VALUES ($1::text::uuid, $2::text, $3::text, $4::text::json, $5::text, {}, {}, $8::text::json)",
            postgres_time(6),
            postgres_time(7)
        )),
        SqlFamily::MySql => schema.put_into_mysql(&format!(
            "INSERT INTO {{schema}}.actions {COLUMNS} VALUES (?, ?, ?, ?, ?, {MYSQL_TIME}, {MYSQL_TIME}, ?)"
        )),
        SqlFamily::Sqlite => {
            format!("INSERT INTO postrider_actions {COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        }
    }
}

/// A parameter in microseconds since 1970 as a time.
#[cfg(feature = "_writer")]
fn postgres_time(parameter: usize) -> String {
    format!(
        "pg_catalog.to_timestamp(0) OPERATOR(pg_catalog.+) (${parameter}::bigint OPERATOR(pg_catalog.*) interval '1 microsecond')"
    )
}

#[cfg(feature = "_writer")]
const MYSQL_TIME: &str = "TIMESTAMPADD(MICROSECOND, ?, '1970-01-01 00:00:00')";

#[cfg(feature = "_writer")]
fn values(family: SqlFamily, record: &ActionRecord) -> Vec<Parameter> {
    let ActionRecord { action, namespace, principal, event_ids } = record;
    let ids: Vec<String> = event_ids.iter().map(|id| format!("\"{id}\"")).collect();
    vec![
        // A PostgreSQL driver may know no type for a UUID; the statement converts it.
        match family {
            SqlFamily::Postgres => Parameter::Text(Some(action.id.to_string())),
            SqlFamily::MySql | SqlFamily::Sqlite => Parameter::Id(action.id),
        },
        Parameter::Text(Some(namespace.clone())),
        Parameter::Text(Some(action.name.clone())),
        Parameter::Text(Some(action.params.clone())),
        Parameter::Text(principal.clone()),
        Parameter::Number(action.started.as_micros()),
        Parameter::Number(action.completed.as_micros()),
        Parameter::Text(Some(format!("[{}]", ids.join(", ")))),
    ]
}

/// The columns of an event stay NULL. Uses no index.
#[cfg(feature = "_writer")]
fn sentinel(family: SqlFamily, table: &RowTable) -> Result<String> {
    const COLUMNS: &str = "(id, namespace, action_id, action_name, action_params, started_date, completion_date, \
                           event_date, delivered)";
    let (schema, name) = (&table.schema, &table.name);
    match family {
        SqlFamily::Postgres => Ok(format!(
            "INSERT INTO {schema}.{name} {COLUMNS}
             VALUES ($1::text::uuid, $2::text, $3::text::uuid, $4::text, $5::text::jsonb, $6::text::timestamp,
                     $7::text::timestamp, pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', FALSE)"
        )),
        SqlFamily::MySql => Ok(format!(
            "INSERT INTO `{}`.`{}` {COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), FALSE)",
            schema.as_str(),
            name.as_str()
        )),
        SqlFamily::Sqlite => Err(super::rows::unwritable(table)),
    }
}

#[cfg(feature = "_writer")]
fn sentinel_values(record: &ActionRecord) -> Vec<Parameter> {
    let ActionRecord { action, namespace, .. } = record;
    [
        Uuid::now_v7().to_string(),
        namespace.clone(),
        action.id.to_string(),
        action.name.clone(),
        action.params.clone(),
        super::rows::utc(action.started),
        super::rows::utc(action.completed),
    ]
    .map(|text| Parameter::Text(Some(text)))
    .into()
}

/// Index: actions_completed_at (completed_at), from its begin, and the primary key.
#[cfg(feature = "_writer")]
fn delete(family: SqlFamily, schema: &Ident) -> String {
    match family {
        SqlFamily::Postgres => schema.put_into(&format!(
            "WITH old AS MATERIALIZED (
                 SELECT id FROM {{schema}}.actions
                 WHERE completed_at OPERATOR(pg_catalog.<) ({})
                 ORDER BY completed_at LIMIT $2::bigint
             )
             DELETE FROM {{schema}}.actions AS a USING old WHERE a.id OPERATOR(pg_catalog.=) old.id",
            postgres_time(1)
        )),
        SqlFamily::MySql => schema.put_into_mysql(&format!(
            "DELETE FROM {{schema}}.actions WHERE completed_at < {MYSQL_TIME} ORDER BY completed_at LIMIT ?"
        )),
        SqlFamily::Sqlite => "DELETE FROM postrider_actions WHERE id IN
             (SELECT id FROM postrider_actions WHERE completed_at < ? ORDER BY completed_at LIMIT ?)"
            .to_owned(),
    }
}

/// The error of a driver names an event; this names the record.
#[cfg(feature = "_writer")]
pub(super) fn failed(error: Error) -> Error {
    error.with_message("the record of the action could not be written or deleted")
}

/// One row was inserted.
pub(super) fn recorded(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        _ => Err(Error::new(Code::DuplicateId, "an action with this id is recorded already")),
    }
}
