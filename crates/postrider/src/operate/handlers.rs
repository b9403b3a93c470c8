//! The handlers that are registered in a database.

use serde::Serialize;

use crate::Timestamp;

/// One type, or pattern of types, of a registered handler of layout `eventlog`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HandlerEntry {
    /// The name of the handler.
    pub handler: String,
    /// Its earlier names.
    pub aliases: Vec<String>,
    /// The type; `*` matches any text.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Older events are not fanned out to it.
    pub since: Option<Timestamp>,
    /// When the type was registered.
    pub registered_at: Timestamp,
    /// When the last search for missed events began.
    pub searched_at: Option<Timestamp>,
}
