//! Builds events.

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use super::{ActionContext, Aggregate, Event, Headers};
use crate::{Code, Error, Result, Timestamp};

impl Event {
    /// An event that happens now, with a new UUIDv7 as its id. The ids of one process increase.
    ///
    /// Nothing is checked here; the writer checks the event before it runs any SQL.
    pub fn new(event_type: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self::bare(Uuid::now_v7(), event_type.into(), payload.into(), Timestamp::now())
    }

    /// An event with only the fields that every event has.
    pub(crate) fn bare(id: Uuid, event_type: String, payload: Bytes, time: Timestamp) -> Self {
        Self {
            id,
            event_type,
            aggregate: None,
            key: None,
            payload,
            headers: Headers::default(),
            time,
            topic: None,
            max_attempts: None,
            expires_at: None,
            action: None,
            namespace: None,
            producer: None,
        }
    }

    /// An event whose payload is `payload` as JSON.
    ///
    /// # Errors
    /// [`Code::PayloadSerialise`] if `payload` cannot be serialised.
    pub fn json(event_type: impl Into<String>, payload: &impl Serialize) -> Result<Self> {
        let event_type = event_type.into();
        match serde_json::to_vec(payload) {
            Ok(json) => Ok(Self::new(event_type, json)),
            Err(e) => Err(Error::new(
                Code::PayloadSerialise,
                format!("the payload of a {event_type:?} event cannot be serialised as JSON"),
            )
            .with_source(e)),
        }
    }

    /// Sets the id. Writing the same id twice creates two events, which a deduplicating consumer handles as one.
    #[must_use]
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.id = id;
        self
    }

    /// Sets the aggregate that the event is about, for example `("Order", "42")`. Without a key, it orders the event.
    #[must_use]
    pub fn with_aggregate(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.aggregate = Some(Aggregate::new(kind, id));
        self
    }

    /// Sets the key: events of one key are delivered in order.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets a header, replacing an earlier value.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets the time at which it happened.
    #[must_use]
    pub fn with_time(mut self, time: Timestamp) -> Self {
        self.time = time;
        self
    }

    /// Sets the topic to send it to. Routing rules, if there are any, decide instead.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the number of attempts, at least 1, instead of the relay's policy. A failure that may be the destination's
    /// fault is retried once before it counts, so even with 1 the event may be sent more than once.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the time after which it is not delivered.
    #[must_use]
    pub fn with_expires_at(mut self, expires_at: Timestamp) -> Self {
        self.expires_at = Some(expires_at);
        self
    }

    /// Sets the action that caused it.
    #[must_use]
    pub fn with_action(mut self, action: ActionContext) -> Self {
        self.action = Some(action);
        self
    }

    /// Sets the service it comes from.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the machine or process it comes from.
    #[must_use]
    pub fn with_producer(mut self, producer: impl Into<String>) -> Self {
        self.producer = Some(producer.into());
        self
    }
}

impl ActionContext {
    /// An execution that starts and completes now, with a new UUIDv7 as its id. `params` is JSON; the writer checks it.
    pub fn new(name: impl Into<String>, params: impl Into<String>) -> Self {
        let now = Timestamp::now();
        Self { id: Uuid::now_v7(), name: name.into(), params: params.into(), started: now, completed: now }
    }

    /// Sets the id, which all events of one execution share.
    #[must_use]
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.id = id;
        self
    }

    /// Sets when it started and completed.
    #[must_use]
    pub fn with_times(mut self, started: Timestamp, completed: Timestamp) -> Self {
        (self.started, self.completed) = (started, completed);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    #[cfg(feature = "postgres")]
    fn a_key_of_an_aggregate_names_it_and_other_texts_name_none() {
        for (kind, id) in [("Order", "42"), ("Or/der", "4/2"), ("50%", "%2F"), ("%2F", ""), ("", "a")] {
            let aggregate = Aggregate::new(kind, id);
            let key = aggregate.ordering_key();
            assert_eq!(Aggregate::of_ordering_key(&key), Some(aggregate), "{key}");
        }
        for other in ["42", "50%/1", "%41/1", "%2f/1"] {
            assert_eq!(Aggregate::of_ordering_key(other), None, "{other}");
        }
    }

    #[test]
    fn ids_of_one_process_increase() {
        let ids: Vec<Uuid> = (0..1000).map(|_| Event::new("a", "").id).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(ids[0].get_version_num(), 7);
    }

    #[test]
    fn a_payload_becomes_json() {
        let event = Event::json("order.placed", &BTreeMap::from([("total", 12)])).unwrap();
        assert_eq!(event.payload, r#"{"total":12}"#);
    }

    #[test]
    fn a_payload_that_cannot_become_json_is_an_error_that_names_the_type() {
        let error = Event::json("order.placed", &BTreeMap::from([(vec![1], 1)])).unwrap_err();
        assert_eq!(error.code(), Code::PayloadSerialise);
        assert!(error.message().contains("order.placed"), "{error}");
    }

    #[test]
    fn the_key_has_precedence_over_the_aggregate() {
        let event = Event::new("a", "").with_aggregate("Order", "42");
        assert_eq!((event.message_key(), event.ordering_key().as_deref()), (Some("42"), Some("Order/42")));
        let event = event.with_key("k");
        assert_eq!((event.message_key(), event.ordering_key().as_deref()), (Some("k"), Some("k")));
    }
}
