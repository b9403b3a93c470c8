//! Listing events: the filter and the result.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::layout::{Ability, RowTable};
use crate::{Aggregate, Code, Error, Result, Timestamp};

/// Which events to list. All given conditions must match; without any, all events do.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct EventFilter {
    /// Of this aggregate.
    pub aggregate: Option<Aggregate>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Of this action; only layout `eventlog` has an index for it.
    pub action: Option<Uuid>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created at this time or earlier.
    pub until: Option<Timestamp>,
    /// With a JSON payload that contains this value: every member of an object, every element of an array in any order,
    /// as PostgreSQL's `@>` defines it. For tables with a state per row on MySQL and MariaDB as `JSON_CONTAINS` defines
    /// it: there an array also contains what one of its elements contains.
    pub contains: Option<Value>,
    /// With this state, if the layout has a state per row.
    pub state: Option<String>,
    /// The maximum number of events.
    pub events_max: usize,
}

crate::setters! { EventFilter:
    aggregate: Option<Aggregate>,
    event_type: Option<String>,
    action: Option<Uuid>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    contains: Option<Value>,
    state: Option<String>,
    events_max: usize,
}

impl EventFilter {
    /// Refuses a condition that needs an index which the layout does not have.
    #[cfg_attr(not(feature = "_store"), allow(dead_code, reason = "only the databases list events"))]
    pub(crate) fn check(&self, table: Option<&RowTable>) -> Result<()> {
        let layout = table.map(RowTable::layout);
        if self.action.is_none() || layout.is_some_and(|layout| layout.has(Ability::Notifications)) {
            return Ok(());
        }
        let name = layout.map_or("postrider", |layout| layout.name());
        let what = format!("events of layout {name} cannot be listed by action: it has no index for actions");
        Err(Error::new(Code::LayoutDiffers, what)
            .with_hint("only layout eventlog has one; filter by aggregate, type or time"))
    }
}

/// One listed event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedEvent {
    /// Its position, or the id of its row.
    pub row: String,
    /// Its id, if the table has one.
    pub id: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The type of its aggregate.
    pub aggregate_type: Option<String>,
    /// The id of its aggregate.
    pub aggregate_id: Option<String>,
    /// When it was created, if the table records that.
    pub time: Option<String>,
    /// Its state, if the layout has a state per row.
    pub state: Option<String>,
    /// Failed attempts, if the layout counts them.
    pub attempts: Option<i64>,
    /// Its payload, as text if it is UTF-8, else in hexadecimal.
    pub payload: String,
}
