//! Looking for events: what is asked, and what is told.

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
    /// With a payload that is JSON and has all of this in it, as PostgreSQL's `@>` has it.
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
    /// When it was created.
    pub time: String,
    /// Its state, where rows have one.
    pub status: Option<String>,
    /// Failed tries, where rows count them.
    pub attempts: Option<i64>,
    /// Its payload: as text where it is text, else in hex.
    pub payload: String,
}

/// Whether a JSON value has all of another in it: an object every member, an array every element in any order; and an
/// array has a simple value that is among its elements.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres", test))]
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|w| has(w, part)))
        }
        (Value::Array(whole), part) if !part.is_object() => whole.contains(part),
        _ => whole == part,
    }
}

/// The same below the top, where an array does not stand for its elements.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres", test))]
fn has(whole: &Value, part: &Value) -> bool {
    whole.is_array() == part.is_array() && contains(whole, part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_contains_its_members_and_an_array_its_elements() {
        let order = json!({"id": 7, "lines": [{"sku": "a", "n": 2}, {"sku": "b"}], "to": {"city": "Bern"}});
        for part in [
            json!({}),
            json!({"id": 7}),
            json!({"to": {"city": "Bern"}}),
            json!({"lines": [{"sku": "b"}]}),
            json!({"lines": [{"sku": "b"}, {"n": 2}]}),
        ] {
            assert!(contains(&order, &part), "{part}");
        }
        for part in [json!({"id": 8}), json!({"city": "Bern"}), json!({"lines": [{"sku": "c"}]}), json!([7])]
        {
            assert!(!contains(&order, &part), "{part}");
        }
        assert!(contains(&json!([1, "a"]), &json!("a")) && !contains(&json!([[1]]), &json!(1)));
    }
}
