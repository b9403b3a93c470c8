//! An event as the columns of the outbox.

use super::Batch;
use crate::event::columns::{action_to_json, headers_to_json};
use crate::{Code, Error, Event, Result, Timestamp};

/// SQLite's INSERT of one event, with the values of an event in their order. Uses no index; the position
/// is the database's to give.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
pub(super) const INSERT: &str = "
    INSERT INTO postrider_events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                  topic, max_attempts, expires_at, action, namespace, producer)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// The values of one row, borrowed from the event as far as they can be.
pub(super) struct Columns<'a> {
    pub(super) event: &'a Event,
    pub(super) aggregate_type: Option<&'a str>,
    pub(super) aggregate_id: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) headers: Option<String>,
    pub(super) expires_at: Option<i64>,
    pub(super) action: Option<String>,
}

impl<'a> Columns<'a> {
    /// All rows of a batch. An event that has no row is found before any SQL runs.
    pub(super) fn of(batch: &'a Batch) -> Result<Vec<Self>> {
        if let Some(table) = batch.rows() {
            let what = format!("layout {} cannot be written with this driver", table.layout().name());
            return Err(Error::new(Code::LayoutUnfit, what)
                .hint("write it on PostgreSQL, with tokio-postgres or sqlx"));
        }
        batch.events().iter().map(Self::of_event).collect()
    }

    fn of_event(event: &'a Event) -> Result<Self> {
        let aggregate_id = event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str());
        Ok(Self {
            event,
            aggregate_type: event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()),
            aggregate_id,
            // A key that says what the aggregate's id says already is not stored twice.
            key: event.key.as_deref().filter(|key| Some(*key) != aggregate_id),
            headers: headers_to_json(&event.headers)?,
            expires_at: event.expires_at.map(Timestamp::as_micros),
            action: event.action.as_ref().map(action_to_json).transpose()?,
        })
    }
}
