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
    /// With this ordering key: the key of the event, else `type/id` of its aggregate. Only the default layout.
    pub key: Option<String>,
    /// Of this action. Layout `eventlog` has an index for it; in the default layout it is searched from the
    /// newest event to the time in its id. Other layouts do not record it.
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
    /// Only events before this one: [`ListedEvent::row`] of the last one of the previous page. Only the default layout.
    pub before: Option<String>,
    /// Also read payloads.
    pub with_payload: bool,
    /// The maximum number of events.
    pub events_max: usize,
}

crate::setters! { EventFilter:
    aggregate: Option<Aggregate>,
    event_type: Option<String>,
    key: Option<String>,
    action: Option<Uuid>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    contains: Option<Value>,
    state: Option<String>,
    before: Option<String>,
    with_payload: bool,
    events_max: usize,
}

#[cfg_attr(not(feature = "_store"), allow(dead_code, reason = "only the databases list events"))]
impl EventFilter {
    /// Refuses a condition that the layout has no column or no index for.
    pub(crate) fn check(&self, table: Option<&RowTable>) -> Result<()> {
        let Some(layout) = table.map(RowTable::layout) else { return self.check_before() };
        let refused = |what: &str, hint: &str| {
            let what = format!("events of layout {} cannot be listed by {what}", layout.name());
            Err(Error::new(Code::LayoutDiffers, what).with_hint(hint))
        };
        if self.action.is_some() && !layout.has(Ability::Notifications) {
            return refused("action: it has no column for actions", "filter by aggregate, type or time");
        }
        if self.key.is_some() {
            return refused("key: its rows are ordered by their aggregate", "use --aggregate TYPE:ID");
        }
        if self.before.is_some() {
            return refused("page: its rows have no position", "use --until with the time of the last event");
        }
        Ok(())
    }

    /// Refuses a page that begins at no position.
    fn check_before(&self) -> Result<()> {
        match self.before.as_deref().map(str::parse::<i64>) {
            Some(Err(_)) => {
                let what = format!(
                    "{:?} is not the position of an event",
                    self.before.as_deref().unwrap_or_default()
                );
                Err(Error::new(Code::LayoutDiffers, what)
                    .with_hint("pass the position of the last listed event"))
            }
            _ => Ok(()),
        }
    }

    /// The position before which the page ends.
    pub(crate) fn before_position(&self) -> Option<i64> {
        self.before.as_deref().and_then(|before| before.parse().ok())
    }

    /// The id of the action as 32 lower-case digits, as the column is compared with it.
    pub(crate) fn action_digits(&self) -> Option<String> {
        self.action.map(|action| action.as_simple().to_string())
    }

    /// The same filter, beginning with the time in the id of the action, if there is one: its events are not older.
    pub(crate) fn within_action(&self) -> Self {
        let Some(began) = self.action.and_then(id_time) else { return self.clone() };
        Self { since: Some(self.since.map_or(began, |since| since.max(began))), ..self.clone() }
    }

    /// Whether the statement must read payloads.
    pub(crate) fn reads_payload(&self) -> bool {
        self.with_payload || self.contains.is_some()
    }

    /// Removes payloads that only the search needed.
    pub(crate) fn shown(&self, mut events: Vec<ListedEvent>) -> Vec<ListedEvent> {
        if !self.with_payload {
            events.iter_mut().for_each(|event| event.payload = None);
        }
        events
    }
}

/// The time in a UUIDv7, or in an id that is derived in the same way; `None` for other ids.
#[cfg_attr(not(feature = "_store"), allow(dead_code, reason = "only the databases list events"))]
pub(crate) fn id_time(id: Uuid) -> Option<Timestamp> {
    let millis = i64::try_from(id.as_u128() >> 80).ok()?;
    matches!(id.get_version_num(), 7 | 8).then(|| Timestamp::from_micros(millis.saturating_mul(1_000)))
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
    /// Its payload, as text if it is UTF-8, else in hexadecimal. `None` unless the filter asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}
