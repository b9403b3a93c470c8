//! Listing events: the filter and the result.

use serde::Serialize;
use serde_json::Value;

use crate::{Aggregate, Timestamp};

/// Which events to list. All given conditions must match; without any, all events do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventFilter {
    /// Of this aggregate.
    pub aggregate: Option<Aggregate>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created at this time or earlier.
    pub until: Option<Timestamp>,
    /// With a JSON payload that contains this value: every member of an object, every element of an array in any order,
    /// as PostgreSQL's `@>` defines it. For tables with a state per row on MySQL and MariaDB as `JSON_CONTAINS` defines
    /// it: there an array also contains what one of its elements contains.
    pub contains: Option<Value>,
    /// With this state, if the layout has a state per row.
    pub status: Option<String>,
    /// The maximum number of events.
    pub events_max: usize,
}

/// One listed event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedEvent {
    /// Its position, or the id of its row.
    pub place: String,
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
    pub status: Option<String>,
    /// Failed attempts, if the layout counts them.
    pub attempts: Option<i64>,
    /// Its payload, as text if it is UTF-8, else in hexadecimal.
    pub payload: String,
}
