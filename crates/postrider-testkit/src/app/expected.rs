//! What a test expects of an event.

use postrider::{Event, IntoEvent, Timestamp};
use serde_json::Value;

/// An event that a test expects: its type, and as much of the rest as the test states.
///
/// ```
/// use postrider_testkit::Expected;
///
/// let expected = Expected::new("order.placed")
///     .aggregate("Order", "42")
///     .payload(serde_json::json!({"cents": 1200})); // other members may be there
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    event_type: String,
    aggregate: Option<(String, String)>,
    key: Option<String>,
    topic: Option<String>,
    headers: Vec<(String, String)>,
    namespace: Option<String>,
    producer: Option<String>,
    /// The name of the action, and its parameters.
    action: Option<(String, Option<Value>)>,
    max_attempts: Option<u32>,
    expires_at: Option<Timestamp>,
    payload: Option<Value>,
}

impl Expected {
    /// An event of this type.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self {
            event_type: event_type.into(),
            aggregate: None,
            key: None,
            topic: None,
            headers: Vec::new(),
            namespace: None,
            producer: None,
            action: None,
            max_attempts: None,
            expires_at: None,
            payload: None,
        }
    }

    /// An event like this one: its type, its headers, every member of its JSON payload, and whichever of aggregate, key,
    /// topic, namespace, producer, action, `max_attempts` and `expires_at` it has. Ids and times of the event and of its
    /// action are not compared.
    ///
    /// # Panics
    /// If the event cannot be serialised.
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn of(event: impl IntoEvent) -> Self {
        let event = event.into_event().unwrap_or_else(|error| panic!("{error}"));
        Self {
            payload: serde_json::from_slice(&event.payload).ok(),
            aggregate: event.aggregate.map(|of| (of.kind, of.id)),
            key: event.key,
            topic: event.topic,
            headers: event.headers.into_iter().collect(),
            namespace: event.namespace,
            producer: event.producer,
            action: event.action.map(|action| (action.name, serde_json::from_str(&action.params).ok())),
            max_attempts: event.max_attempts,
            expires_at: event.expires_at,
            event_type: event.event_type,
        }
    }

    /// About this aggregate.
    #[must_use]
    pub fn aggregate(mut self, kind: impl Into<String>, id: impl ToString) -> Self {
        self.aggregate = Some((kind.into(), id.to_string()));
        self
    }

    /// With this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// With this header, among others.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// In this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Caused by an action of this name.
    #[must_use]
    pub fn action(mut self, name: impl Into<String>) -> Self {
        self.action = Some((name.into(), None));
        self
    }

    /// With a JSON payload that contains this value: objects may have more members, everything else is equal.
    #[must_use]
    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(payload);
        self
    }

    /// What is different in an event, one line each; empty if it is as expected.
    pub(super) fn differences(&self, event: &Event) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, expected: Option<&str>, actual: Option<&str>| {
            if let Some(expected) = expected.filter(|expected| Some(*expected) != actual) {
                found.push(format!("{what}: expected {expected:?}, found {}", shown(actual)));
            }
        };
        compare("type", Some(&self.event_type), Some(&event.event_type));
        let aggregate = |kind: &str, id: &str| format!("{kind}/{id}");
        let expected = self.aggregate.as_ref().map(|(kind, id)| aggregate(kind, id));
        let actual = event.aggregate.as_ref().map(|of| aggregate(&of.kind, &of.id));
        compare("aggregate", expected.as_deref(), actual.as_deref());
        compare("key", self.key.as_deref(), event.key.as_deref());
        compare("topic", self.topic.as_deref(), event.topic.as_deref());
        compare("namespace", self.namespace.as_deref(), event.namespace.as_deref());
        compare("producer", self.producer.as_deref(), event.producer.as_deref());
        let actual = event.action.as_ref();
        let name = self.action.as_ref().map(|(name, _)| name.as_str());
        compare("action", name, actual.map(|action| action.name.as_str()));
        let limits =
            [self.max_attempts, event.max_attempts].map(|limit| limit.map(|limit| limit.to_string()));
        compare("max_attempts", limits[0].as_deref(), limits[1].as_deref());
        let times = [self.expires_at, event.expires_at].map(|time| time.map(|time| time.to_string()));
        compare("expires_at", times[0].as_deref(), times[1].as_deref());
        for (name, value) in &self.headers {
            compare(&format!("header {name}"), Some(value), event.headers.get(name));
        }
        if let (Some((_, Some(expected))), Some(action)) = (&self.action, actual) {
            let params = serde_json::from_str(&action.params).unwrap_or_default();
            compare_json("action.params", expected, &params, &mut found);
        }
        if let Some(expected) = &self.payload {
            match serde_json::from_slice(&event.payload) {
                Ok(actual) => compare_json("payload", expected, &actual, &mut found),
                Err(_) => found.push(format!("payload: expected {expected}, found bytes that are not JSON")),
            }
        }
        found
    }

    /// Type and aggregate in one line.
    pub(super) fn title(&self) -> String {
        match &self.aggregate {
            Some((kind, id)) => format!("{} {kind}/{id}", self.event_type),
            None => self.event_type.clone(),
        }
    }
}

fn shown(text: Option<&str>) -> String {
    text.map_or("none".to_owned(), |text| format!("{text:?}"))
}

/// Adds a line per difference. Objects may have members that are not expected.
fn compare_json(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (name, value) in expected {
                match actual.get(name) {
                    Some(actual) => compare_json(&format!("{path}.{name}"), value, actual, found),
                    None => found.push(format!("{path}.{name}: expected {value}, found no such member")),
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare_json(&format!("{path}[{index}]"), expected, actual, found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: expected {expected}, found {actual}")),
    }
}
