//! Looking for events: what is asked, and what is reported.

use serde::Serialize;
use serde_json::Value;

use crate::{Aggregate, Timestamp};

/// Which events are asked for. An empty one asks for all; what is given must all hold.
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
    /// With a payload that is JSON and has all of this in it: an object every member, an array every element in any
    /// order, as PostgreSQL's `@>` has it. In rows of MySQL and MariaDB as `JSON_CONTAINS` has it, for which an array also
    /// has what one of its elements has.
    pub contains: Option<Value>,
    /// In this state, where rows have one.
    pub status: Option<String>,
    /// At most so many.
    pub events_max: usize,
}

/// One event that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedEvent {
    /// Its position, or the id of its row.
    pub place: String,
    /// Its id, where the table has one.
    pub id: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Type of its aggregate.
    pub aggregate_type: Option<String>,
    /// Id of its aggregate.
    pub aggregate_id: Option<String>,
    /// When it was created, where the table tells.
    pub time: Option<String>,
    /// Its state, where rows have one.
    pub status: Option<String>,
    /// Failed tries, where rows count them.
    pub attempts: Option<i64>,
    /// Its payload: as text where it is text, else in hex.
    pub payload: String,
}
