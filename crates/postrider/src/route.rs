//! Event to destination name.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Event;

/// Decides where the events of one subscription go: to the event's own topic, else to a fixed name.
///
/// ```
/// use postrider::{Event, route::{Route, Router}};
///
/// let router = Router::to("orders").only(["order.placed"]);
/// assert_eq!(router.route(&Event::new("order.placed", "{}")), Route::To("orders".into()));
/// assert_eq!(router.route(&Event::new("user.born", "{}")), Route::Filtered);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Router {
    default: Option<Arc<str>>,
    only: Option<HashSet<String>>,
}

/// What the router says of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Send it to the destination of this name.
    To(Arc<str>),
    /// The subscription does not want it: it is done.
    Filtered,
    /// The subscription wants it and no rule says where to: hold it back, visibly.
    Unrouted,
}

impl Router {
    /// Sends an event to its own topic, else to `default`.
    pub fn to(default: impl Into<Arc<str>>) -> Self {
        Self { default: Some(default.into()), only: None }
    }

    /// Sends an event to its own topic; one without is [`Route::Unrouted`].
    pub fn by_topic() -> Self {
        Self::default()
    }

    /// Takes only events of these types; others are [`Route::Filtered`], whatever their topic. Replaces an
    /// earlier list. An empty list takes nothing.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.only = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Decides for one event. The same event always goes the same way.
    pub fn route(&self, event: &Event) -> Route {
        if self.only.as_ref().is_some_and(|types| !types.contains(&event.event_type)) {
            return Route::Filtered;
        }
        match (&event.topic, &self.default) {
            // A relay sends most events to few names: sharing the default's saves the copy.
            (Some(topic), Some(default)) if **topic == **default => Route::To(Arc::clone(default)),
            (Some(topic), _) => Route::To(Arc::from(topic.as_str())),
            (None, Some(default)) => Route::To(Arc::clone(default)),
            (None, None) => Route::Unrouted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_of_the_event_goes_before_the_default() {
        let event = Event::new("order.placed", "{}");
        assert_eq!(Router::to("orders").route(&event), Route::To("orders".into()));
        assert_eq!(Router::to("orders").route(&event.with_topic("vip")), Route::To("vip".into()));
    }

    #[test]
    fn an_event_without_topic_and_default_is_unrouted() {
        assert_eq!(Router::by_topic().route(&Event::new("order.placed", "{}")), Route::Unrouted);
    }

    #[test]
    fn a_type_outside_the_list_is_filtered_even_with_a_topic() {
        let router = Router::by_topic().only(["order.placed", "order.paid"]);
        assert_eq!(router.route(&Event::new("order.lost", "{}").with_topic("t")), Route::Filtered);
        assert_eq!(router.route(&Event::new("order.paid", "{}").with_topic("t")), Route::To("t".into()));
    }

    #[test]
    fn an_empty_list_takes_nothing() {
        let router = Router::to("orders").only(Vec::<String>::new());
        assert_eq!(router.route(&Event::new("order.placed", "{}")), Route::Filtered);
    }
}
